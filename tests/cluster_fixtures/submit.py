"""Jobs, also as a client that checks nothing would send them."""

import asyncio

import grpc.aio

from omniflow.client import Client
from omniflow.client.failures import failure_of
from omniflow.errors import OmniFlowError, from_proto
from omniflow.v1.job_pb2 import SubmitRequest
from omniflow.v1.job_pb2_grpc import JobServiceStub

PATIENCE_S = 20.0


async def next_job_runs(client: Client) -> None:
    """Through every role of the cluster."""
    job = await client.submit("chain", {"text": "the next job"}, deadline=PATIENCE_S)
    assert await job.result() == {"result": "the next job"}


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
