"""A real cluster of three echo workers, from `omniflow up` to `omniflow down`, by the commands that a user types."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from omniflow import SyncClient
from omniflow.cli.exit_codes import ExitCode
from omniflow.errors import Unavailable
from omniflow.launch import ClusterState, ProcessState, ProcessStatus, read_state
from omniflow.launch.identity import marked_with
from omniflow.v1.cluster_pb2 import ClusterStatus, WorkerStatus
from tests.cluster_fixtures.ports import free_port

EXAMPLE = Path(__file__).parents[3] / "examples" / "trivial"


class Shell:
    """Types commands in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / ".omniflow"
        text = (EXAMPLE / "cluster.yaml").read_text().replace("127.0.0.1:7070", f"127.0.0.1:{free_port('127.0.0.1')}")
        # One worker as it would be for other machines: on a wildcard, known by a name.
        (folder / "cluster.yaml").write_text(
            text.replace(
                "- name: second\n", "- name: second\n    listen: ['tcp:0.0.0.0:0']\n    advertise: localhost\n"
            )
        )
        for name in ("trivial_flow.py", "trivial_roles.py"):
            (folder / name).write_text((EXAMPLE / name).read_text())

    def type(self, *words: str, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "omniflow.cli.main", *words],
            cwd=self.folder,
            env={name: value for name, value in os.environ.items() if name != "OMNIFLOW_ADDRESS"},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def ask(self, *words: str) -> Any:
        done = self.type(*words, "--json")
        assert done.returncode == ExitCode.OK, done.stderr + done.stdout
        return json.loads(done.stdout)

    @property
    def state(self) -> ClusterState:
        state = read_state(self.run)
        assert state is not None, "the supervisor has ended"
        return state

    def process(self, name: str) -> ProcessStatus:
        return next(process for process in self.state.processes if process.name == name)

    def pid_of(self, name: str) -> int:
        identity = self.process(name).process
        return identity.pid if identity else 0

    def until_ready(self, *names: str, unlike_pid: int = 0) -> None:
        """Returns once these workers are; the test's own time-out ends it."""
        self.until(
            lambda status: {
                worker.info.name
                for worker in status.workers
                if worker.state == WorkerStatus.READY and worker.info.pid != unlike_pid
            }.issuperset(names)
        )

    def until(self, holds: Callable[[ClusterStatus], bool]) -> None:
        """Asks the scheduler, which may be away, until `holds` of its answer. Nothing tells of such changes."""
        with SyncClient(self.state.address) as client:
            while True:
                try:
                    if holds(client.cluster_status()):
                        return
                except Unavailable:
                    assert self.state.ready
                time.sleep(0.05)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("cluster"))
    done = shell.type("up", "cluster.yaml", "--detach")
    assert done.returncode == ExitCode.OK, done.stderr
    yield shell
    shell.type("down", "--force")
    assert list(marked_with(shell.run)) == []


def test_status_shows_processes_and_ready_workers(shell: Shell) -> None:
    status = shell.ask("status")
    assert status["cluster"]["cluster"] == "trivial"
    assert {worker["info"]["name"] for worker in status["cluster"]["workers"]} >= {"first", "second", "third"}
    assert all(worker["state"] == "READY" for worker in status["cluster"]["workers"])
    assert [process["name"] for process in status["local"]["processes"]] == [
        *("etcd", "scheduler", "first", "second", "third")
    ]
    assert status["local"]["ready"]
    addresses = {w["info"]["name"]: w["info"]["addresses"] for w in status["cluster"]["workers"]}
    assert re.fullmatch(r"tcp:localhost:[1-9]\d*", addresses["second"][0])
    assert addresses["first"][0].startswith("unix:")
    for_people = shell.type("status")
    assert "supervisor" in for_people.stdout
    assert "third" in for_people.stdout


def test_a_job_writes_its_result_and_says_where_the_time_went(shell: Shell) -> None:
    done = shell.type("submit", "trivial", "--input", "payload=hello there", "--output", "one", "--timeline")
    assert done.returncode == ExitCode.OK, done.stderr
    (file,) = (shell.folder / "one").iterdir()
    assert file.read_text() == "hello there"
    assert str(Path("one", file.name)) in done.stdout
    for name in ("Job took", "first", "second", "third", "█"):
        assert name in done.stderr


