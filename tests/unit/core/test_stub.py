"""`_native.pyi` says exactly what the compiled module has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
STUBS = HERE.parents[2] / "core-rs"


def test_the_stub_is_true_of_the_module() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "omniflow_core._native", "--ignore-unused-allowlist"]
    command += ["--allowlist", str(HERE / "stubtest_allowlist.txt")]
    done = subprocess.run(
        command, env={**os.environ, "MYPYPATH": str(STUBS)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
