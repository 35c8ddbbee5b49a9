"""Why a job does not begin: the roles that it needs and no worker serves."""

import asyncio
from collections.abc import Callable, Iterable

from omniflow.client import Client, Job
from omniflow.errors import OmniFlowError
from omniflow.v1 import cluster_pb2, flow_pb2, job_pb2

LOOK_EVERY_S = 1.0


async def tell_while_waiting(client: Client, job: Job, say: Callable[[str], None]) -> None:
    """Tells each reason once, until the job runs. Cancel it when the job is over."""
    told = ""
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        try:
            reason = await why_waiting(client, job)
        except OmniFlowError:
            continue  # whoever follows the job hears of what ails the scheduler
        if reason is None:
            return
        if reason != told:
            told = reason
            say(reason)


async def why_waiting(client: Client, job: Job) -> str | None:
    """None when it does not wait. Raises what the scheduler refuses to answer with."""
    if (await client.get(job.id)).state != job_pb2.JobStatus.WAITING:
        return None
    flows = await client.flows(job.flow, job.flow_version)
    missing = unserved(flows[0], await client.workers()) if flows else []
    if not missing:
        return "waits for a worker"
    return f"waits: no worker serves {', '.join(missing)}; start one, or see `omniflow workers`"


def unserved(flow: flow_pb2.Flow, workers: Iterable[cluster_pb2.WorkerStatus]) -> list[str]:
    """Roles of the flow that no worker takes jobs for now, in the flow's order."""
    served = {
        role.name for worker in workers if worker.state == cluster_pb2.WorkerStatus.READY for role in worker.info.roles
    }
    return list(dict.fromkeys(node.role for node in flow.nodes if node.role and node.role not in served))
