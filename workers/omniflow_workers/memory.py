"""The process's memory: what was large goes back to the system when it is freed."""

import ctypes

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # of mallopt(3)
_LARGE = 8 << 20
_SPARE = 16 << 20


def give_large_blocks_back() -> None:
    """Call it before there are threads. Does nothing where the C library has no such option.

    By itself, glibc takes blocks of up to 32 MiB from its own heaps once one such block has been freed, and keeps up to
    64 MiB at the end of each thread's heap: after a few large frames, that is a producer's memory for good. Fixed
    thresholds keep every block of 8 MiB or more on pages of its own, which are gone when it is freed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, _LARGE)
    mallopt(_TRIM_THRESHOLD, _SPARE)
