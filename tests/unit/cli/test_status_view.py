"""`status` and `workers` say which weights a role has, and where workers of one role differ."""

from omniflow.cli.status_view import model_lines
from omniflow.v1.cluster_pb2 import PageLayout, RoleInfo, WorkerInfo, WorkerStatus


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
