"""A second worker answers from the first one's pages, and nothing of that is held once both have answered."""

import asyncio
import shlex

import pytest

from omniflow.client import Client
from omniflow.v1.job_pb2 import Report
from tests.cluster_fixtures.command import omniflow
from tests.integration.flows.conftest import Example
from tests.integration.flows.driving import run

pytestmark = pytest.mark.models

PAGE_TOKENS = 16
LOOK_EVERY_S = 0.05
PATIENCE_S = 100.0  # a model computes, on a machine that may have much else to do


def features_of(report: Report, node: str) -> dict[str, float]:
    (found,) = [dict(each.features) for each in report.activations if each.node == node]
    return found


async def commands(on: Example) -> list[str]:
    """Runs what its cluster file shows between `up` and `down`; gives what each has written."""
    lines = [line.removeprefix("#   ") for line in (on.folder / "cluster.yaml").read_text().splitlines()]
    shown = [shlex.split(line)[1:] for line in lines if line.startswith(("omniflow submit", "omniflow status"))]
    written = []
    for arguments in shown:
        local = [each.replace("examples/shared_prefix/", "") for each in arguments]
        done = await omniflow(*local, folder=on.folder)
        assert done.status == 0, done.output
        written.append(done.output)
    return written


async def test_the_commands_that_the_shared_prefix_cluster_file_shows_tell_of_a_prompt_that_was_mapped(
    shared_prefix: Example,
) -> None:
    first, second, status = await commands(shared_prefix)
    assert "mapped" not in first
    assert "mapped" in second
    assert "first: lends" in status
    assert "second: lends" in status


async def test_a_worker_answers_from_pages_of_another_as_that_one_would(shared_prefix: Example) -> None:
    document = (shared_prefix.folder / "timetable.txt").read_text() + "Lost property is kept at the kiosk."
    asked = {"document": document, "question": "What does a flag on the lighthouse mean?"}
    theirs, report = await run(shared_prefix, "ask_first", asked, PATIENCE_S, max_tokens=4)
    computed = features_of(report, "first.chat")
    ours, report = await run(shared_prefix, "ask_second", asked, PATIENCE_S, max_tokens=4)
    mapped = features_of(report, "second.chat")
    assert ours == theirs
    assert computed["mapped_tokens"] + computed["pulled_tokens"] == 0
    full = (mapped["prompt_tokens"] - 1) // PAGE_TOKENS * PAGE_TOKENS
    assert (mapped["reused_tokens"] + mapped["mapped_tokens"], mapped["pulled_tokens"]) == (full, 0)
    assert mapped["mapped_tokens"] > 0


async def test_nothing_is_lent_any_more_when_the_answers_are_there(shared_prefix: Example) -> None:
    async with Client(shared_prefix.address) as client, asyncio.timeout(PATIENCE_S):
        while True:
            held = {each.worker: each.account for each in await client.memory()}
            if not any(each.leases.leases_now or each.borrowed.leases_now for each in held.values()):
                break
            await asyncio.sleep(LOOK_EVERY_S)
    assert set(held) == {"first", "second"}
    assert [each.pulls.received_bytes for each in held.values()] == [0, 0]
    assert held["first"].leases.granted >= 1
    assert held["second"].borrowed.acquired >= 1
