"""Rules 14 and 17 with two schedulers: the one that stands by goes on where the one that was killed had got to."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from omniflow.client import Client
from omniflow.flow import collect, each, flow, use
from omniflow.launch.ports import free_port
from omniflow.launch.readiness import until_listening
from omniflow.types import Stream, Text
from tests.cluster_fixtures.cluster import PATIENCE_S, PuppetCluster, running, write_cluster
from tests.cluster_fixtures.command import omniflow
from tests.cluster_fixtures.puppets import Puppet
from tests.cluster_fixtures.stage import Stage, open_stage
from tests.cluster_fixtures.submit import next_job_runs

WORKERS: list[dict[str, Any]] = [
    {"name": "one", "roles": ["first"]},
    {"name": "two", "count": 2, "roles": ["second"]},
    {"name": "three", "roles": ["third"]},
]
# Nobody is dead here but who is killed, however busy the machine.
LIMITS = {"heartbeat_limit_s": 20.0, "reconnect_s": 10.0, "client_grace_s": 20.0, "max_deadline_s": 60.0}
# So long that the one that stands by has led for long when the killed one is back.
RESTART_S = 2.0
TEXT = "one two three four five"

first = use(Puppet, "first")
second = use(Puppet, "second")
third = use(Puppet, "third")


@flow
def dripped(text: Text) -> Stream[Text]:
    """Each word when the test says so; the test hears of every run of both nodes."""
    return third.drip(first.tell(text))


@flow
def fanned_out(text: Text) -> Text:
    """Each word is held by one of two workers."""
    return third.join(collect(second.hold(word) for word in each(first.words(text))))


class Schedulers:
    """The two of the cluster: which leads, and which stands by."""

    def __init__(self, cluster: PuppetCluster) -> None:
        self.cluster = cluster
        self._addresses = dict(zip(("scheduler", "scheduler-2"), cluster.state.address.split(","), strict=True))

    async def leader(self, client: Client) -> str:
        await client.cluster_status()
        return next(name for name, address in self._addresses.items() if address == client.address)

    def other(self, name: str) -> str:
        return next(other for other in self._addresses if other != name)

    async def until_there(self, name: str) -> None:
        """It listens, so that it stands by from now on at the latest."""
        async with asyncio.timeout(PATIENCE_S):
            await until_listening(self._addresses[name])

    async def until_said_to_stand_by(self, name: str) -> None:
        """In its log. It looks for some seconds whether the other one lives."""

        def stands_by() -> bool:
            log = self.cluster.log(name)
            return log.rfind("standing by") > log.rfind("leading cluster")

        await self.cluster.until(stands_by, f"{name} stands by")

    async def kill_leader(self, client: Client) -> str:
        """Returns once another one serves; who that is."""
        leader = await self.leader(client)
        await self.until_there(self.other(leader))
        self.cluster.kill(leader)
        successor = await self.leader(client)
        assert successor == self.other(leader)
        return successor


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PuppetCluster]:
    scheduler = {
        "listen": f"127.0.0.1:{free_port('127.0.0.1')}",
        "standby_listen": "127.0.0.1:0",
        "limits": LIMITS,
        "drain_timeout_s": 5,
    }
    restart = {"first_delay_s": RESTART_S, "max_delay_s": RESTART_S}
    file = write_cluster(
        tmp_path_factory.mktemp("standby"),
        WORKERS,
        schedulers=2,
        scheduler=scheduler,
        restart=restart,
        start_timeout_s=60,
    )
    with running(file) as cluster:
        yield cluster


@pytest.fixture
def schedulers(cluster: PuppetCluster) -> Schedulers:
    return Schedulers(cluster)


@pytest.fixture
async def client(cluster: PuppetCluster) -> AsyncIterator[Client]:
    """Told both addresses."""
    async with Client(cluster.state.address, connect_timeout=20) as connected:
        await cluster.until_settled(connected)
        yield connected


@pytest.fixture
async def stage(cluster: PuppetCluster) -> AsyncIterator[Stage]:
    async with open_stage(cluster.stage) as opened:
        yield opened


async def test_rule_17_a_stream_goes_on_under_the_other_scheduler_and_nothing_runs_twice(
    client: Client, cluster: PuppetCluster, schedulers: Schedulers, stage: Stage
) -> None:
    workers = {name: cluster.process(name) for name in ("one", "two-0", "two-1", "three")}
    term = (await client.cluster_status()).term
    job = await client.submit(dripped, {"text": TEXT})
    told, dripping = await stage.acts(2)
    assert (told.node, dripping.node) == ("first.tell", "third.drip")
    frames = aiter(job)
    words = []
    for _ in range(2):
        dripping.go_on()
        words.append((await anext(frames)).value)
    await schedulers.kill_leader(client)
    for _ in range(3):
        dripping.go_on()
    assert words + [frame.value async for frame in frames] == TEXT.split()
    assert stage.quiet, "a role ran again"
    assert await dripping.says() == ""
    assert {name: cluster.process(name) for name in workers} == workers
    assert (await client.cluster_status()).term > term
    await next_job_runs(client)


async def test_rule_14_a_fan_out_goes_on_where_it_runs_and_no_key_of_it_runs_twice(
    client: Client, cluster: PuppetCluster, schedulers: Schedulers, stage: Stage
) -> None:
    """This client finds the leader by etcd."""
    async with Client(etcd=cluster.state.etcd, cluster="puppets", connect_timeout=20) as finder:
        job = await finder.submit(fanned_out, {"text": TEXT})
        acts = await stage.acts(len(TEXT.split()))
        assert {act.worker for act in acts} == {"two-0", "two-1"}
        acts[0].go_on()
        assert await acts[0].says() == ""
        await schedulers.kill_leader(client)
        for act in acts[1:]:
            act.go_on()
        assert await job.result() == {"result": TEXT}
        assert stage.quiet, "a key ran again"
        await next_job_runs(finder)


async def test_rule_17_what_is_submitted_while_nobody_leads_is_accepted_once_and_runs(
    client: Client, cluster: PuppetCluster, schedulers: Schedulers, stage: Stage
) -> None:
    leader = await schedulers.leader(client)
    await schedulers.until_there(schedulers.other(leader))
    await next_job_runs(client)
    cluster.kill(leader)
    async with asyncio.timeout(25):
        jobs = await asyncio.gather(*(client.submit("told", {"text": str(number)}) for number in range(4)))
        assert [await job.result() for job in jobs] == [{"result": str(number)} for number in range(4)]
    assert {act.job for act in await stage.acts(4)} == {job.id for job in jobs}
    assert stage.quiet, "a job ran twice"
    assert await schedulers.leader(client) == schedulers.other(leader)


async def test_a_killed_scheduler_comes_back_to_stand_by(client: Client, schedulers: Schedulers) -> None:
    leader = await schedulers.kill_leader(client)
    await schedulers.until_said_to_stand_by(schedulers.other(leader))
    assert await schedulers.leader(client) == leader


async def test_status_says_which_scheduler_leads_and_that_the_other_stands_by(
    client: Client, cluster: PuppetCluster, schedulers: Schedulers
) -> None:
    leader = await schedulers.leader(client)
    other = schedulers.other(leader)
    await schedulers.until_there(other)
    done = await omniflow("status", "--cluster", str(cluster.file), folder=cluster.run)
    assert done.status == 0, done.output
    assert f"{leader} leads, {other} stands by" in done.stdout
    assert f"at {client.address}, up" in done.stdout
