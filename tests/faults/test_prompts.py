"""Bad prompts, and a language model that dies in mid-answer: whoever shares its batch notices nothing."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from omniflow.client import Client, Job, SyncClient
from omniflow.errors import Cancelled, InvalidArgument
from tests.cluster_fixtures.cluster import LIMITS, PuppetCluster, running, write_cluster
from tests.cluster_fixtures.submit import whole_report

pytestmark = [pytest.mark.models, pytest.mark.timeout(400)]

FLOW = Path(__file__).parents[1] / "cluster_fixtures" / "asked_flow.py"
QUESTION = "Tell me a long story about a fox who lives in a forest."


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PuppetCluster]:
    workers = [
        {"name": "llm", "roles": [{"class": "omniflow_workers.roles.llm:Llm"}]},
        {"name": "speaker", "roles": [{"class": "tests.cluster_fixtures.asked_flow:Speaker"}]},
    ]
    # A model is loaded anew within a job's time, on a machine that has other things to do as well.
    limits = {**LIMITS, "max_deadline_s": 100.0}
    folder = tmp_path_factory.mktemp("llm")
    written = write_cluster(folder, workers, limits, flows=[str(FLOW)], start_timeout_s=100)
    with running(written) as started:
        yield started


@pytest.fixture
async def asker(cluster: PuppetCluster) -> AsyncIterator[Client]:
    async with Client(cluster.address) as connected:
        yield connected


@pytest.fixture(scope="module")
def answer(cluster: PuppetCluster) -> str:
    """What the model says when nobody disturbs it."""
    with SyncClient(cluster.address) as client:
        return "".join(client.submit("asked", {"question": QUESTION}).result()["result"])


async def text_of(job: Job) -> str:
    return "".join((await job.result())["result"])


async def begun(client: Client) -> tuple[Job, str]:
    """A job that has said something already, and what."""
    job = await client.submit("asked", {"question": QUESTION})
    async for frame in job:
        return job, str(frame.value)
    raise AssertionError("the model said nothing")


async def test_bad_prompts_are_named_and_others_in_the_batch_are_undisturbed(asker: Client, answer: str) -> None:
    job, beginning = await begun(asker)
    bad = {"empty": "", "blank": "  \n ", "over the window": "fox " * 9_000}
    errors = {}
    for name, question in bad.items():
        with pytest.raises(InvalidArgument) as caught:
            await text_of(await asker.submit("asked", {"question": question}))
        errors[name] = caught.value
    for error in errors.values():
        assert (error.field, error.node, error.worker) == ("question", "llm.chat", "llm")
        assert error.cure
    assert "empty" in errors["empty"].message
    assert "8191" in str(errors["over the window"]).replace(",", "")
    assert beginning + await text_of(job) == answer


async def test_a_cancelled_answer_stops_and_others_in_the_batch_are_undisturbed(asker: Client, answer: str) -> None:
    (cancelled, _), (job, beginning) = await asyncio.gather(begun(asker), begun(asker))
    await cancelled.cancel()
    with pytest.raises(Cancelled):
        await cancelled.result()
    assert beginning + await text_of(job) == answer


async def test_an_answer_goes_on_without_a_seam_after_its_model_was_killed(
    cluster: PuppetCluster, asker: Client, answer: str
) -> None:
    job, beginning = await begun(asker)
    cluster.kill("llm")
    assert beginning + await text_of(job) == answer


async def interrupted(cluster: PuppetCluster, client: Client) -> tuple[Job, list[list[str]]]:
    """A job whose model is killed when five pieces were written and spoken, and its two results."""
    job = await client.submit("spoken_answer", {"question": QUESTION})
    heard: dict[str, list[str]] = {}
    killed = False
    async for frame in job:
        pieces = heard.setdefault(frame.port, [])
        assert frame.seq == len(pieces)
        pieces.append(frame.value)
        if not killed and len(heard) == 2 and all(len(each) >= 5 for each in heard.values()):
            cluster.kill("llm")
            killed = True
    return job, list(heard.values())


async def test_rule_12_whoever_speaks_an_answer_goes_on_too_and_nothing_that_was_heard_is_generated_again(
    cluster: PuppetCluster, asker: Client, answer: str
) -> None:
    job, results = await interrupted(cluster, asker)
    if len(await attempts(asker, job, "llm.chat")) == 1:  # it had said everything before it died
        job, results = await interrupted(cluster, asker)
    written, spoken = results
    assert written == spoken
    assert "".join(written) == answer
    assert len(await attempts(asker, job, "speaker.speak")) == 1
    lost, resumed = await attempts(asker, job, "llm.chat")
    assert lost == {}
    assert resumed["resumed_tokens"] >= 5
    assert resumed["generated_tokens"] + resumed["resumed_tokens"] == 48


async def attempts(client: Client, job: Job, node: str) -> list[dict[str, float]]:
    """Features of each attempt at a node."""
    report = await whole_report(client, job.id)
    return [dict(each.features) for each in report.activations if each.node == node]
