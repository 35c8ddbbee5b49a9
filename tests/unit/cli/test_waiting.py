"""Why a job waits."""

from omniflow.cli.waiting import unserved
from omniflow.v1.cluster_pb2 import RoleInfo, WorkerInfo, WorkerStatus
from omniflow.v1.flow_pb2 import Flow, Node

FLOW = Flow(nodes=[Node(name=f"{role}.run", role=role) for role in ("ocr", "llm", "", "tts", "llm")])


def worker(*roles: str, state: WorkerStatus.State.ValueType = WorkerStatus.READY) -> WorkerStatus:
    return WorkerStatus(info=WorkerInfo(roles=[RoleInfo(name=role) for role in roles]), state=state)


def test_the_roles_that_nobody_serves_are_named_once_each_in_the_flows_order() -> None:
    assert unserved(FLOW, [worker("tts")]) == ["ocr", "llm"]
    assert unserved(FLOW, [worker("tts", "llm"), worker("ocr")]) == []


def test_a_worker_that_leaves_or_is_lost_serves_nothing() -> None:
    states = (WorkerStatus.DRAINING, WorkerStatus.LOST, WorkerStatus.CONNECTING)
    assert unserved(FLOW, [worker("tts", "llm", "ocr", state=state) for state in states]) == ["ocr", "llm", "tts"]
