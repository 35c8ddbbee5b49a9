"""How scheduler and workers tell that the other one is alive. Both sides must agree on these, so they stand here."""

DEFAULT_HEARTBEAT_S = 1.0
"""Pause between two messages of an idle link."""
DEFAULT_HEARTBEAT_LIMIT_S = 10.0
"""A side that was silent for so long is taken for dead."""
DEFAULT_RECONNECT_S = 2.0
"""How long a link may stay broken before its other side is taken for dead."""


def check_heartbeats(heartbeat_s: float, limit_s: float) -> None:
    """Raises ValueError for a limit that passes before the next heartbeat is due."""
    if heartbeat_s >= limit_s:
        raise ValueError(
            f"heartbeat_s ({heartbeat_s:g}) must be less than heartbeat_limit_s ({limit_s:g}): an idle worker would be "
            "taken for dead between two heartbeats; a tenth of the limit is a good heartbeat"
        )
