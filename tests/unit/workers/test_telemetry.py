"""A worker leaves nothing in the home folder for its libraries' makers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.models
def test_onnxruntime_writes_no_store_of_reports(tmp_path: Path) -> None:
    script = "from omniflow_workers.telemetry import turn_off_telemetry; turn_off_telemetry(); import onnxruntime"
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for name in ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        environment.pop(name, None)
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
