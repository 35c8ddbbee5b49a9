"""`python -m omniflow_workers --config FILE`: one worker process."""

import argparse
import logging
import os
import sys
from pathlib import Path

from omniflow.errors import OmniFlowError
from omniflow_workers.config import read_config
from omniflow_workers.memory import give_large_blocks_back
from omniflow_workers.telemetry import turn_off_telemetry
from omniflow_workers.threads import limit_threads
from omniflow_workers.weights.cache import default_folder

# What a supervisor may tell apart: a configuration that will not get better by itself, and everything else.
EXIT_WRONG_CONFIGURATION = 2
EXIT_FAILED = 1


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="omniflow_workers", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="a YAML or JSON file with the keys of WorkerConfig")
    arguments = parser.parse_args()
    try:
        config = read_config(arguments.config)
    except OmniFlowError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_WRONG_CONFIGURATION
    logging.basicConfig(
        level=config.log_level.upper(), format=f"%(asctime)s %(levelname)s {config.name} %(name)s: %(message)s"
    )
    # A disk that is full must not take the worker down.
    logging.raiseExceptions = False
    log = logging.getLogger(__name__)
    # Before NumPy comes with the rest: OpenBLAS starts its threads when it is loaded.
    limit_threads(config.threads)
    give_large_blocks_back()
    turn_off_telemetry()
    from omniflow_workers.process import run

    try:
        run(config, default_folder())
    except OmniFlowError as error:
        log.error("%s", error)
        return EXIT_FAILED
    except Exception:
        log.exception("worker %s ends by a defect, of a role or of the worker", config.name)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    code = main()
    # Engines leave threads behind that would keep the interpreter waiting; everything of ours is closed by now.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
