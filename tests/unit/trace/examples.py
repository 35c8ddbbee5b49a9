"""Jobs to trace, made by hand: the compiled example flows and reports as the scheduler would give them."""

import sys
from pathlib import Path
from typing import Any

from omniflow.flow import load_flows
from omniflow.v1 import flow_pb2, job_pb2

EXAMPLES = Path(__file__).parents[3] / "examples"
DONE = job_pb2.NodeProgress.DONE


def example_flow(name: str) -> flow_pb2.Flow:
    """ "pdf:read_pdf": that flow of examples/pdf."""
    folder, _, flow = name.partition(":")
    place = str(EXAMPLES / folder)
    sys.path.insert(0, place)
    try:
        return load_flows(f"{place}/{folder}_flow.py:{flow}")[0].to_proto()
    finally:
        sys.path.remove(place)


def ran(node: str, worker: str, queued: int, started: int, first: int, ended: int, **more: Any) -> Any:
    """An attempt that ended well."""
    fields: dict[str, Any] = {"attempt": 1, "state": DONE, **more}
    return job_pb2.ActivationReport(
        node=node, worker=worker, queued_us=queued, started_us=started, first_frame_us=first, ended_us=ended, **fields
    )


def traffic(port: str, frames: int, size: int, first: int, last: int, *sampled: int) -> job_pb2.PortTraffic:
    return job_pb2.PortTraffic(
        port=port, frames=frames, bytes=size, first_us=first, last_us=last, sampled_us=list(sampled)
    )


def pdf_job(**more: Any) -> job_pb2.JobStatus:
    """Two pages, read on two workers at once."""
    activations = [
        ran("splitter.pages", "splitter", 10, 20, 30, 60, outputs=[traffic("result", 2, 200, 30, 50, 30, 50)]),
        ran(
            "ocr.read",
            "ocr-0",
            35,
            40,
            90,
            90,
            key=[0],
            outputs=[traffic("result", 1, 40, 90, 90)],
            inputs=[traffic("page", 1, 96, 35, 35)],
        ),
        ran(
            "ocr.read",
            "ocr-1",
            55,
            70,
            120,
            120,
            key=[1],
            outputs=[traffic("result", 1, 44, 120, 120)],
            inputs=[traffic("page", 1, 104, 55, 55)],
        ),
        ran(
            "llm.answer",
            "llm",
            130,
            140,
            200,
            200,
            features={"prompt_tokens": 41.0},
            outputs=[traffic("result", 1, 9, 200, 200)],
        ),
    ]
    fields: dict[str, Any] = {
        "job": "00000000000000aa",
        "flow": "read_pdf",
        "flow_version": b"\x01\x02",
        "state": job_pb2.JobStatus.SUCCEEDED,
        "age_ms": 5000,
        "report": job_pb2.Report(
            jct_us=210, first_frame_us=205, arrived_unix_us=1_700_000_000_000_000, activations=activations
        ),
        **more,
    }
    return job_pb2.JobStatus(**fields)
