"""`threads` binds the libraries of a worker: it is set before any of them is loaded."""

import json
import subprocess
import sys
from pathlib import Path

ROLE = """
import os
import numpy as np
from omniflow import Text
from omniflow.roles import Role, method

class Counts(Role):
    def load(self, context):
        np.ones((256, 256)) @ np.ones((256, 256))
        tasks = os.listdir("/proc/self/task")
        print("threads", len(tasks), os.environ["OPENBLAS_NUM_THREADS"], flush=True)
        os._exit(0)

    @method
    def count(self, text: Text) -> Text:
        return text
"""


def _threads(folder: Path, count: int) -> list[str]:
    file = folder / "worker.json"
    roles = [{"class": "a_counting_role:Counts"}]
    file.write_text(
        json.dumps({"cluster": "c", "name": "w", "etcd": ["127.0.0.1:1"], "roles": roles, "threads": count})
    )
    done = subprocess.run(
        [sys.executable, "-m", "omniflow_workers", "--config", str(file)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stdout.startswith("threads"), done.stderr
    return done.stdout.split()[1:]


def test_numpy_starts_no_more_threads_than_the_worker_may_have(tmp_path: Path) -> None:
    (tmp_path / "a_counting_role.py").write_text(ROLE)
    (one, said_one), (four, said_four) = _threads(tmp_path, 1), _threads(tmp_path, 4)
    assert (said_one, said_four) == ("1", "4")
    assert int(one) < int(four)
