"""Nothing that a worker loads may write or send reports about its use."""

import os

# onnxruntime keeps a store of them in the home folder; it reads this when it is imported, and later is too late.
VARIABLES = ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK")


def turn_off_telemetry() -> None:
    """For libraries that are not loaded yet."""
    for variable in VARIABLES:
        os.environ[variable] = "1"
