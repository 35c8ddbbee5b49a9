"""`status` and `workers` say which weights a role has, and where workers of one role differ."""

from pathlib import Path

import pytest

from omniflow.cli.status_view import model_lines, summary_lines
from omniflow.launch import ClusterState, Kind, ProcessIdentity, ProcessState, ProcessStatus
from omniflow.v1.cluster_pb2 import ClusterStatus, PageLayout, RoleInfo, StandbyStatus, WorkerInfo, WorkerStatus


def _worker(name: str, weights: str, device: str = "cpu") -> WorkerStatus:
    layout = PageLayout(page_tokens=16, layers=30, description="30xk:3x64", page_bytes=737_280)
    llm = RoleInfo(name="llm", weights_fingerprint=weights, page_layout=layout)
    return WorkerStatus(info=WorkerInfo(name=name, roles=[llm, RoleInfo(name="ocr")], host="here", device=device))


def test_workers_with_equal_weights_share_a_line_and_others_get_their_own() -> None:
    workers = [_worker("one", "a" * 64), _worker("two", "b" * 64), _worker("zero", "a" * 64)]
    assert model_lines(workers) == [
        f"llm on one, zero: weights {'a' * 12} (1 copy for all 2), pages of 16 tokens (720 KiB)",
        f"llm on two: weights {'b' * 12}, pages of 16 tokens (720 KiB)",
    ]


def test_weights_on_several_devices_are_said_to_be_several_copies() -> None:
    workers = [_worker(name, "a" * 64, device) for name, device in (("one", "cuda:0"), ("two", "cuda:1"))]
    assert model_lines(workers) == [f"llm on one, two: weights {'a' * 12} (2 copies), pages of 16 tokens (720 KiB)"]


def test_weights_of_a_role_without_pages_are_shown_too() -> None:
    vision = RoleInfo(name="vision", weights_fingerprint="c" * 64)
    worker = WorkerStatus(info=WorkerInfo(name="one", roles=[vision]))
    assert model_lines([worker]) == [f"vision on one: weights {'c' * 12}"]


@pytest.mark.parametrize(
    ("leader", "standby", "line"),
    [
        (
            "127.0.0.1:1",
            StandbyStatus(name="scheduler-2", state=StandbyStatus.IN_SYNC),
            "scheduler leads, scheduler-2 stands by, in sync",
        ),
        (
            "127.0.0.1:2",
            StandbyStatus(name="scheduler", state=StandbyStatus.CATCHING_UP, behind=12),
            "scheduler-2 leads, scheduler catches up (12 entries behind): it cannot take over yet",
        ),
        (
            "127.0.0.1:2",
            StandbyStatus(name="scheduler", state=StandbyStatus.AWAY),
            "scheduler-2 leads, scheduler is away: nobody stands by",
        ),
        (
            "10.0.0.9:7070",
            StandbyStatus(state=StandbyStatus.AWAY),
            "10.0.0.9:7070 leads, the other one is away: nobody stands by",
        ),
        (
            "127.0.0.1:1",
            StandbyStatus(name="far", state=StandbyStatus.LEAVING),
            "scheduler leads, far does not answer: what is new waits until etcd has marked it out of sync",
        ),
    ],
)
def test_of_two_schedulers_it_says_who_leads_and_whether_the_other_one_could(
    leader: str, standby: StandbyStatus, line: str
) -> None:
    names = {"scheduler": "127.0.0.1:1", "scheduler-2": "127.0.0.1:2"}
    processes = tuple(ProcessStatus(name, Kind.SCHEDULER, ProcessState.RUNNING, Path("log")) for name in names)
    state = ClusterState(
        "x", Path("run"), ",".join(names.values()), (), ProcessIdentity(pid=1, started=1, boot=""), processes=processes
    )
    status = ClusterStatus(cluster="x", registry_reachable=True, standby=standby)
    lines = summary_lines(status, leader, state)
    assert lines[0].startswith(f"cluster 'x' at {leader}, up")
    assert lines[2:] == [line]


def test_a_single_scheduler_says_nothing_of_another_one() -> None:
    assert len(summary_lines(ClusterStatus(cluster="x", registry_reachable=True), "127.0.0.1:1")) == 2
