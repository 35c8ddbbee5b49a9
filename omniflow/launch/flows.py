"""The flows that a cluster file names, compiled."""

import sys
from pathlib import Path

from omniflow.config import line_of
from omniflow.errors import BadFlow, InvalidArgument, OmniFlowError, UnknownFlow
from omniflow.flow import load_flows


def compile_flows(file: Path | None, targets: tuple[str, ...]) -> list[bytes]:
    """Serialized `omniflow.v1.Flow`s. `file`: the cluster file; modules may lie beside it.

    Raises `OmniFlowError` naming the user's line: in the flow, or in the cluster file where that names no flow.
    """
    folder = str(file.parent) if file else ""
    if targets and folder and folder not in sys.path:
        sys.path.insert(0, folder)
    compiled = []
    for index, target in enumerate(targets):
        try:
            compiled += [flow.to_proto().SerializeToString() for flow in load_flows(target)]
        except (InvalidArgument, UnknownFlow, BadFlow) as error:
            raise _placed(error, file, index) from error
    return compiled


def _placed(error: OmniFlowError, file: Path | None, index: int) -> OmniFlowError:
    """Said of the entry in the cluster file, unless the error names lines of a flow."""
    if file is None or (isinstance(error, BadFlow) and error.problems):
        return error
    line = line_of(file, ("flows", index))
    place = f"{file}:{line}" if line else str(file)
    return type(error)(f"{place}: 'flows[{index}]': {error.message}", cause=error.cause, cure=error.cure)
