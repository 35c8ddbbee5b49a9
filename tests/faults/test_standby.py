"""Rules 14 and 17 with two schedulers, each with its journal: the one that stands by goes on where the one that was
killed had got to, and does so only where it knows all that clients were told."""

import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from omniflow.client import Client
from omniflow.errors import Unavailable
from omniflow.flow import collect, each, flow, use
from omniflow.registry.health import forget_registrations
from omniflow.types import Stream, Text
from omniflow.v1.cluster_pb2 import StandbyStatus
from tests.cluster_fixtures.cluster import PuppetCluster, running, write_cluster
from tests.cluster_fixtures.command import omniflow
from tests.cluster_fixtures.ports import free_port
from tests.cluster_fixtures.puppets import Puppet
from tests.cluster_fixtures.stage import Stage
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

    def address(self, name: str) -> str:
        return self._addresses[name]

    def other(self, name: str) -> str:
        return next(other for other in self._addresses if other != name)

    async def until_in_sync(self, client: Client) -> None:
        await self.until_standby(client, StandbyStatus.IN_SYNC)

    async def until_standby(self, client: Client, state: "StandbyStatus.State.ValueType") -> None:
        """As the leader sees it."""
        what = f"the standby is {StandbyStatus.State.Name(state)}"
        await self.cluster.until_status(client, lambda status: status.standby.state == state, what)

    async def kill_leader(self, client: Client) -> str:
        """Returns once another one serves; who that is."""
        leader = await self.leader(client)
        await self.until_in_sync(client)
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
    await schedulers.until_in_sync(client)
    await next_job_runs(client)
    cluster.kill(leader)
    async with asyncio.timeout(25):
        jobs = await asyncio.gather(*(client.submit("told", {"text": str(number)}) for number in range(4)))
        assert [await job.result() for job in jobs] == [{"result": str(number)} for number in range(4)]
    assert {act.job for act in await stage.acts(4)} == {job.id for job in jobs}
    assert stage.quiet, "a job ran twice"
    assert await schedulers.leader(client) == schedulers.other(leader)


async def test_rule_17_a_killed_scheduler_comes_back_to_stand_by_in_sync(
    client: Client, schedulers: Schedulers
) -> None:
    leader = await schedulers.kill_leader(client)
    await schedulers.until_in_sync(client)
    assert await schedulers.leader(client) == leader


async def test_rule_17_without_its_standby_the_leader_goes_on_and_a_returning_one_can_take_over(
    client: Client, cluster: PuppetCluster, schedulers: Schedulers
) -> None:
    await schedulers.until_in_sync(client)
    leader = await schedulers.leader(client)
    other = schedulers.other(leader)
    cluster.kill(other)
    job = await client.submit("chain", {"text": "alone"}, idempotency_key="alone")
    assert await job.result() == {"result": "alone"}
    assert await schedulers.leader(client) == leader
    await schedulers.until_in_sync(client)
    assert await schedulers.kill_leader(client) == other
    again = await client.submit("chain", {"text": "alone"}, idempotency_key="alone")
    assert (again.id, again.existed) == (job.id, True)


async def test_rule_17_many_jobs_under_way_end_once_though_their_leader_dies(
    client: Client, schedulers: Schedulers, stage: Stage
) -> None:
    await schedulers.until_in_sync(client)

    async def run(number: int) -> str:
        job = await client.submit("chain", {"text": f"job {number}"})
        assert await job.result() == {"result": f"job {number}"}
        return job.id

    async with asyncio.timeout(28):
        running = [asyncio.create_task(run(number)) for number in range(16)]
        await asyncio.sleep(0)
        await schedulers.kill_leader(client)
        assert len({await task for task in running}) == 16


async def test_rule_14_a_stopped_leader_is_replaced_and_steps_down_when_it_goes_on(
    client: Client, cluster: PuppetCluster, schedulers: Schedulers
) -> None:
    await schedulers.until_in_sync(client)
    leader = await schedulers.leader(client)
    term = (await client.cluster_status()).term
    process = cluster.send(leader, signal.SIGSTOP)
    # As its registration would end, only sooner. Living processes register again.
    await asyncio.to_thread(forget_registrations, cluster.state.etcd[0])
    try:
        # Not over its connection to the stopped one, which is still open.
        async with Client(schedulers.address(schedulers.other(leader)), connect_timeout=28) as finder:
            assert (await finder.cluster_status()).term > term
            await cluster.until_ready(finder)
            await next_job_runs(finder)
    finally:
        process.send(signal.SIGCONT)
    await cluster.until_replaced(process, leader)
    assert await schedulers.leader(client) == schedulers.other(leader)
    await schedulers.until_in_sync(client)


async def test_rule_17_with_neither_standby_nor_etcd_new_jobs_are_refused_and_those_that_run_go_on(
    client: Client, cluster: PuppetCluster, schedulers: Schedulers, stage: Stage
) -> None:
    await schedulers.until_in_sync(client)
    leader = await schedulers.leader(client)
    job = await client.submit("held", {"text": "x"})
    act = await stage.act()
    etcd = cluster.send("etcd", signal.SIGSTOP)
    standby = cluster.send(schedulers.other(leader), signal.SIGSTOP)
    try:
        with pytest.raises(Unavailable) as refused:
            await client.submit("told", {"text": "y"})
        assert "neither the standby scheduler nor etcd answers" in refused.value.message
        assert refused.value.retry_after > 0
    finally:
        etcd.send(signal.SIGCONT)
        standby.send(signal.SIGCONT)
    act.go_on()
    assert await job.result() == {"result": "x"}
    await schedulers.until_in_sync(client)
    await next_job_runs(client)


async def test_status_says_which_scheduler_leads_and_that_the_other_stands_by(
    client: Client, cluster: PuppetCluster, schedulers: Schedulers
) -> None:
    leader = await schedulers.leader(client)
    other = schedulers.other(leader)
    await schedulers.until_in_sync(client)
    done = await omniflow("status", "--cluster", str(cluster.file), folder=cluster.run)
    assert done.status == 0, done.output
    assert f"{leader} leads, {other} stands by, in sync" in done.stdout
    assert f"at {client.address}, up" in done.stdout
