"""Big tensors lie where their producer wrote them, until whoever reads them is done or dead, and then no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from omniflow.client import Client
from omniflow.errors import Cancelled, OmniFlowError
from omniflow.flow import flow, use
from omniflow.types import Text
from omniflow.v1.data_pb2 import BlobAccount
from tests.cluster_fixtures.cluster import LOOK_EVERY_S, PATIENCE_S, PuppetCluster, running, write_cluster
from tests.cluster_fixtures.heavy import Heavy
from tests.cluster_fixtures.stage import Stage

MEBIBYTE = 1 << 20
SIZE = 8
WORKERS = ["maker", "reader", "keeper", "narrow"]

maker = use(Heavy, "maker")
reader = use(Heavy, "reader")
keeper = use(Heavy, "keeper")
narrow = use(Heavy, "narrow")


@flow
def fanned_out(text: Text) -> tuple[Text, Text]:
    """One tensor, two readers elsewhere."""
    tensor = maker.make(text)
    return reader.read(tensor), keeper.read(tensor)


@flow
def handed_on(text: Text) -> Text:
    return reader.read(maker.fill(text))


@flow
def spoilt(text: Text) -> Text:
    return reader.spoil(maker.make(text))


@flow
def kept(text: Text) -> Text:
    return keeper.keep(maker.make(text))


@flow
def let_go(text: Text) -> Text:
    return keeper.let_go(text)


@flow
def too_big_for_its_arena(text: Text) -> Text:
    return reader.look_at(narrow.make(text))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PuppetCluster]:
    workers: list[dict[str, Any]] = [{"name": name, "roles": [name]} for name in WORKERS]
    workers[-1]["arena_bytes"] = MEBIBYTE
    with running(write_cluster(tmp_path_factory.mktemp("heavy"), workers)) as started:
        yield started


async def blobs(client: Client) -> dict[str, BlobAccount]:
    """Of every worker: one that is busy, or starts again, may be silent when it is asked."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = {each.worker: each.account.blobs for each in await client.memory() if not each.silent}
            if len(found) == len(WORKERS):
                return found
            await asyncio.sleep(LOOK_EVERY_S)


async def until_blobs(
    client: Client, holds: Callable[[dict[str, BlobAccount]], bool], what: str
) -> dict[str, BlobAccount]:
    """Nobody tells of changes in the accounts, so this looks."""
    found = await blobs(client)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not holds(found):
                await asyncio.sleep(LOOK_EVERY_S)
                found = await blobs(client)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {PATIENCE_S:g} s; {found}") from None
    return found


async def at_base_line(client: Client) -> None:
    def free(found: dict[str, BlobAccount]) -> bool:
        now = [(each.blobs_now, each.bytes_now, each.leases_now, each.mapped_now) for each in found.values()]
        return now == [(0, 0, 0, 0)] * len(WORKERS)

    await until_blobs(client, free, "no big value lies anywhere")


async def test_a_tensor_with_two_readers_is_one_copy_and_free_when_its_job_is_done(
    cluster: PuppetCluster, client: Client, stage: Stage
) -> None:
    before = await blobs(client)
    job = await client.submit(fanned_out, {"text": f"3:{SIZE}"})
    acts = await stage.acts(2)
    now = await blobs(client)
    assert (now["maker"].blobs_now, now["maker"].leases_now) == (1, 2)
    assert now["maker"].sent_in_place == before["maker"].sent_in_place + 2
    assert [now[name].sent_inline for name in now] == [before[name].sent_inline for name in now]
    assert (now["reader"].mapped_now, now["keeper"].mapped_now) == (1, 1)
    for act in acts:
        act.go_on()
    assert list((await job.result()).values()) == [f"3:{SIZE}"] * 2
    await at_base_line(client)


async def test_a_role_cannot_write_to_what_others_read(cluster: PuppetCluster, client: Client) -> None:
    with pytest.raises(OmniFlowError, match="read-only"):
        await (await client.submit(spoilt, {"text": f"4:{SIZE}"})).result()
    await at_base_line(client)


async def test_a_job_that_is_cancelled_leaves_nothing(cluster: PuppetCluster, client: Client, stage: Stage) -> None:
    job = await client.submit(handed_on, {"text": f"5:{SIZE}"})
    act = await stage.act()
    await job.cancel()
    assert await act.says() == "cancelled"
    with pytest.raises(Cancelled):
        await job.result()
    await at_base_line(client)


@pytest.mark.parametrize("victim", ["reader", "maker"])
async def test_a_tensor_is_read_rightly_and_freed_whoever_is_killed(
    cluster: PuppetCluster, client: Client, stage: Stage, victim: str
) -> None:
    job = await client.submit(handed_on, {"text": f"6:{SIZE}"})
    act = await stage.act()
    process = cluster.kill(victim)
    await cluster.until_replaced(process, victim)
    if victim == "reader":
        act = await stage.act()
    act.go_on()
    # Where the producer dies, the reader goes on: its memory outlives it.
    assert (await job.result())["result"] == f"6:{SIZE}"
    await cluster.until_ready(client)
    await at_base_line(client)


async def test_what_an_arena_has_no_room_for_arrives_all_the_same(cluster: PuppetCluster, client: Client) -> None:
    before = (await blobs(client))["narrow"]
    result = await (await client.submit(too_big_for_its_arena, {"text": f"7:{SIZE}"})).result()
    assert result["result"] == f"7:{SIZE}"
    after = (await blobs(client))["narrow"]
    assert (after.sent_inline, after.sent_in_place) == (before.sent_inline + 1, before.sent_in_place)
    await at_base_line(client)


@pytest.mark.parametrize("ending", ["let go", "killed"])
async def test_who_keeps_a_tensor_after_its_job_keeps_its_memory_until_it_lets_go_or_dies(
    cluster: PuppetCluster, client: Client, ending: str
) -> None:
    await (await client.submit(kept, {"text": f"8:{SIZE}"})).result()
    await cluster.until_settled(client)
    found = await until_blobs(client, lambda found: found["reader"].mapped_now == 0, "the job is over")
    assert (found["maker"].blobs_now, found["maker"].leases_now, found["keeper"].mapped_now) == (1, 1, 1)
    if ending == "let go":
        result = await (await client.submit(let_go, {"text": "now"})).result()
        assert result["result"] == f"8:{SIZE}"
    else:
        process = cluster.kill("keeper")
        await cluster.until_replaced(process, "keeper")
        await cluster.until_ready(client)
    await at_base_line(client)