def test_a_stream_becomes_one_file_and_json_has_the_report(shell: Shell) -> None:
    answer = shell.ask("submit", "trivial_words", "--input", "payload=one two three", "--output", "two")
    (files,) = answer["results"].values()
    assert (shell.folder / files[0]).read_text() == "onetwothree"
    assert len(answer["report"]["activations"]) == 3
    assert int(answer["report"]["jct_us"]) > 0


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["trivial", "--input", "pyload=x"], ExitCode.USAGE, "did you mean 'payload'?"),
        (["trivial"], ExitCode.USAGE, "input 'payload' is missing"),
        (["trivail", "--input", "payload=x"], ExitCode.USAGE, "trivail"),
        (["trivial", "--input", "payload=x", "--deadline", "-1"], ExitCode.USAGE, "deadline"),
        (["trivial", "--input", "payload=x", "--param", "third.nothing=1"], ExitCode.USAGE, "third.nothing"),
    ],
)
def test_a_wrong_job_is_refused_with_its_cure(shell: Shell, words: list[str], status: ExitCode, message: str) -> None:
    done = shell.type("submit", *words)
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_detached_job_is_found_in_the_list(shell: Shell) -> None:
    job = shell.ask("submit", "trivial", "--input", "payload=x", "--detach")["job"]
    shell.until(lambda status: status.jobs_running + status.jobs_waiting == 0)
    assert {entry["job"]: entry["state"] for entry in shell.ask("jobs", "--all")}[job] == "SUCCEEDED"
    cancelled = shell.ask("cancel", job)
    assert cancelled == {"job": job, "was_running": False}
    unknown = shell.type("cancel", "no-such-job")
    assert unknown.returncode == ExitCode.USAGE


def test_bench_measures_and_draws(shell: Shell) -> None:
    words = ["bench", "trivial", "--input", "payload=x", "--concurrency", "8", "--jobs", "64"]
    figures = shell.ask(*words, "--output", "bench/closed.json")
    assert (figures["completed"], figures["failed"]) == (64, 0)
    assert figures["p99_e2el_ms"] >= figures["median_e2el_ms"] > 0
    assert figures["cpu_ms_per_job_scheduler"] is not None
    assert figures["cpu_ms_per_job"] > 0
    assert json.loads((shell.folder / "bench/closed.json").read_text()) == figures
    assert (shell.folder / "bench/closed.svg").read_text().count("<circle") == 64
    rated = shell.ask("bench", "trivial", "--input", "payload=x", "--rate", "50", "--duration", "1")
    assert rated["failed"] == 0
    assert 15 < rated["completed"] < 110


def test_a_second_up_is_refused_with_one_clear_error(shell: Shell) -> None:
    for more in ([], ["--detach"]):
        done = shell.type("up", "cluster.yaml", *more)
        assert done.returncode == ExitCode.FAILED
        assert "cluster 'trivial'" in done.stderr
        assert "already runs on" in done.stderr
    assert shell.ask("status")["local"]["ready"]


def test_a_worker_killed_with_kill_9_comes_back_and_serves(shell: Shell) -> None:
    pid = shell.pid_of("second")
    os.kill(pid, signal.SIGKILL)
    shell.until_ready("second", unlike_pid=pid)
    assert shell.type("submit", "trivial", "--input", "payload=again", "--output", "again").returncode == ExitCode.OK
    again = shell.process("second")
    assert again.restarts == 1
    assert again.last_exit == "killed by SIGKILL"


def test_the_scheduler_killed_with_kill_9_comes_back_and_serves(shell: Shell) -> None:
    os.kill(shell.pid_of("scheduler"), signal.SIGKILL)
    shell.until_ready("first", "second", "third")
    assert shell.type("submit", "trivial", "--input", "payload=again", "--output", "later").returncode == ExitCode.OK


def test_etcd_killed_with_kill_9_comes_back_and_jobs_never_notice(shell: Shell) -> None:
    pid = shell.pid_of("etcd")
    os.kill(pid, signal.SIGKILL)
    assert shell.type("submit", "trivial", "--input", "payload=x", "--output", "without").returncode == ExitCode.OK
    shell.until(lambda status: status.registry_reachable and shell.pid_of("etcd") not in (0, pid))
    status = shell.ask("status")
    assert status["local"]["ready"]
    assert all(worker["state"] == "READY" for worker in status["cluster"]["workers"])


def test_a_drained_worker_leaves_and_stays_away(shell: Shell) -> None:
    assert shell.ask("drain", "third")["worker"] == "third"
    shell.until(lambda status: shell.process("third").state is ProcessState.LEFT)
    done = shell.type("drain", "nobody")
    assert done.returncode == ExitCode.USAGE
    assert "nobody" in done.stderr


def test_down_leaves_no_process_socket_or_state(shell: Shell) -> None:
    state = json.loads((shell.run / "state.json").read_text())
    done = shell.type("down")
    assert done.returncode == ExitCode.OK, done.stderr
    assert list(marked_with(shell.run)) == []
    assert not Path(state["sockets"]).exists()
    assert {entry.name for entry in shell.run.iterdir()} == {"logs", "config", "etcd", "journal"}
    assert shell.type("status").returncode == ExitCode.UNREACHABLE


def test_the_foreground_ends_on_ctrl_c_and_flows_survive_a_restart(shell: Shell) -> None:
    async def session() -> int:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "omniflow.cli.main", "up", "cluster.yaml"),
            cwd=shell.folder,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        while b"is ready" not in (line := await process.stderr.readline()):
            assert line, "up ended before it was ready"
        process.send_signal(signal.SIGINT)
        await process.stderr.read()
        return await process.wait()

    assert asyncio.run(session()) == ExitCode.OK
    assert list(marked_with(shell.run)) == []
