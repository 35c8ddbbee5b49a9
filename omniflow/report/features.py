"""The work features that a role reports, in words."""

from collections.abc import Mapping

# In this order, before all others. What is read off them first: how much there was, and how much of it was reused.
_WORDS = {
    "prompt_tokens": "prompt {} tokens",
    "reused_tokens": "reused {}",
    "mapped_tokens": "mapped {}",
    "pulled_tokens": "pulled {}",
    "computed_tokens": "computed {}",
    "resumed_tokens": "went on after {}",
    "generated_tokens": "generated {}",
    "pixels": "{} pixels",
    "lines": "{} lines",
    "words": "{} words",
    "characters": "{} characters",
    "sentences": "{} sentences",
    "audio_seconds": "{} s of sound",
}

# Said only when there were any: most jobs have none.
_SELDOM = ("mapped_tokens", "pulled_tokens", "resumed_tokens")


def describe_features(features: Mapping[str, float]) -> str:
    """For example "prompt 312 tokens, reused 288, computed 24, generated 41"."""
    said = [name for name in _WORDS if name in features and (features[name] or name not in _SELDOM)]
    known = [_WORDS[name].format(_number(features[name])) for name in said]
    other = [f"{name} {_number(features[name])}" for name in sorted(features.keys() - _WORDS.keys())]
    return ", ".join(known + other)


def _number(value: float) -> str:
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"
