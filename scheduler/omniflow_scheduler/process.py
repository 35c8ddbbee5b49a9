"""One life of the scheduler: bind, be elected, serve, drain."""

import asyncio
import logging
import signal
import threading
import time

from omniflow.config import TLS_CURE
from omniflow.errors import InvalidArgument
from omniflow.registry import Election, Leader, NoLeader, Registry, RegistryUnreachable
from omniflow_core import CertificateUnusable, CoreError, Hub, JournalUnusable
from omniflow_scheduler.config import SchedulerSettings
from omniflow_scheduler.errors import BadJournal, ExitCode
from omniflow_scheduler.follow import RegistryFollower
from omniflow_scheduler.journal_lock import until_released
from omniflow_scheduler.outbox import Outbox
from omniflow_scheduler.server import Edge
from omniflow_scheduler.stop import StopSignals

log = logging.getLogger(__name__)

# How long the first view of workers and flows may take before jobs are admitted without it.
SYNC_TIMEOUT = 5.0
# For the last events of drained jobs to reach their clients.
GRACE = 2.0
STANDBY_LOOK = 5.0


class SchedulerProcess:
    """`run()` returns the exit status; errors at start are raised, typed."""

    def __init__(self, settings: SchedulerSettings) -> None:
        self._settings = settings
        self._signals = StopSignals()

    async def run(self) -> ExitCode:
        settings = self._settings
        self._signals.install({signal.SIGTERM, signal.SIGINT})
        edge = Edge(settings.listen, settings.max_input_bytes)
        address = settings.advertise or edge.address
        election = Election(settings.etcd, settings.cluster, address, ttl=settings.registration_ttl_s)
        try:
            term = await self._be_elected(election)
            if term is None or not await self._may_open_journal():
                return ExitCode.DRAINED
            return await self._lead(edge, election, term)
        finally:
            await edge.stop(0)
            await asyncio.to_thread(election.close)

    async def _be_elected(self, election: Election) -> int | None:
        """The term; None when told to stop while standing by. etcd must be there at start."""
        election.start()
        give_up_at = time.monotonic() + self._settings.start_timeout_s
        elected = asyncio.create_task(self._campaign(election, give_up_at), name="campaign")
        stop = asyncio.create_task(self._signals.first.wait(), name="stop signal")
        try:
            await asyncio.wait({elected, stop}, return_when=asyncio.FIRST_COMPLETED)
            return await elected if elected.done() else None
        finally:
            elected.cancel()
            stop.cancel()

    async def _campaign(self, election: Election, give_up_at: float) -> int:
        while True:
            try:
                return await election.elected(min(STANDBY_LOOK, self._settings.start_timeout_s))
            except NoLeader:
                give_up_at = time.monotonic() + self._settings.start_timeout_s
            except RegistryUnreachable:
                if time.monotonic() >= give_up_at:
                    raise

    async def _may_open_journal(self) -> bool:
        """False when told to stop before the leader of the term before has let go of it.

        One that never does is an error, which opening the journal raises.
        """
        folder = self._settings.journal
        if folder is None:
            return True
        released = asyncio.create_task(
            until_released(folder, self._settings.registration_ttl_s + GRACE), name="journal released"
        )
        stop = asyncio.create_task(self._signals.first.wait(), name="stop signal")
        try:
            await asyncio.wait({released, stop}, return_when=asyncio.FIRST_COMPLETED)
            return released.done()
        finally:
            released.cancel()
            stop.cancel()

    async def _lead(self, edge: Edge, election: Election, term: int) -> ExitCode:
        settings = self._settings
        hub = _make_hub(settings, term)
        outbox = Outbox(hub)
        async with Registry(settings.etcd, settings.cluster) as registry:
            follower = RegistryFollower(hub, registry)
            async with asyncio.TaskGroup() as group:
                follows = [group.create_task(follower.follow_flows()), group.create_task(follower.follow_workers())]
                if not await follower.wait_synced(SYNC_TIMEOUT):
                    log.warning("no complete view of the registry in %.0f s; serving with what there is", SYNC_TIMEOUT)
                await edge.start(hub, outbox, registry, follower)
                log.info("leading cluster %s on %s, term %d", settings.cluster, edge.address, term)
                successor = await self._serve(election)
                code = await self._end(edge, hub, outbox, successor)
                for follow in follows:
                    follow.cancel()
            return code

    async def _serve(self, election: Election) -> Leader | None:
        """Until a signal (None), or a leader with a higher term."""
        stop = asyncio.create_task(self._signals.first.wait(), name="stop signal")
        superseded = asyncio.create_task(election.superseded(), name="superseded")
        try:
            await asyncio.wait({stop, superseded}, return_when=asyncio.FIRST_COMPLETED)
            return superseded.result() if superseded.done() else None
        finally:
            stop.cancel()
            superseded.cancel()

    async def _end(self, edge: Edge, hub: Hub, outbox: Outbox, successor: Leader | None) -> ExitCode:
        if successor is not None:
            log.error("another scheduler leads with term %d: leaving its workers to it", successor.term)
            # It waits for the hub's thread; calls are answered meanwhile.
            await asyncio.to_thread(hub.close, 0)
            outbox.finish()
            await edge.stop(GRACE)
            return ExitCode.DRAINED
        await edge.announce_end()
        log.info("draining, %.0f s at most; a second signal ends it at once", self._settings.drain_timeout_s)
        drained = await self._drain(hub)
        outbox.finish()
        await edge.stop(GRACE if drained else 0)
        log.info("stopped, %s", "drained" if drained else "at once: jobs that were running are lost")
        return ExitCode.DRAINED if drained else ExitCode.STOPPED_AT_ONCE

    async def _drain(self, hub: Hub) -> bool:
        """Whether the hub closed in time. Its wait is a thread's, which a second signal leaves behind."""
        loop, closed = asyncio.get_running_loop(), asyncio.Event()

        def close() -> None:
            hub.close(self._settings.drain_timeout_s)
            loop.call_soon_threadsafe(closed.set)

        threading.Thread(target=close, name="drain", daemon=True).start()
        done = asyncio.create_task(closed.wait(), name="drained")
        again = asyncio.create_task(self._signals.second.wait(), name="second stop signal")
        try:
            await asyncio.wait({done, again}, return_when=asyncio.FIRST_COMPLETED)
            return closed.is_set()
        finally:
            done.cancel()
            again.cancel()


