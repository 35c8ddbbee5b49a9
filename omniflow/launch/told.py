"""What a supervisor in the background is told: the cluster as its caller has it, which may differ from the file."""

import json
from pathlib import Path

from omniflow.config import ClusterConfig
from omniflow.launch.errors import LaunchError
from omniflow.launch.state import make_rooms, write_private

_FILE = "cluster.json"


def write_told(config: ClusterConfig, run: Path) -> Path:
    """Makes the run folder's rooms and writes it there. Raises OSError."""
    make_rooms(run)
    located = config.model_copy(update={"run": run})
    content = {
        "file": str(config.file) if config.file else None,
        "cluster": located.model_dump(mode="json", by_alias=True),
    }
    told = run / "config" / _FILE
    write_private(told, json.dumps(content, indent=1))
    return told


def read_told(told: Path) -> ClusterConfig:
    """The same again. Raises `LaunchError`."""
    try:
        content = json.loads(told.read_text())
        config = ClusterConfig.model_validate(content["cluster"])
    except (OSError, ValueError, KeyError) as error:
        raise LaunchError(f"{told} cannot be read: {error}", cure="start the cluster with `omniflow up`") from None
    return config.read_from(Path(content["file"])) if content["file"] else config
