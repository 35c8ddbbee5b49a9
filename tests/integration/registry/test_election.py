"""One leader at a time, each with a higher term; one that is cut off goes on until it meets a higher one (rule 14)."""

import asyncio
import json
import subprocess
import sys

import pytest
from aetcd import rpc

from omniflow.registry import Election, EmbeddedEtcd, Leader, NoLeader, Registry, RegistryUnreachable
from omniflow.registry.blocking import BlockingEtcd
from omniflow.registry.keys import Keys
from tests.integration.registry.conftest import TTL, restarted

PATIENCE_S = 30.0
# A lease whose end nobody is patient enough to see.
LONG_TTL = 600.0

A_LEADER = """
import sys
from omniflow.registry import Election
election = Election(sys.argv[1], sys.argv[2], "127.0.0.1:1", ttl=float(sys.argv[3]))
election.start()
print(election.wait_elected(30), flush=True)
sys.stdin.read()
"""


async def test_the_second_candidate_leads_when_the_first_resigns(shared_etcd: str, cluster: str) -> None:
    first = Election(shared_etcd, cluster, "127.0.0.1:1", ttl=TTL)
    second = Election(shared_etcd, cluster, "127.0.0.1:2", ttl=TTL)
    first.start()
    term = await first.elected(PATIENCE_S)
    second.start()
    with pytest.raises(NoLeader):
        await second.elected(0.5)
    async with Registry(shared_etcd, cluster) as registry:
        leader = await registry.wait_leader(PATIENCE_S)
        assert (leader.address, leader.term) == ("127.0.0.1:1", term)
        await asyncio.to_thread(first.close)
        assert await second.elected(PATIENCE_S) > term
        leader = await registry.wait_leader(PATIENCE_S)
        assert leader.address == "127.0.0.1:2"
    await asyncio.to_thread(second.close)


def test_a_leader_killed_on_this_host_is_replaced_at_once(shared_etcd: str, cluster: str) -> None:
    command = [sys.executable, "-c", A_LEADER, shared_etcd, cluster, str(LONG_TTL)]
    leader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert leader.stdout is not None
    term = int(leader.stdout.readline())
    standby = Election(shared_etcd, cluster, "127.0.0.1:2")
    standby.start()
    leader.kill()
    leader.communicate()
    assert standby.wait_elected(PATIENCE_S) > term
    standby.close()


async def test_a_leader_meeting_a_higher_term_is_superseded(
    shared_etcd: str, cluster: str, operator: BlockingEtcd
) -> None:
    leader = Election(shared_etcd, cluster, "127.0.0.1:1", ttl=TTL)
    leader.start()
    term = await leader.elected(PATIENCE_S)
    other = Leader("127.0.0.1:2", term=term + 1000, host="elsewhere")
    operator.put(Keys(cluster).leader, other.encode(), lease=0)
    async with asyncio.timeout(PATIENCE_S):
        assert await leader.superseded() == other
    await asyncio.to_thread(leader.close)
    found = operator.get(Keys(cluster).leader)
    assert found is not None
    assert json.loads(found.value)["address"] == "127.0.0.1:2"


def test_a_leader_whose_successor_came_and_went_is_superseded_too(
    shared_etcd: str, cluster: str, operator: BlockingEtcd
) -> None:
    leader = Election(shared_etcd, cluster, "127.0.0.1:1", ttl=TTL)
    leader.start()
    term = leader.wait_elected(PATIENCE_S)
    operator.put(Keys(cluster).term, str(term + 1000).encode(), lease=0)
    held = operator.get(Keys(cluster).leader)
    assert held is not None
    operator.revoke(held.lease)
    superseded_by = leader.wait_superseded(PATIENCE_S)
    assert superseded_by is not None
    assert superseded_by.term == term + 1000
    leader.close()


def test_a_leader_keeps_its_term_when_etcd_lost_its_key(shared_etcd: str, cluster: str, operator: BlockingEtcd) -> None:
    leader = Election(shared_etcd, cluster, "127.0.0.1:1", ttl=TTL)
    leader.start()
    term = leader.wait_elected(PATIENCE_S)
    operator._call(
        "deleting",
        lambda channel: rpc.KVStub(channel).DeleteRange,
        rpc.DeleteRangeRequest(key=Keys(cluster).leader.encode()),
    )
    assert leader.wait_superseded(TTL) is None
    found = operator.get(Keys(cluster).leader)
    assert found is not None
    assert Leader.decode(found).term == term == leader.term
    leader.close()


def test_a_leader_outlives_a_restart_of_etcd(own_etcd: EmbeddedEtcd) -> None:
    leader = Election(own_etcd.endpoint, "c", "127.0.0.1:1", ttl=TTL)
    leader.start()
    term = leader.wait_elected(PATIENCE_S)
    own_etcd.stop()
    with leader._key.changed:
        assert leader._key.changed.wait_for(lambda: not leader.reachable, PATIENCE_S)
    assert leader.term == term
    with restarted(own_etcd):
        with leader._key.changed:
            assert leader._key.changed.wait_for(lambda: leader.reachable, PATIENCE_S)
        assert leader.superseded_by is None
        assert leader.term == term
        leader.close()


async def test_who_looks_for_a_leader_is_told_which_part_is_missing(shared_etcd: str, cluster: str) -> None:
    async with Registry(shared_etcd, cluster) as registry:
        with pytest.raises(NoLeader, match=cluster):
            await registry.wait_leader(0.5)
    async with Registry("127.0.0.1:9", cluster, timeout=0.5) as registry:
        with pytest.raises(RegistryUnreachable, match=r"127\.0\.0\.1:9"):
            await registry.wait_leader(1.0)
