"""The flows that a cluster file names, compiled."""

import sys
from pathlib import Path

from omniflow.flow import load_flows


def compile_flows(folder: Path | None, targets: tuple[str, ...]) -> list[bytes]:
    """Serialized `omniflow.v1.Flow`s. `folder`: where modules beside the cluster file lie.

    Raises `OmniFlowError` naming the user's line.
    """
    if targets and folder and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return [flow.to_proto().SerializeToString() for target in targets for flow in load_flows(target)]
