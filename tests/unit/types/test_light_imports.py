"""Processes that see no picture, sound or tensor do not pay for NumPy and Pillow (half a second of CPU)."""

import subprocess
import sys


def test_flows_roles_and_workers_are_imported_without_numpy_and_pillow() -> None:
    code = (
        "import sys, omniflow.flow, omniflow.roles, omniflow.types, omniflow_workers.process\n"
        "heavy = {'numpy', 'PIL', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
