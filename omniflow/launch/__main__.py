"""The supervisor as a background process: `python -m omniflow.launch RUN/config/cluster.json --report FD`."""

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from omniflow.errors import BadFlow, OmniFlowError
from omniflow.launch.launcher import ClusterState
from omniflow.launch.local import supervise
from omniflow.launch.logs import LogPump
from omniflow.launch.told import read_told


class Report:
    """Tells who started us how it goes, until it is ready; tells the supervisor's log for ever."""

    def __init__(self, descriptor: int, log: LogPump) -> None:
        self._descriptor = descriptor
        self._log = log

    def progress(self, text: str) -> None:
        """One step."""
        self._log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode())
        self._send({"progress": text})

    def ready(self, state: ClusterState) -> None:
        """The last message of a good start."""
        self._send({"ready": state.address})
        self._close()

    def failed(self, error: OmniFlowError) -> None:
        """The last message of one that failed."""
        self._log.write(f"{error}\n".encode())
        # A flow's problems say in the message where each of them is.
        field = "" if isinstance(error, BadFlow) and error.problems else error.field
        parts = {"message": error.message, "field": field, "cause": error.cause, "cure": error.cure}
        self._send({"failed": parts, "code": error.code})
        self._close()

    def _send(self, message: dict[str, Any]) -> None:
        if self._descriptor < 0:
            return
        try:
            os.write(self._descriptor, json.dumps(message).encode() + b"\n")
        except OSError:  # it no longer listens: the cluster starts all the same
            self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m omniflow.launch")
    parser.add_argument("told", type=Path, help="what `omniflow up` wrote into the run folder")
    parser.add_argument("--report", type=int, required=True, help="descriptor of the pipe for messages")
    options = parser.parse_args()
    os.set_inheritable(options.report, False)
    report = Report(options.report, LogPump(options.told.parents[1] / "logs" / "supervisor.log"))
    try:
        asyncio.run(supervise(read_told(options.told), report, report.ready))
    except OmniFlowError as error:
        report.failed(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
