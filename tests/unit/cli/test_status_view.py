"""`status` and `workers` say which weights a role has, and where workers of one role differ."""

from pathlib import Path

import pytest

from omniflow.cli.status_view import model_lines, summary_lines
from omniflow.launch import ClusterState, Kind, ProcessIdentity, ProcessState, ProcessStatus
from omniflow.v1.cluster_pb2 import ClusterStatus, PageLayout, RoleInfo, WorkerInfo, WorkerStatus


def _worker(name: str, weights: str) -> WorkerStatus:
    layout = PageLayout(page_tokens=16, layers=30, description="30xk:3x64", page_bytes=737_280)
    llm = RoleInfo(name="llm", weights_fingerprint=weights, page_layout=layout)
    return WorkerStatus(info=WorkerInfo(name=name, roles=[llm, RoleInfo(name="ocr")]))


def test_workers_with_equal_weights_share_a_line_and_others_get_their_own() -> None:
    workers = [_worker("one", "a" * 64), _worker("two", "b" * 64), _worker("zero", "a" * 64)]
    assert model_lines(workers) == [
        f"llm on one, zero: weights {'a' * 12}, pages of 16 tokens (720 KiB)",
        f"llm on two: weights {'b' * 12}, pages of 16 tokens (720 KiB)",
    ]


@pytest.mark.parametrize(
    ("leader", "other", "line"),
    [
        ("127.0.0.1:1", ProcessState.RUNNING, "scheduler leads, scheduler-2 stands by"),
        ("127.0.0.1:2", ProcessState.RUNNING, "scheduler-2 leads, scheduler stands by"),
        ("127.0.0.1:2", ProcessState.WAITING, "scheduler-2 leads, scheduler is away: nobody stands by"),
    ],
)
def test_of_two_schedulers_the_leading_one_is_named(leader: str, other: ProcessState, line: str) -> None:
    names = {"scheduler": "127.0.0.1:1", "scheduler-2": "127.0.0.1:2"}
    processes = tuple(
        ProcessStatus(name, Kind.SCHEDULER, ProcessState.RUNNING if address == leader else other, Path("log"))
        for name, address in names.items()
    )
    state = ClusterState(
        "x", Path("run"), ",".join(names.values()), (), ProcessIdentity(pid=1, started=1, boot=""), processes=processes
    )
    lines = summary_lines(ClusterStatus(cluster="x", registry_reachable=True), leader, state)
    assert lines[0].startswith(f"cluster 'x' at {leader}, up")
    assert lines[2:] == [line]
