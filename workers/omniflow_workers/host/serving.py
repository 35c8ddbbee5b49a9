"""The threads that run a role."""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from omniflow.roles import CoreReady, EngineRole, QueueClosed, Role, TypedActivation, TypedQueue, invoke
from omniflow_workers.host.batch import BatchSize
from omniflow_workers.host.loading import LoadedRole
from omniflow_workers.host.stuck import Slots, watch

log = logging.getLogger(__name__)

# A thread that waits for work costs nothing; this only bounds how long one call into the core lasts.
WAIT_SECONDS = 3600.0


def serve(
    loaded: LoadedRole, ready: CoreReady, broken: Callable[[BaseException], None], stuck_after_s: float
) -> list[threading.Thread]:
    """Starts the role's threads; they end when the queue closes.

    `broken` is called when the code that serves the role fails itself: an engine's loop that raises, say. What a
    method raises is not that: it ends one activation. Nor is a method that does not return, until no thread is left
    but such: after `stuck_after_s` seconds without any, `broken` is called with `RoleStuck`.
    """
    queue = TypedQueue(ready, loaded.spec)
    role = loaded.role
    if isinstance(role, EngineRole):
        engine: EngineRole = role
        loops: list[Callable[[], None]] = [lambda: engine.serve(queue)]
    else:
        count = loaded.spec.concurrency
        slots = Slots(count)
        # What one thread has taken, no other one runs: beside others, one that is slow would hold up the rest of its
        # batch while they wait for work.
        sizes = [BatchSize() if count == 1 else BatchSize(largest=1) for _ in range(count)]
        loops = [partial(_run_each, role, queue, slots, slot, size) for slot, size in enumerate(sizes)]
        _watch(loaded.name, slots, stuck_after_s, broken)
    threads = [
        threading.Thread(target=_guarded, args=(loop, loaded.name, broken), name=f"{loaded.name}-{index}", daemon=True)
        for index, loop in enumerate(loops)
    ]
    for thread in threads:
        thread.start()
    return threads


def _run_each(role: Role, queue: TypedQueue, slots: Slots, slot: int, batch: BatchSize) -> None:
    while True:
        # In a call of its own: while it waits for the next ones, it has nothing left of the last ones, whose inputs may
        # lie in another worker's memory.
        _run_next(role, queue, slots, slot, batch)


def _run_next(role: Role, queue: TypedQueue, slots: Slots, slot: int, batch: BatchSize) -> None:
    activations = queue.take(batch(), WAIT_SECONDS)
    if not activations:
        return
    started = time.perf_counter()
    left = len(activations)
    for activation in activations:
        left -= 1
        assert isinstance(activation, TypedActivation)
        slots.enter(slot, activation)
        invoke(role, activation, more=left > 0)
        slots.leave(slot)
    batch.ran(len(activations), time.perf_counter() - started)


def _watch(name: str, slots: Slots, after_s: float, broken: Callable[[BaseException], None]) -> None:
    # Nobody waits for it: it ends with the process.
    threading.Thread(target=watch, args=(name, slots, after_s, broken), name=f"{name}-watch", daemon=True).start()


def _guarded(loop: Callable[[], None], name: str, broken: Callable[[BaseException], None]) -> None:
    try:
        loop()
    except QueueClosed:
        return
    except BaseException as error:
        log.exception("role %s: the code that serves it failed", name)
        broken(error)
