"""Rule 17 in etcd: only a scheduler whose journal has all that clients were told is elected."""

import asyncio

import pytest

from omniflow.registry import Candidate, Election, Leader, NoLeader, Registry, SyncSet
from omniflow.registry.blocking import BlockingEtcd
from omniflow.registry.keys import Keys
from tests.integration.registry.conftest import TTL

FIRST, SECOND = Candidate("first", alone=False), Candidate("second", alone=False)


def journals(etcd: str, cluster: str) -> tuple[str, ...]:
    found = BlockingEtcd([etcd], 3.0).get(Keys(cluster).in_sync)
    return SyncSet.parse(found.value).journals if found else ()


async def led_by_the_first(etcd: str, cluster: str) -> Election:
    leader = Election(etcd, cluster, "127.0.0.1:1", ttl=TTL, candidate=FIRST)
    leader.start()
    await leader.elected(10)
    return leader


async def test_rule_17_an_election_makes_the_leaders_journal_the_only_one_that_may_lead(
    shared_etcd: str, cluster: str
) -> None:
    leader = await led_by_the_first(shared_etcd, cluster)
    assert journals(shared_etcd, cluster) == ("first",)
    assert await asyncio.to_thread(leader.mark, "second")
    assert journals(shared_etcd, cluster) == ("first", "second")
    standby = Election(shared_etcd, cluster, "127.0.0.1:2", ttl=TTL, candidate=SECOND)
    standby.start()
    await asyncio.to_thread(leader.close)
    assert await standby.elected(10) > leader.term
    assert journals(shared_etcd, cluster) == ("second",)
    await asyncio.to_thread(standby.close)


async def test_rule_17_a_standby_out_of_sync_never_campaigns_and_waits_for_the_one_that_is(
    shared_etcd: str, cluster: str
) -> None:
    leader = await led_by_the_first(shared_etcd, cluster)
    await asyncio.to_thread(leader.mark, "second")
    assert await asyncio.to_thread(leader.mark, None)
    standby = Election(shared_etcd, cluster, "127.0.0.1:2", ttl=TTL, candidate=SECOND)
    standby.start()
    await asyncio.to_thread(leader.close)
    with pytest.raises(NoLeader):
        await standby.elected(2)
    again = await led_by_the_first(shared_etcd, cluster)
    assert journals(shared_etcd, cluster) == ("first",)
    await asyncio.to_thread(again.close)
    await asyncio.to_thread(standby.close)


async def test_rule_14_a_leader_whose_term_is_over_marks_nobody(shared_etcd: str, cluster: str) -> None:
    leader = await led_by_the_first(shared_etcd, cluster)
    etcd = BlockingEtcd([shared_etcd], 3.0)
    # Somebody else was elected while it was stopped, and has died already.
    etcd.put(Keys(cluster).term, str(leader.term + 1).encode(), lease=0)
    assert not await asyncio.to_thread(leader.mark, "second")
    assert journals(shared_etcd, cluster) == ("first",)
    assert leader.superseded_by is not None
    assert leader.superseded_by.term == leader.term + 1
    etcd.close()
    await asyncio.to_thread(leader.close)


async def test_a_scheduler_that_has_no_standby_leads_whatever_the_set_says(shared_etcd: str, cluster: str) -> None:
    leader = await led_by_the_first(shared_etcd, cluster)
    await asyncio.to_thread(leader.close)
    single = Election(shared_etcd, cluster, "127.0.0.1:2", ttl=TTL, candidate=Candidate("other"))
    single.start()
    await single.elected(10)
    assert journals(shared_etcd, cluster) == ("other",)
    await asyncio.to_thread(single.close)


async def test_an_operator_may_have_a_standby_take_over_that_is_out_of_sync(shared_etcd: str, cluster: str) -> None:
    leader = await led_by_the_first(shared_etcd, cluster)
    await asyncio.to_thread(leader.close)
    told = Candidate("second", alone=False, take_over=True)
    standby = Election(shared_etcd, cluster, "127.0.0.1:2", ttl=TTL, candidate=told)
    standby.start()
    await standby.elected(10)
    assert journals(shared_etcd, cluster) == ("second",)
    await asyncio.to_thread(standby.close)


async def test_a_standby_hears_who_leads_and_where_its_journal_is_followed(shared_etcd: str, cluster: str) -> None:
    leader = Election(shared_etcd, cluster, "127.0.0.1:1", ttl=TTL, journal_address="tcp:127.0.0.1:7", candidate=FIRST)
    leader.start()
    term = await leader.elected(10)
    loop, heard = asyncio.get_running_loop(), asyncio.Queue[Leader]()

    def hear(other: Leader) -> None:
        loop.call_soon_threadsafe(heard.put_nowait, other)

    standby = Election(
        shared_etcd,
        cluster,
        "127.0.0.1:2",
        ttl=TTL,
        candidate=SECOND,
        on_leader=hear,
    )
    standby.start()
    async with asyncio.timeout(20):
        other = await heard.get()
    assert (other.term, other.journal_address) == (term, "tcp:127.0.0.1:7")
    async with Registry(shared_etcd, cluster) as registry:
        assert await registry.leader() == other
    await asyncio.to_thread(standby.close)
    await asyncio.to_thread(leader.close)
