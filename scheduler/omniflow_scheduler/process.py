"""One life of the scheduler: bind, stand by until elected, serve, drain."""

import asyncio
import logging
import signal
import threading
import time

from omniflow.config import TLS_CURE
from omniflow.errors import InvalidArgument
from omniflow.registry import Candidate, Election, Leader, NoLeader, Registry, RegistryUnreachable
from omniflow_core import AddressInUse, CertificateUnusable, CoreError, Hub, JournalUnusable, Standby
from omniflow_scheduler.config import SchedulerSettings
from omniflow_scheduler.errors import BadJournal, ExitCode
from omniflow_scheduler.follow import RegistryFollower
from omniflow_scheduler.journal_id import journal_id
from omniflow_scheduler.marking import Marking
from omniflow_scheduler.outbox import Outbox
from omniflow_scheduler.server import Edge
from omniflow_scheduler.standing_by import StandingBy
from omniflow_scheduler.stop import StopSignals

log = logging.getLogger(__name__)

# How long the first view of workers and flows may take before jobs are admitted without it.
SYNC_TIMEOUT = 5.0
# For the last events of drained jobs to reach their clients.
GRACE = 2.0
STANDBY_LOOK = 5.0


class SchedulerProcess:
    """`run()` returns the exit status; errors at start are raised, typed."""

    def __init__(self, settings: SchedulerSettings, *, take_over: bool = False) -> None:
        """`take_over`: it leads though its journal may lack what another one has, unless somebody leads."""
        self._settings = settings
        self._take_over = take_over
        self._signals = StopSignals()

    async def run(self) -> ExitCode:
        settings = self._settings
        self._signals.install({signal.SIGTERM, signal.SIGINT})
        edge = Edge(settings.listen, settings.max_input_bytes)
        journal = _journal_id(settings)
        standing_by = StandingBy(_make_standby(settings, journal)) if settings.journal_listen else None
        election = Election(
            settings.etcd,
            settings.cluster,
            settings.advertise or edge.address,
            ttl=settings.registration_ttl_s,
            journal_address=settings.journal_address,
            candidate=Candidate(journal, alone=standing_by is None, take_over=self._take_over),
            on_leader=standing_by.follow if standing_by else _ignore,
        )
        try:
            term = await self._be_elected(election)
            if standing_by is not None:
                # It lets go of the journal, which the hub opens.
                await asyncio.to_thread(standing_by.close)
            if term is None:
                return ExitCode.DRAINED
            return await self._lead(edge, election, term)
        finally:
            await edge.stop(0)
            await asyncio.to_thread(election.close)
            if standing_by is not None:
                await asyncio.to_thread(standing_by.close)

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

    async def _lead(self, edge: Edge, election: Election, term: int) -> ExitCode:
        settings = self._settings
        hub = _make_hub(settings, term)
        marking = Marking(hub, election) if settings.journal_listen else None
        try:
            return await self._serve_from(hub, edge, election, term)
        finally:
            if marking is not None:
                await asyncio.to_thread(marking.close)

    async def _serve_from(self, hub: Hub, edge: Edge, election: Election, term: int) -> ExitCode:
        settings = self._settings
        outbox = Outbox(hub)
        async with Registry(settings.etcd, settings.cluster) as registry:
            follower = RegistryFollower(hub, registry)
            async with asyncio.TaskGroup() as group:
                follows = [group.create_task(follower.follow_flows()), group.create_task(follower.follow_workers())]
                if not await follower.wait_synced(SYNC_TIMEOUT):
                    log.warning("no complete view of the registry in %.0f s; serving with what there is", SYNC_TIMEOUT)
                await edge.start(hub, outbox, registry, follower, settings.tls)
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


def _ignore(leader: Leader) -> None:
    """Nothing follows it."""


def _journal_id(settings: SchedulerSettings) -> str:
    if settings.journal is None:
        return ""
    try:
        return journal_id(settings.journal)
    except OSError as error:
        raise BadJournal(f"the journal's folder {settings.journal} cannot be used: {error}") from None


def _make_standby(settings: SchedulerSettings, journal: str) -> Standby:
    assert settings.journal is not None, "the configuration was checked"
    try:
        return Standby(
            cluster=settings.cluster,
            name=settings.name,
            journal=settings.journal,
            journal_id=journal,
            journal_fsync=settings.journal_fsync,
            heartbeat_ms=_ms(settings.heartbeat_s),
            heartbeat_limit_ms=_ms(settings.heartbeat_limit_s),
            limit_ms=_ms(settings.standby_limit_s),
            tls=settings.tls.files if settings.tls else None,
        )
    except JournalUnusable as error:
        raise BadJournal(str(error)) from None
    except CertificateUnusable as error:
        raise InvalidArgument(str(error), field="tls", cure=TLS_CURE) from None


def _make_hub(settings: SchedulerSettings, term: int) -> Hub:
    try:
        return _hub(settings, term)
    except JournalUnusable as error:
        raise BadJournal(str(error)) from None
    except CertificateUnusable as error:
        raise InvalidArgument(str(error), field="tls", cure=TLS_CURE) from None
    except AddressInUse as error:
        cure = "set `journal_listen` to an address of this machine that is free"
        raise InvalidArgument(str(error), field="journal_listen", cure=cure) from None
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
        standby_listen=settings.journal_listen,
        standby_limit_ms=_ms(settings.standby_limit_s),
    )


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
