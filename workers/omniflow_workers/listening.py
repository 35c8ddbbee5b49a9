"""The worker's data path, made ready to be dialled; what stands in its way is named with who it is."""

import socket
import struct
from collections.abc import Sequence

from omniflow.config import TLS_CURE
from omniflow.errors import InvalidArgument
from omniflow.v1.cluster_pb2 import WorkerInfo
from omniflow_core import AddressInUse, CertificateUnusable, CoreError, Node
from omniflow_workers.config import WorkerConfig

_UNIX = "unix:"
_PATIENCE_S = 1.0


def listen(config: WorkerConfig, info: WorkerInfo) -> Node:
    """Raises `InvalidArgument` naming the key of the configuration that is wrong."""
    try:
        return Node(
            info.SerializeToString(),
            config.listen,
            cluster=config.cluster,
            retention_bytes=config.retention_bytes,
            retention_disk_bytes=config.retention_disk_bytes,
            retention_job_bytes=config.retention_job_bytes,
            retention_folder=config.retention_folder,
            arena_bytes=config.arena_bytes,
            heartbeat_limit_ms=round(config.heartbeat_limit_s * 1000),
            reconnect_ms=round(config.reconnect_s * 1000),
            tls=config.tls.files if config.tls else None,
        )
    except CertificateUnusable as error:
        raise InvalidArgument(str(error), field="tls", cure=TLS_CURE) from None
    except AddressInUse as error:
        raise _in_use(config, error) from error
    except CoreError as error:
        raise _cannot_listen(config, error) from error


def _in_use(config: WorkerConfig, error: AddressInUse) -> InvalidArgument:
    holder = _listener_of(config.listen)
    if holder is None:
        return _cannot_listen(config, error)
    path, pid = holder
    return InvalidArgument(
        f"worker {config.name!r} runs already, it seems: process {pid}, which is alive, listens on {_UNIX}{path}",
        field="listen",
        cure=f"end that process first (`kill {pid}`), or give this worker a `name` and a `listen` of its own",
    )


def _cannot_listen(config: WorkerConfig, error: CoreError) -> InvalidArgument:
    return InvalidArgument(
        f"worker {config.name!r} cannot listen on {', '.join(config.listen)}: {error}",
        field="listen",
        cure="give it an address of this machine that is free, e.g. `listen: [tcp:127.0.0.1:0]`",
    )


def _listener_of(addresses: Sequence[str]) -> tuple[str, int] | None:
    """The first Unix socket of these at which somebody listens, and who that is."""
    for address in addresses:
        path = address.removeprefix(_UNIX)
        if path == address:
            continue
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_PATIENCE_S)
            try:
                probe.connect(path)
                credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            except OSError:
                continue
        pid, _, _ = struct.unpack("3i", credentials)
        return path, pid
    return None
