"""A bounded cycle that takes another branch each round."""

import pytest

from omniflow.client import Client
from omniflow.errors import LoopLimit
from omniflow.types import AnyRecord
from tests.integration.flows.conftest import Example
from tests.integration.flows.driving import PATIENCE_S, activations, run, submitted


async def test_a_loop_takes_the_branch_that_each_round_chooses_and_gives_out_its_part_at_once(agent: Example) -> None:
    async with Client(agent.address) as client:
        job = await client.submit("compose", {"request": "tiat"}, deadline=PATIENCE_S)
        parts = [frame.value async for frame in job]
        assert [kind_of(part) for part in parts] == ["text", "image", "audio", "text"]


async def test_a_branch_that_no_round_takes_is_bound_to_nobody(agent: Example) -> None:
    results, report = await run(agent, "compose", {"request": "tt"})
    assert [kind_of(part) for part in results["result"]] == ["text", "text"]
    # What a worker says of a round after the job's end is in no report, so that there may be fewer than ran.
    assert set(activations(report)) <= {"planner.begin", "planner.next", "writer.write"}


async def test_a_loop_that_is_not_over_at_its_bound_fails_by_its_name(agent: Example) -> None:
    with pytest.raises(LoopLimit, match=r"agent_flow.py:\d+: loop `loop` was not over after 32 rounds") as failed:
        await run(agent, "compose", {"request": "t" * 33})
    assert (failed.value.node, failed.value.worker) == ("loop", "planner")
    results, _report = await run(agent, "compose", {"request": "t" * 32})
    assert len(results["result"]) == 32


async def test_the_command_that_the_agent_cluster_file_shows_writes_each_part(agent: Example) -> None:
    assert await submitted(agent) != []


async def test_many_loops_at_once_keep_to_themselves(agent: Example) -> None:
    requests = ["tia"[index % 3] * (1 + index % 5) for index in range(24)]
    async with Client(agent.address) as client:
        jobs = [await client.submit("compose", {"request": each}, deadline=PATIENCE_S) for each in requests]
        answers = [(await job.result())["result"] for job in jobs]
    assert [[kind_of(part) for part in answer] for answer in answers] == [
        [{"t": "text", "i": "image", "a": "audio"}[letter] for letter in request] for request in requests
    ]


def kind_of(part: AnyRecord) -> str:
    fields = part.fields
    (kind,) = [name for name, value in fields.items() if value is not None]
    return str(kind)
