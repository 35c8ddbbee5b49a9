"""What can be wrong with weights, each with its cure."""

from __future__ import annotations

from pathlib import Path

from omniflow.errors import InvalidArgument, ResourceExhausted

_CURE = "free room on that disk, or set `cache:` in the cluster file (OMNIFLOW_CACHE) to a folder that has it"


class BadWeights(InvalidArgument):
    """A file that should hold weights in the safetensors format does not."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} is no whole safetensors file: {why}",
            field="model",
            cure="fetch or write it again; from another format, convert it with safetensors.torch.save_file",
        )


class NoRoomForWeights(ResourceExhausted):
    """The disk has no room for converted weights. `needed`, `free`: bytes; `folder`: where."""

    def __init__(self, folder: Path, needed: int, free: int) -> None:
        super().__init__(
            f"converted weights need {in_mebibytes(needed)} in {folder}, which has {in_mebibytes(free)} free",
            field="cache",
            cure=_CURE,
        )
        self.folder = folder
        self.needed = needed
        self.free = free


class CacheNotWritable(OSError):  # noqa: N818
    """Converted weights could not be written for another reason than room: no permission, a broken disk."""


class OwnerSilent(ResourceExhausted):
    """The process that loads a device's weights for others does not get done."""

    def __init__(self, fingerprint: str, device: str, seconds: float) -> None:
        super().__init__(
            f"the worker that loads the weights {fingerprint[:12]} on {device} has not done so within {seconds:g} s",
            cure="look at its log, and end it if it hangs: the next one loads them then",
        )


def in_mebibytes(count: int) -> str:
    """`count` bytes for people."""
    return f"{count / (1 << 20):,.1f} MiB"
