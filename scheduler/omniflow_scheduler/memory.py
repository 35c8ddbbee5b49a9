"""Where the workers' memory is, as they say themselves: asked of their data services, all at once, in bounded time."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from omniflow.config import TlsConfig
from omniflow.data import ask_account
from omniflow.errors import OmniFlowError
from omniflow.v1.cluster_pb2 import ClusterMemory, WorkerInfo, WorkerMemory

PATIENCE_S = 2.0
"""Of each of a worker's addresses."""
AT_MOST_S = 4.0
"""Of all together: who has not been heard by then is said to be silent."""
_AT_ONCE = 32


async def memory_of(workers: Sequence[WorkerInfo], cluster: str, tls: TlsConfig | None) -> ClusterMemory:
    """The account of each, by name; or why there is none. Who has registered no data address shares no pages, and is
    named without being asked."""
    threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="ask-memory")
    loop = asyncio.get_running_loop()
    asked = {
        info.name: loop.run_in_executor(threads, _ask, info, cluster, tls) for info in workers if info.data_addresses
    }
    names = sorted(info.name for info in workers)
    try:
        if asked:
            await asyncio.wait(asked.values(), timeout=AT_MOST_S)
        return ClusterMemory(workers=[_answer(name, asked.get(name)) for name in names])
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _ask(info: WorkerInfo, cluster: str, tls: TlsConfig | None) -> WorkerMemory:
    try:
        account = ask_account(info.name, info.data_addresses, cluster, tls=tls, patience=PATIENCE_S)
    except OmniFlowError as error:
        return WorkerMemory(worker=info.name, silent=error.cause or error.message)
    return WorkerMemory(worker=info.name, account=account)


def _answer(name: str, asked: "asyncio.Future[WorkerMemory] | None") -> WorkerMemory:
    if asked is None:
        return WorkerMemory(worker=name)
    if asked.done():
        return asked.result()
    asked.cancel()
    return WorkerMemory(worker=name, silent=f"no answer within {AT_MOST_S:g} s")
