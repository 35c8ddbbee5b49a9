"""Whether an etcd serves, and whom it still knows of an earlier run: by its HTTP interface, without a channel."""

import http.client
import json
from typing import Any


def is_healthy(endpoint: str) -> bool:
    """Whether etcd at host:port answers a read that needs its leader."""
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
