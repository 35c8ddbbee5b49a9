"""The supervisor is killed while flows run: its processes die with it; `up` brings the cluster back, and its jobs."""

from collections.abc import Iterator
from typing import Any

import pytest

from omniflow.client import Client
from omniflow.config import load_cluster
from omniflow.flow import collect, each, flow, use
from omniflow.launch import LocalLauncher, Silent
from omniflow.launch.identity import marked_with
from omniflow.types import Stream, Text
from tests.cluster_fixtures.cluster import LIMITS, PuppetCluster, running, write_cluster
from tests.cluster_fixtures.puppets import Puppet
from tests.cluster_fixtures.stage import Stage
from tests.cluster_fixtures.submit import next_job_runs

WORKERS: list[dict[str, Any]] = [
    {"name": "one", "roles": ["first"]},
    {"name": "two", "count": 2, "roles": ["second"]},
    {"name": "three", "roles": ["third"]},
]
TEXT = "one two three four"

first = use(Puppet, "first")
second = use(Puppet, "second")
third = use(Puppet, "third")


@flow
def fanned_out(text: Text) -> Text:
    """Each word is held by one of two workers."""
    return third.join(collect(second.hold(word) for word in each(first.words(text))))


@flow
def dripped(text: Text) -> Stream[Text]:
    """Each word when the test says so."""
    return third.drip(first.echo(text))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PuppetCluster]:
    limits = {**LIMITS, "client_grace_s": 20.0}
    with running(write_cluster(tmp_path_factory.mktemp("supervised"), WORKERS, limits)) as cluster:
        yield cluster


async def test_jobs_that_ran_under_a_supervisor_that_was_killed_run_again_after_the_next_up(
    client: Client, cluster: PuppetCluster, stage: Stage
) -> None:
    fan = await client.submit(fanned_out, {"text": TEXT})
    acts = await stage.acts(len(TEXT.split()))
    stream = await client.submit(dripped, {"text": TEXT})
    dripping = await stage.act()
    frames = aiter(stream)
    dripping.go_on()
    seen = [(await anext(frames)).value]
    cluster.kill("supervisor")
    for act in (*acts, dripping):
        assert await act.says() == "", "it died with its supervisor"
    await cluster.until(lambda: not list(marked_with(cluster.run)), "nothing is left of it")
    LocalLauncher().start(load_cluster(cluster.file), Silent())
    # Whatever runs again goes on at once; of the stream, the client is given what it lacks.
    for act in await stage.acts(len(TEXT.split()) + 1):
        for _ in TEXT.split():
            act.go_on()
    assert await fan.result() == {"result": TEXT}
    assert seen + [frame.value async for frame in frames] == TEXT.split()
    await next_job_runs(client)
