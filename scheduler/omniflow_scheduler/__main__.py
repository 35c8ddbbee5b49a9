"""`python -m omniflow_scheduler --config FILE`."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from omniflow.config import ConfigError
from omniflow.errors import OmniFlowError
from omniflow.registry import RegistryUnreachable
from omniflow_scheduler.config import SchedulerSettings, load_settings
from omniflow_scheduler.errors import BadJournal, ExitCode, PortInUse
from omniflow_scheduler.logs import set_up_logging
from omniflow_scheduler.process import SchedulerProcess

log = logging.getLogger("omniflow_scheduler")


def main(arguments: Sequence[str] | None = None) -> ExitCode:
    """Runs a scheduler until it is told to stop."""
    parser = argparse.ArgumentParser(prog="omniflow_scheduler", description="The scheduler of one Omni-Flow cluster.")
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="its configuration, YAML or JSON")
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="lead though another scheduler's journal has more, and nobody leads: what only that one has is lost",
    )
    told = parser.parse_args(arguments)
    try:
        settings = load_settings(told.config)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.BAD_CONFIG
    set_up_logging(settings.log_level, settings.log_format)
    try:
        return _run(settings, told.take_over)
    except PortInUse as error:
        return _failed(error, ExitCode.PORT_IN_USE)
    except BadJournal as error:
        return _failed(error, ExitCode.BAD_JOURNAL)
    except RegistryUnreachable as error:
        return _failed(error, ExitCode.REGISTRY_UNREACHABLE)
    except OmniFlowError as error:
        return _failed(error, ExitCode.FAILED)


def _run(settings: SchedulerSettings, take_over: bool) -> ExitCode:
    async def run() -> ExitCode:
        return await SchedulerProcess(settings, take_over=take_over).run()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def _failed(error: OmniFlowError, code: ExitCode) -> ExitCode:
    log.error("%s", error)
    return code


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    if code is ExitCode.STOPPED_AT_ONCE:
        # The hub may still wait for jobs in a thread, and nobody waits for that any more.
        os._exit(code)
    sys.exit(code)
