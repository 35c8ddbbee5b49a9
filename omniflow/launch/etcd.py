"""The embedded etcd as one process of the cluster: its command line is the registry's, its life is the supervisor's."""

import asyncio
from pathlib import Path

from omniflow.launch.launcher import Kind
from omniflow.launch.process import ProcessSpec
from omniflow.registry import EtcdSettings
from omniflow.registry.health import is_healthy

_PROBE_INTERVAL_S = 0.02


def etcd_spec(settings: EtcdSettings, log: Path) -> ProcessSpec:
    """How to run it. The ports of `settings` are set, and stay the same over restarts."""
    return ProcessSpec(
        name="etcd",
        kind=Kind.ETCD,
        argv=tuple(settings.command()),
        log=log,
        env=settings.environment(),
        stop_timeout_s=10.0,
    )


async def until_healthy(endpoint: str) -> None:
    """Returns once etcd answers that it is healthy."""
    # It has no call that waits for it, so this asks; only while the cluster starts.
    while not await asyncio.to_thread(is_healthy, endpoint):  # noqa: ASYNC110
        await asyncio.sleep(_PROBE_INTERVAL_S)
