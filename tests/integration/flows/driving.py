"""Drives an example flow on its cluster."""

import shlex
from collections import Counter
from typing import Any

import numpy as np

from omniflow import Audio, Image
from omniflow.client import Client
from omniflow.types import AnyRecord
from omniflow.v1.job_pb2 import Report
from tests.cluster_fixtures.command import omniflow
from tests.cluster_fixtures.submit import whole_report
from tests.integration.flows.conftest import Example

PATIENCE_S = 40.0
SOUND = Audio.from_array(np.zeros(800, np.float32), sample_rate=8_000)


def picture(width: int) -> Image:
    return Image.from_array(np.zeros((4, width), np.uint8))


def scan_of(pages: list[Image]) -> AnyRecord:
    """As the example's own `Scan`, which this process does not import."""
    return AnyRecord("Scan", {"title": "a title", "pages": pages})


async def run(
    on: Example, flow: str, inputs: dict[str, Any], within: float = PATIENCE_S, **parameters: Any
) -> tuple[dict[str, Any], Report]:
    """Its results, and where its time went."""
    async with Client(on.address) as client:
        job = await client.submit(flow, inputs, parameters=parameters, deadline=within)
        results = await job.result()
        return results, await whole_report(client, job.id)


def activations(report: Report) -> Counter[str]:
    return Counter(activation.node for activation in report.activations)


async def submitted(on: Example) -> list[str]:
    """Runs the `submit` that its cluster file shows; gives the names of what it wrote."""
    lines = (on.folder / "cluster.yaml").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("#   omniflow submit ")]
    _, *arguments = shlex.split(line.removeprefix("#"))
    done = await omniflow(*arguments, folder=on.folder)
    assert done.status == 0, done.output
    return sorted(file.name for file in (on.folder / "out").iterdir())
