"""Certificates in the cluster file, and how they get to the processes."""

from pathlib import Path

import pytest

from omniflow.config import ConfigError, load_cluster
from omniflow.launch.plan import make_plan
from omniflow_scheduler.config import SchedulerSettings
from omniflow_workers.config import WorkerConfig

CLUSTER = """
cluster: small
run: run
tls: {certificate: certs/node.pem, key: /etc/node.key, authority: certs/ca.pem}
workers:
  - name: one
    roles: [roles:One]
"""


def _write(folder: Path, text: str) -> Path:
    file = folder / "cluster.yaml"
    file.write_text(text)
    return file


def test_certificates_lie_relative_to_the_file_and_reach_every_process(tmp_path: Path) -> None:
    plan = make_plan(load_cluster(_write(tmp_path, CLUSTER)))
    contents = {file.stem: content for file, content in plan.files.items()}
    wanted = (str(tmp_path / "certs/node.pem"), "/etc/node.key", str(tmp_path / "certs/ca.pem"))
    for tls in (
        SchedulerSettings.model_validate(contents["scheduler"]).tls,
        WorkerConfig.model_validate(contents["one"]).tls,
    ):
        assert tls is not None
        assert tls.files == wanted


def test_a_section_without_a_key_is_an_error_that_names_it(tmp_path: Path) -> None:
    text = CLUSTER.replace("key: /etc/node.key, ", "")
    with pytest.raises(ConfigError, match=r"cluster.yaml:4: 'tls.key' is missing"):
        load_cluster(_write(tmp_path, text))
