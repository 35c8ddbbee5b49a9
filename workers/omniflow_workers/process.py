"""One worker process: load the roles, register, serve until told to leave, drain."""

import logging
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import psutil

from omniflow.registry import NameTaken, Registration, this_host
from omniflow.v1.cluster_pb2 import WorkerInfo
from omniflow_core import Node
from omniflow_workers.addresses import advertised
from omniflow_workers.config import WorkerConfig, new_incarnation
from omniflow_workers.data_plane import open_data_plane
from omniflow_workers.host import LoadedRole, RoleStuck, load_roles, resolve_roles, serve
from omniflow_workers.listening import listen
from omniflow_workers.stopping import Serving, stop
from omniflow_workers.version import VERSION

log = logging.getLogger(__name__)

# etcd may start together with us, on a machine that has much else to do.
REGISTER_WITHIN_S = 60.0
# How long methods have to notice that their job is over; then, where one is stuck, the others that the queue is closed.
LAST_WORDS_S = 5.0
QUICK_WORDS_S = 0.5


class Leaving:
    """Why and how the process ends. The first reason counts."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self.reason = ""
        self.failure: BaseException | None = None
        self.quick = False
        self.serving = False
        """Whether anybody may have given us work."""

    def because(self, reason: str, failure: BaseException | None = None, *, quick: bool = False) -> None:
        """Asks the process to leave; `quick` skips the drain."""
        with self._lock:
            self.reason = self.reason or reason
            self.failure = self.failure or failure
            self.quick = self.quick or quick
        self._event.set()

    def because_of(self, failure: BaseException) -> None:
        """A role broke. What waits for one that is stuck runs elsewhere only once this worker is gone: so at once."""
        self.because("a role broke", failure, quick=isinstance(failure, RoleStuck))

    def wait(self) -> None:
        """Until somebody asked."""
        self._event.wait()

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """SIGTERM and SIGINT drain; a second one leaves at once, and so does the first before there can be work."""
        if not self.serving:
            os._exit(0)
        if self._event.is_set():
            os._exit(128 + number)
        self.because(signal.Signals(number).name)


def run(config: WorkerConfig, cache: Path) -> None:
    """Returns when the worker has left. Raises what kept it from starting or made it stop."""
    leaving = Leaving()
    signal.signal(signal.SIGTERM, leaving.on_signal)
    signal.signal(signal.SIGINT, leaving.on_signal)
    loaded = load_roles(resolve_roles(config.roles), config.name, config.device, cache, _cluster(config))
    info = _describe(config, loaded)
    node = listen(config, info)
    info.addresses.extend(advertised(node.addresses, config.advertise))
    data_plane = open_data_plane(config, info, node, loaded)
    serving = [
        Serving(role, serve(role, node.ready(role.name), leaving.because_of, config.stuck_after_s)) for role in loaded
    ]
    registration = Registration(
        config.etcd, config.cluster, info, on_taken=lambda error: leaving.because("the name is taken", error)
    )
    try:
        registration.start(REGISTER_WITHIN_S)
        leaving.serving = True
        _watch_drain(node, leaving)
        log.info("worker %s serves %s", config.name, ", ".join(role.name for role in loaded))
        leaving.wait()
        log.info("worker %s leaves: %s", config.name, leaving.reason)
        _drain(node, config, leaving)
    finally:
        registration.close()
        stop(node, serving, data_plane, QUICK_WORDS_S if leaving.quick else LAST_WORDS_S)
    if leaving.failure is not None:
        raise leaving.failure


def _cluster(config: WorkerConfig) -> str:
    """Two clusters of a host may have the same name, but not in the same etcd."""
    return f"{config.cluster}@{','.join(sorted(config.etcd))}"


def _describe(config: WorkerConfig, roles: Sequence[LoadedRole]) -> WorkerInfo:
    return WorkerInfo(
        name=config.name,
        incarnation=new_incarnation(),
        roles=[role.info() for role in roles],
        host=this_host(),
        pid=os.getpid(),
        device=config.device,
        memory_bytes=psutil.virtual_memory().total,
        version=VERSION,
    )


def _watch_drain(node: Node, leaving: Leaving) -> None:
    """The scheduler may ask for a drain: leave once nothing is left to finish."""

    def wait() -> None:
        while not node.wait_drained(3600.0):
            pass
        leaving.because("drained")

    threading.Thread(target=wait, name="drain-watch", daemon=True).start()


def _drain(node: Node, config: WorkerConfig, leaving: Leaving) -> None:
    if leaving.quick or isinstance(leaving.failure, NameTaken):
        return
    node.drain()
    if not node.wait_drained(config.drain_timeout_s):
        log.warning("worker %s leaves unfinished work behind after %g s", config.name, config.drain_timeout_s)
