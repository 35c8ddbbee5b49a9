"""A log that cannot be written costs lines, not the process."""

import subprocess
import sys
from pathlib import Path

import pytest

SAY = """
import logging
from omniflow_scheduler.logs import set_up_logging
set_up_logging("info", "{form}")
logging.getLogger("x").info("first\\nsecond")
print("alive")
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, the disk that is always full")
def test_a_full_disk_does_not_take_the_process_down() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-c", SAY.format(form="text")], stdout=-1, stderr=full, timeout=20)
    assert done.stdout == b"alive\n"


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_event_is_one_line(form: str) -> None:
    done = subprocess.run([sys.executable, "-c", SAY.format(form=form)], capture_output=True, timeout=20)
    assert done.stderr.count(b"\n") == 1
    assert b"second" in done.stderr