def _make_hub(settings: SchedulerSettings, term: int) -> Hub:
    try:
        return _hub(settings, term)
    except JournalUnusable as error:
        raise BadJournal(str(error)) from None
    except CertificateUnusable as error:
        raise InvalidArgument(str(error), field="tls", cure=TLS_CURE) from None
    except CoreError as error:
        cure = "mend it in the scheduler's configuration, e.g. `policy: least-outstanding`"
        raise InvalidArgument(str(error), field="policy", cure=cure) from None


def _hub(settings: SchedulerSettings, term: int) -> Hub:
    return Hub(
        cluster=settings.cluster,
        term=term,
        policy=settings.policy,
        queue_limit=settings.queue_limit,
        max_deadline_ms=_ms(settings.max_deadline_s),
        max_input_bytes=settings.max_input_bytes,
        max_held_input_bytes=settings.max_held_input_bytes,
        max_kept_result_bytes=settings.max_kept_result_bytes,
        client_grace_ms=_ms(settings.client_grace_s),
        result_ttl_ms=_ms(settings.result_ttl_s),
        max_attempts=settings.max_attempts,
        journal=settings.journal,
        journal_fsync=settings.journal_fsync,
        heartbeat_ms=_ms(settings.heartbeat_s),
        heartbeat_limit_ms=_ms(settings.heartbeat_limit_s),
        reconnect_ms=_ms(settings.reconnect_s),
        tls=settings.tls.files if settings.tls else None,
    )


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
