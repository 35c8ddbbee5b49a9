"""The client for threads has the names of the other, and does what they say."""

import asyncio
import inspect
import threading
from collections.abc import Iterator

import pytest

from omniflow.client import Client, Job, SyncClient, SyncJob
from omniflow.errors import OmniFlowError, Unavailable
from tests.unit.client.scripted_scheduler import echo_events, scripted_scheduler

# What jobs ask of their client, and the two ways of being a context manager.
INTERNAL = {"cancel_job", "signature_of", "take", "accept", "adopt", "fail", "next_seq"}


def public(kind: type) -> dict[str, inspect.Signature]:
    methods = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.signature(method) for name, method in methods if not name.startswith("_")}


@pytest.mark.parametrize(("asynchronous", "threaded"), [(Client, SyncClient), (Job, SyncJob)])
def test_both_have_the_same_methods_and_parameters(asynchronous: type, threaded: type) -> None:
    ours, theirs = public(asynchronous), public(threaded)
    assert set(ours) - INTERNAL == set(theirs)
    for name in theirs:
        assert list(ours[name].parameters) == list(theirs[name].parameters), name


@pytest.fixture
def address() -> Iterator[str]:
    """A scheduler, in a thread, that echoes every job at once."""
    started, stop = threading.Event(), threading.Event()
    found: list[str] = []

    async def serve() -> None:
        async with scripted_scheduler() as scheduler:
            found.append(scheduler.address)
            started.set()
            answering = asyncio.create_task(answer(scheduler))
            await asyncio.to_thread(stop.wait)
            answering.cancel()

    async def answer(scheduler) -> None:  # type: ignore[no-untyped-def]
        while True:
            stream = await scheduler.streams.get()
            while not stream.ended.is_set():
                message = await stream.received.get()
                stream.say(*echo_events(message.tag, str(message.tag), message.submit))

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(10)
    yield found[0]
    stop.set()
    thread.join(10)


def test_submit_iterate_and_result(address: str) -> None:
    with SyncClient(address) as client:
        job = client.submit("echo", {"parts": ["a", "b"]})
        assert [frame.value for frame in job] == ["a", "b"]
        assert client.submit("echo", {"text": "x"}).result() == {"whole": "x", "pieces": []}
        assert [flow.name for flow in client.flows()] == ["echo"]
        with pytest.raises(OmniFlowError, match="no job 9"):
            client.get("9")
    with pytest.raises(Unavailable, match="closed"):
        client.flows()
    client.close()


def test_threads_may_share_it(address: str) -> None:
    results: list[str] = []
    with SyncClient(address) as client:

        def work(number: int) -> None:
            results.append(client.submit("echo", {"text": f"job {number}"}).result()["whole"])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert sorted(results) == [f"job {number}" for number in range(8)]


def test_its_thread_ends_with_it(address: str) -> None:
    before = {thread.name for thread in threading.enumerate()}
    with SyncClient(address) as client:
        client.flows()
    after = {thread.name for thread in threading.enumerate()}
    assert "omniflow client" not in after - before
