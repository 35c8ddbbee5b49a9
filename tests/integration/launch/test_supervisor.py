"""What the supervisor promises of any process, shown on tiny ones."""

import os
import signal
import socket

import pytest

from omniflow.launch import LocalLauncher, ProcessState, Silent, read_state

from .conftest import Tiny


async def test_a_process_that_dies_is_started_again(tiny: Tiny) -> None:
    supervisor = await tiny.up()
    first = await tiny.born(3)
    await supervisor.until("ready")
    for cause in ("exit 7", "exit 7", "kill"):
        worker = first["worker"]
        if cause == "kill":
            os.kill(worker.pid, signal.SIGKILL)
        else:
            await worker.order(cause)
        await worker.death()
        first |= await tiny.born(1)
        assert first["worker"].pid != worker.pid
    state = read_state(tiny.run)
    assert state is not None
    worker_state = next(process for process in state.processes if process.name == "worker")
    assert worker_state.restarts == 3
    assert worker_state.last_exit == "killed by SIGKILL"
    assert worker_state.process is not None
    assert worker_state.process.pid == first["worker"].pid


async def test_a_worker_that_was_drained_stays_away_while_a_scheduler_returns(tiny: Tiny) -> None:
    supervisor = await tiny.up()
    first = await tiny.born(3)
    await supervisor.until("ready")
    await first["worker"].order("exit 0")
    await supervisor.until("worker has left the cluster")
    await first["scheduler"].order("exit 0")
    assert (await tiny.born(1)).keys() == {"scheduler"}
    state = read_state(tiny.run)
    assert state is not None
    assert {process.name: process.state for process in state.processes}["worker"] is ProcessState.LEFT


async def test_down_leaves_no_process_socket_or_state(tiny: Tiny) -> None:
    supervisor = await tiny.up()
    births = await tiny.born(3)
    await supervisor.until("ready")
    state = read_state(tiny.run)
    assert state is not None
    assert state.sockets is not None
    assert state.sockets.is_dir()
    supervisor.send(signal.SIGTERM)
    for birth in births.values():
        await birth.death()
    status, _ = await supervisor.end()
    assert status == 0
    assert tiny.processes() == []
    assert not state.sockets.exists()
    assert read_state(tiny.run) is None
    assert {entry.name for entry in tiny.run.iterdir()} <= {"logs", "config", "etcd"}
    assert list((tiny.run / "config").iterdir()) == []


async def test_down_ends_workers_before_the_scheduler_before_etcd(tiny: Tiny) -> None:
    supervisor = await tiny.up()
    await tiny.born(3)
    await supervisor.until("ready")
    supervisor.send(signal.SIGTERM)
    _, output = await supervisor.end()
    stops = [line.split("stopping ")[1] for line in output.splitlines() if "stopping" in line]
    assert stops == ["worker", "scheduler", "etcd"]


async def test_a_process_that_ignores_sigterm_is_killed(tiny: Tiny) -> None:
    supervisor = await tiny.up(worker="stubborn")
    births = await tiny.born(3)
    await supervisor.until("ready")
    supervisor.send(signal.SIGTERM)
    await births["worker"].death()
    status, _ = await supervisor.end()
    assert status == 0


async def test_kill_9_of_the_supervisor_leaves_no_orphan_and_up_works_again(tiny: Tiny) -> None:
    supervisor = await tiny.up(worker="mother")
    births = await tiny.born(4)  # the worker has a child in a session of its own, which no signal reaches
    await supervisor.until("ready")
    supervisor.send(signal.SIGKILL)
    for name in ("etcd", "scheduler", "worker"):
        await births[name].death()
    assert read_state(tiny.run) is not None  # nobody could tidy up
    again = await tiny.up()
    await births["worker-child"].death()
    await tiny.born(3)
    await again.until("ready")
    again.send(signal.SIGTERM)
    assert (await again.end())[0] == 0
    assert tiny.processes() == []


async def test_down_after_kill_9_of_the_supervisor_clears_up(tiny: Tiny) -> None:
    supervisor = await tiny.up(worker="mother")
    births = await tiny.born(4)
    await supervisor.until("ready")
    supervisor.send(signal.SIGKILL)
    await supervisor.process.wait()
    assert LocalLauncher().stop(tiny.run, timeout_s=10, force=False, observer=Silent())
    for birth in births.values():
        await birth.death()
    assert tiny.processes() == []
    assert read_state(tiny.run) is None
    assert not LocalLauncher().stop(tiny.run, timeout_s=10, force=False, observer=Silent())


async def test_a_second_up_is_refused_and_harms_nothing(tiny: Tiny) -> None:
    supervisor = await tiny.up()
    await tiny.born(3)
    await supervisor.until("ready")
    status, output = await (await tiny.up()).end()
    assert status == 1
    assert output.startswith("AlreadyRunning: cluster 'tiny'")
    assert f"pid {supervisor.process.pid}" in output
    assert "omniflow down" in output
    assert read_state(tiny.run) is not None
    assert len(tiny.processes()) == 3


async def test_a_busy_port_is_one_clear_error_that_names_its_holder(tiny: Tiny) -> None:
    host, port = tiny.listen.split(":")
    with socket.create_server((host, int(port))):
        status, output = await (await tiny.up()).end()
    assert status == 1
    assert output.startswith(f"AddressInUse: {tiny.listen} is in use by process {os.getpid()}")
    assert "scheduler.listen" in output
    assert tiny.births.empty()
    assert read_state(tiny.run) is None


async def test_a_process_that_dies_while_starting_fails_the_start_with_the_end_of_its_log(tiny: Tiny) -> None:
    status, output = await (await tiny.up(scheduler="die-at-once", never="ever")).end()
    assert status == 1
    assert "StartFailed: scheduler ended with exit code 3 while the cluster was starting" in output
    assert "cannot find its toys" in output
    assert "scheduler.log" in output
    assert tiny.processes() == []


async def test_a_start_that_takes_too_long_names_who_is_late(tiny: Tiny) -> None:
    status, output = await (await tiny.up(never="soon")).end()
    assert status == 1
    assert "StartFailed: not ready after 0.5 s: worker" in output
    assert tiny.processes() == []


async def test_a_full_disk_for_logs_stops_nobody(tiny: Tiny) -> None:
    logs = tiny.run / "logs"
    logs.mkdir(parents=True)
    for name in ("worker", "scheduler", "etcd"):
        (logs / f"{name}.log").symlink_to("/dev/full")
    supervisor = await tiny.up()
    births = await tiny.born(3)
    await supervisor.until("ready")
    for _ in range(3):
        await births["worker"].order("print 300000")
        assert await births["worker"].reader.readline() == b"printed\n"
    await births["worker"].order("exit 1")
    await tiny.born(1)
    supervisor.send(signal.SIGTERM)
    assert (await supervisor.end())[0] == 0


async def test_each_process_has_a_log_of_its_own(tiny: Tiny) -> None:
    supervisor = await tiny.up()
    births = await tiny.born(3)
    await supervisor.until("ready")
    await births["worker"].order("print 5")
    await births["worker"].reader.readline()
    supervisor.send(signal.SIGTERM)
    await supervisor.end()
    assert (tiny.run / "logs" / "worker.log").read_text() == "xxxxx\n"
    assert sorted(os.listdir(tiny.run / "logs")) == ["worker.log"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
async def test_a_signal_while_starting_ends_everything(tiny: Tiny, number: signal.Signals) -> None:
    supervisor = await tiny.up(never="ever")
    await tiny.born(3)
    supervisor.send(number)
    await supervisor.end()
    assert tiny.processes() == []
