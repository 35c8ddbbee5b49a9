"""Links over TCP with the certificates that docs/clusters.md shows how to make."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from omniflow.client import Client
from omniflow.config import load_cluster
from omniflow.errors import OmniFlowError
from omniflow.launch import LocalLauncher, Silent
from tests.cluster_fixtures.certificates import TLS, make_certificates
from tests.cluster_fixtures.cluster import PuppetCluster, running, write_cluster
from tests.cluster_fixtures.submit import next_job_runs

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl command is not installed")


def _cluster(folder: Path, **more: Any) -> PuppetCluster:
    names = {"one": "first", "two": "second", "three": "third"}
    workers = [{"name": name, "roles": [role], "listen": ["tcp:127.0.0.1:0"]} for name, role in names.items()]
    return write_cluster(folder, workers, **more)


async def test_jobs_run_over_encrypted_links_made_as_the_docs_say(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    with running(_cluster(tmp_path, tls=TLS)) as cluster:
        async with Client(cluster.address) as client:
            await cluster.until_settled(client)
            await next_job_runs(client)


def test_a_certificate_that_cannot_be_used_ends_the_start_and_is_named_with_the_cure(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    (tmp_path / "gpu2.key").write_text("no key")
    cluster = _cluster(tmp_path, tls=TLS)
    launcher = LocalLauncher()
    with pytest.raises(OmniFlowError) as caught:
        launcher.start(load_cluster(cluster.file), Silent())
    text = f"{caught.value} {caught.value.cause}"
    assert "gpu2.key" in text
    assert "docs/clusters.md" in text
