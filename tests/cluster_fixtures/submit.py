"""Jobs, also as a client that checks nothing would send them."""

import asyncio

import grpc.aio

from omniflow.client import Client
from omniflow.client.failures import failure_of
from omniflow.errors import OmniFlowError, from_proto
from omniflow.v1.job_pb2 import NodeProgress, Report, SubmitRequest
from omniflow.v1.job_pb2_grpc import JobServiceStub

PATIENCE_S = 20.0


async def next_job_runs(client: Client) -> None:
    """Through every role of the cluster."""
    job = await client.submit("chain", {"text": "the next job"}, deadline=PATIENCE_S)
    assert await job.result() == {"result": "the next job"}


async def whole_report(client: Client, job: str) -> Report:
    """An ended job's, once every worker has said what became of what it ran: some may say so a moment after the end."""
    unheard = (NodeProgress.STATE_UNSPECIFIED, NodeProgress.QUEUED, NodeProgress.STARTED, NodeProgress.FIRST_FRAME)
    async with asyncio.timeout(PATIENCE_S):
        while True:  # nobody tells of it
            report = (await client.get(job)).report
            if all(each.state not in unheard for each in report.activations):
                return report
            await asyncio.sleep(0.02)


async def error_of(address: str, request: SubmitRequest) -> OmniFlowError:
    """What the job is refused with, or ends in."""
    async with grpc.aio.insecure_channel(address) as channel, asyncio.timeout(PATIENCE_S):
        try:
            async for event in JobServiceStub(channel).Submit(request):
                if event.HasField("ended"):
                    assert event.ended.HasField("error"), "the job had its result"
                    return from_proto(event.ended.error)
        except grpc.aio.AioRpcError as error:
            return failure_of(error, address, "submitting")
    raise AssertionError("the call ended without an end of the job")
