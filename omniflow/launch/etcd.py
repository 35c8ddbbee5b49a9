"""The embedded etcd as one process of the cluster: its command line is the registry's, its life is the supervisor's."""

import asyncio
import http.client
import json
import os
from pathlib import Path
from typing import Any

from omniflow.launch.launcher import Kind
from omniflow.launch.process import ProcessSpec
from omniflow.registry import EtcdSettings

_PROBE_INTERVAL_S = 0.02


def etcd_spec(settings: EtcdSettings, log: Path) -> ProcessSpec:
    """How to run it. The ports of `settings` are set, and stay the same over restarts."""
    dropped: dict[str, str | None] = {name: None for name in os.environ if name.startswith("ETCD_")}
    return ProcessSpec(
        name="etcd",
        kind=Kind.ETCD,
        argv=tuple(settings.command()),
        log=log,
        env={**dropped, "GOMAXPROCS": settings.environment()["GOMAXPROCS"]},
        stop_timeout_s=10.0,
    )


async def until_healthy(endpoint: str) -> None:
    """Returns once etcd answers that it is healthy."""
    # It has no call that waits for it, so this asks; only while the cluster starts.
    while not await asyncio.to_thread(is_healthy, endpoint):  # noqa: ASYNC110
        await asyncio.sleep(_PROBE_INTERVAL_S)


def is_healthy(endpoint: str) -> bool:
    """Whether etcd serves at host:port."""
    try:
        answer = _call(endpoint, "GET", "/health", None)
    except (OSError, http.client.HTTPException, ValueError):
        return False
    return answer.get("health") in ("true", True)


def forget_registrations(endpoint: str) -> int:
    """Ends the registrations that an earlier, killed run left in our own etcd, which would outlive it by their lease.

    Nobody can need them: a living process registers again by itself. Returns how many there were.
    """
    leases = _call(endpoint, "POST", "/v3/lease/leases", {}).get("leases", [])
    for lease in leases:
        _call(endpoint, "POST", "/v3/lease/revoke", {"ID": lease["ID"]})
    return len(leases)


def _call(endpoint: str, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
    # http.client, unlike urllib, never sends a loopback call to the proxy of the environment.
    host, _, port = endpoint.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None)
        answer = json.loads(connection.getresponse().read())
        return answer if isinstance(answer, dict) else {}
    finally:
        connection.close()
