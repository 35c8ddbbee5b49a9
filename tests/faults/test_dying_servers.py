"""etcd and the scheduler die, and nobody needs to lend a hand."""

import signal

import pytest

from omniflow.client import Client
from omniflow.errors import Unavailable
from omniflow.flow import flow, use
from omniflow.types import Text
from tests.cluster_fixtures.cluster import PuppetCluster
from tests.cluster_fixtures.puppets import Puppet
from tests.cluster_fixtures.stage import Stage
from tests.cluster_fixtures.submit import next_job_runs

third = use(Puppet, "third")


@flow
def made_without_etcd(text: Text) -> Text:
    return third.echo(text)


@flow
def made_after_etcd_came_back(text: Text) -> Text:
    return third.echo(text)


async def test_without_etcd_running_jobs_finish_and_new_ones_start(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    running = await client.submit("held", {"text": "x"})
    act = await stage.act()
    stopped = shared.send("etcd", signal.SIGSTOP)
    try:
        await next_job_runs(client)
        act.go_on()
        assert await running.result() == {"result": "x"}
        # What needs the registry says so, and is not believed to be done.
        with pytest.raises(Unavailable) as caught:
            await client.register_flow(made_without_etcd)
        assert "etcd" in str(caught.value)
        assert caught.value.cure
        await next_job_runs(client)
    finally:
        stopped.send(signal.SIGCONT)
    await shared.until_status(client, lambda status: status.registry_reachable, "etcd is seen to be back")


async def test_etcd_that_is_killed_comes_back_and_so_do_the_registrations(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    running = await client.submit("held", {"text": "x"})
    act = await stage.act()
    killed = shared.kill("etcd")
    await next_job_runs(client)
    await shared.until_replaced(killed, "etcd")
    act.go_on()
    assert await running.result() == {"result": "x"}
    await shared.until_status(client, lambda status: status.registry_reachable, "etcd is seen to be back")
    job = await client.submit(made_after_etcd_came_back, {"text": "x"})
    assert await job.result() == {"result": "x"}
    # A worker that starts now is found through the registry, and takes the place of the one that was registered.
    shared.kill("three")
    await next_job_runs(client)


async def test_rule_14_a_killed_scheduler_returns_and_what_ran_goes_on_untouched(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    term = (await client.cluster_status()).term
    workers = {name: shared.process(name) for name in ("one", "two-0", "two-1", "three")}
    running = await client.submit("held", {"text": "x"})
    act = await stage.act()
    killed = shared.kill("scheduler")
    await shared.until_replaced(killed, "scheduler")
    await shared.until_ready(client)
    # The attempt that ran is the one that answers: it was neither stopped nor run a second time.
    act.go_on()
    assert await running.result() == {"result": "x"}
    await next_job_runs(client)
    await shared.until_settled(client)
    assert (await client.cluster_status()).term > term
    assert {name: shared.process(name) for name in workers} == workers
    # Flows that were registered by clients are known to the new one, too.
    assert any(known.name == "chain" for known in await client.flows())
