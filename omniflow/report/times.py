"""Durations as people read them."""


def describe_us(microseconds: float) -> str:
    """Three digits at most: "412 us", "8.3 ms", "1.24 s", "2 min 5 s"."""
    return describe_seconds(microseconds / 1e6)


def describe_seconds(seconds: float) -> str:
    """The same of seconds."""
    if seconds == 0:
        return "0"
    if seconds < 0.9995e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 0.9995:
        milliseconds = seconds * 1e3
        return f"{milliseconds:.{2 if milliseconds < 10 else 1 if milliseconds < 100 else 0}f} ms"
    if seconds < 99.5:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
