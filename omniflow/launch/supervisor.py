"""Starts a cluster's processes, looks after them, and ends them: workers, then the schedulers, then etcd."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager

from omniflow.errors import OmniFlowError
from omniflow.launch.backoff import Backoff
from omniflow.launch.errors import StartFailed
from omniflow.launch.identity import ProcessIdentity
from omniflow.launch.launcher import ClusterState, Observer, ProcessState
from omniflow.launch.plan import Plan, write_files
from omniflow.launch.ports import check_free
from omniflow.launch.process import ManagedProcess, ProcessSpec
from omniflow.launch.race import race
from omniflow.launch.sockets import make_socket_folder, remove_socket_folder
from omniflow.launch.startup import Startup
from omniflow.launch.state import RunLock, remove_state, write_state
from omniflow.launch.strays import sweep

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Supervisor:
    """One cluster on this machine, from `up` to `down`."""

    def __init__(
        self, plan: Plan, startup: Startup, observer: Observer, on_ready: Callable[[ClusterState], None]
    ) -> None:
        self._plan = plan
        self._startup = startup
        self._observer = observer
        self._on_ready = on_ready
        self._stop = asyncio.Event()
        self._ready = False
        self._processes: list[ManagedProcess] = []
        self._me = _own_identity()

    @property
    def state(self) -> ClusterState:
        """The cluster as it stands."""
        return ClusterState(
            cluster=self._plan.config.cluster,
            run=self._plan.run,
            address=self._plan.address,
            etcd=self._plan.etcd_endpoints,
            supervisor=self._me,
            ready=self._ready,
            sockets=self._plan.sockets,
            processes=tuple(process.status for process in self._processes),
        )

    async def run(self) -> None:
        """Returns once the cluster was told to end and has ended. Raises `LaunchError` when it does not start."""
        lock = RunLock(self._plan.run)
        try:
            if strays := sweep(self._plan.run):
                self._observer.progress(f"ended {len(strays)} processes that an earlier run had left behind")
            for listen in self._plan.listens:
                check_free(listen)
            write_files(self._plan)
            make_socket_folder(self._plan.sockets)
            with self._signals():
                await self._live()
        finally:
            self._remove_traces()
            lock.release()

    async def _live(self) -> None:
        failure: OmniFlowError | None = None
        async with asyncio.TaskGroup() as group:
            try:
                if await self._finish(self._start(group)):
                    await self._stop.wait()
            except OmniFlowError as error:
                failure = error
            finally:
                await self._end()
        if failure is not None:
            raise failure

    async def _start(self, group: asyncio.TaskGroup) -> None:
        plan, startup = self._plan, self._startup
        try:
            async with asyncio.timeout(plan.config.start_timeout_s):
                if plan.etcd is None:  # the operator's should be there already
                    await startup.registry_ready(plan)
                # All at once: scheduler and workers wait for etcd, which is up long before they have loaded.
                started = self._spawn(group, plan.specs)
                if plan.etcd is not None:
                    await self._until(startup.registry_ready(plan), started)
                await self._until(startup.scheduler_ready(plan), started)
                self._observer.progress(f"scheduler serves at {' or '.join(plan.addresses)}")
                await self._until(startup.workers_ready(plan), started)
                await self._until(startup.flows_registered(plan), started)
                await self._until(self._remark_on_roles(), started)
        except TimeoutError:
            raise await self._too_late() from None
        self._ready = True
        self._record()
        self._on_ready(self.state)

    async def _remark_on_roles(self) -> None:
        for remark in await self._startup.unserved(self._plan):
            self._observer.progress(remark)

    def _spawn(self, group: asyncio.TaskGroup, specs: Sequence[ProcessSpec]) -> list[ManagedProcess]:
        restart = self._plan.config.restart
        processes = [
            ManagedProcess(
                spec, Backoff(restart.first_delay_s, restart.max_delay_s, restart.stable_after_s), self._changed
            )
            for spec in specs
        ]
        self._processes.extend(processes)
        for process in processes:
            group.create_task(process.run())
        if names := ", ".join(spec.name for spec in specs):
            self._observer.progress(f"starting {names}")
        return processes

    async def _until(self, work: Coroutine[None, None, None], watched: Sequence[ManagedProcess]) -> None:
        """Waits for `work`, unless one of `watched` dies first: then raises `StartFailed` with the end of its log."""
        dead = await race(work, {process: process.died for process in watched})
        if dead is not None:
            raise StartFailed(
                f"{dead.spec.name} {dead.status.last_exit} while the cluster was starting",
                cause=dead.log.tail(),
                cure=f"its whole log is {dead.spec.log}",
            )

    async def _finish(self, work: Coroutine[None, None, None]) -> bool:
        """Whether `work` got done before the cluster was told to end."""
        return await race(work, {"told": self._stop}) is None

    async def _too_late(self) -> StartFailed:
        late = await self._startup.laggards(self._plan)
        named = [process for process in self._processes if process.spec.name in late] or self._processes[-1:]
        logs = "\n".join(f"{process.spec.name}, last lines:\n{process.log.tail(8)}" for process in named)
        return StartFailed(
            f"not ready after {self._plan.config.start_timeout_s:g} s: {', '.join(late) or 'the cluster'}",
            cause=logs,
            cure=f"look into {self._plan.run / 'logs'}; if it is only slow, raise `start_timeout_s`",
        )

    async def _end(self) -> None:
        """Workers finish first, while the scheduler still takes their results and etcd their farewells."""
        plan, by_name = self._plan, {process.spec.name: process for process in self._processes}
        for specs in (plan.workers, plan.schedulers, (plan.etcd,) if plan.etcd else ()):
            ending = [by_name[spec.name] for spec in specs if spec.name in by_name]
            if ending:
                self._observer.progress(f"stopping {', '.join(process.spec.name for process in ending)}")
                async with asyncio.TaskGroup() as group:
                    for process in ending:
                        group.create_task(process.stop())

    def _changed(self, process: ManagedProcess) -> None:
        status = process.status
        if self._ready and status.state is ProcessState.WAITING:
            pause = f"starting it again in {process.restart_delay_s:g} s"
            self._observer.progress(f"{status.name} {status.last_exit}; {pause} (log: {status.log})")
        elif self._ready and status.state is ProcessState.LEFT:
            self._observer.progress(f"{status.name} has left the cluster")
        self._record()

    def _record(self) -> None:
        try:
            write_state(self.state)
        except OSError as error:
            # A full disk stops nobody: the next `up` finds the processes by their environment.
            self._observer.progress(f"cannot write the state file: {error}")

    def _remove_traces(self) -> None:
        remove_socket_folder(self._plan.sockets)
        remove_state(self._plan.run)
        for file in (self._plan.run / "config").glob("*.json"):
            file.unlink(missing_ok=True)

    def _told_to_stop(self) -> None:
        if self._stop.is_set():
            self._observer.progress("told twice: ending everything at once")
            for process in self._processes:
                process.kill()
        self._stop.set()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._told_to_stop)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


def _own_identity() -> ProcessIdentity:
    identity = ProcessIdentity.of(os.getpid())
    if identity is None:
        raise StartFailed("/proc is not mounted", cure="the local launcher needs Linux with /proc")
    return identity
