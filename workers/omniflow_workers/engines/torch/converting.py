"""Conversion of a model's weights: here, or in a process of its own (`python -m`, which this module is, too).

A process that has converted keeps hundreds of megabytes: transformers, and heaps that were torn (378 MiB for the 135 M
parameters of SmolLM2). A worker lives for weeks, so it has a child do that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omniflow.errors import InternalError, OmniFlowError, from_proto
from omniflow.v1.error_pb2 import Error
from omniflow_workers.weights.cache import Convert
from omniflow_workers.weights.source import WeightsSource

Converting = Callable[[WeightsSource], Convert]

_FAILED = 3


def here(source: WeightsSource) -> Convert:
    """In this process."""

    def convert(folder: Path) -> None:
        source.check()
        from omniflow_workers.engines.torch.load import examine
        from omniflow_workers.weights.convert import convert

        convert(source, folder, examine)

    return convert


def in_child(source: WeightsSource) -> Convert:
    """In a process of its own, which ends with this one, however this one ends. Raises what the child raised."""

    def convert(folder: Path) -> None:
        command = [sys.executable, "-m", __name__, source.name, str(source.path), str(folder)]
        # It ends when its input does: the kernel closes that with this process.
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # noqa: S603  ourselves
            assert child.stdout is not None
            said = child.stdout.read()
        if child.returncode == _FAILED:
            raise _raised(json.loads(said))
        if child.returncode != 0:
            raise _ended(source, child.returncode)

    return convert


def main() -> int:
    """Converts the source named by the arguments (name, path) into the folder that is the last one."""
    name, path, folder = sys.argv[1:]
    # What libraries print is no answer of ours.
    answer = os.dup(1)
    os.dup2(2, 1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        here(WeightsSource(name, Path(path)))(Path(folder))
    except Exception as error:
        os.write(answer, json.dumps(_told(error)).encode())
        return _FAILED
    return 0


def _end_with_parent() -> None:
    while os.read(0, 1 << 12):
        pass
    os._exit(1)


def _told(error: Exception) -> dict[str, Any]:
    """An error for the other process."""
    if isinstance(error, OmniFlowError):
        return {"proto": error.to_proto().SerializeToString().hex()}
    if isinstance(error, OSError) and error.errno is not None:
        return {"errno": error.errno, "text": error.strerror, "file": error.filename and str(error.filename)}
    if isinstance(error, ImportError):
        return {"missing": str(error)}
    return {"type": type(error).__name__, "text": str(error), "cause": traceback.format_exc()}


def _raised(told: dict[str, Any]) -> Exception:
    match told:
        case {"proto": proto}:
            return from_proto(Error.FromString(bytes.fromhex(proto)))
        case {"errno": number, "text": text, "file": file}:
            return OSError(number, text, file)
        case {"missing": text}:
            return ImportError(text)
        case _:
            return InternalError(
                f"the weights cannot be converted: {told['type']}: {told['text']}",
                cause=told["cause"],
                cure="name another model, or mend its files",
            )


def _ended(source: WeightsSource, status: int) -> InternalError:
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return InternalError(
        f"the process that converts the weights of {source.name} {how}",
        cure="see this worker's log; when memory ran out, give the machine more: about twice the model in fp32",
    )


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
