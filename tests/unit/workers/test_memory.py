"""After a few large frames a worker is as small as before them."""

import subprocess
import sys

MEBIBYTE = 1 << 20
PROGRAM = """
import sys, threading
from pathlib import Path
from omniflow_workers.memory import give_large_blocks_back

if sys.argv[1] == "given-back":
    give_large_blocks_back()

def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096

def frames():
    kept = [b"x" * (30 << 20) for _ in range(8)]
    del kept

before = resident()
for _ in range(3):
    thread = threading.Thread(target=frames)
    thread.start()
    thread.join()
print(resident() - before)
"""


def _grown(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_what_large_frames_took_is_given_back() -> None:
    assert _grown("given-back") < 8 * MEBIBYTE, f"by itself the C library keeps {_grown('by-itself') // MEBIBYTE} MiB"
