"""A cluster that a command starts for itself, as `omniflow demo` does, never outlives that command for good."""

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from omniflow.cli.exit_codes import ExitCode
from omniflow.launch import read_state
from omniflow.launch.identity import marked_with
from tests.cluster_fixtures.command import omniflow

PASSING = Path(__file__).with_name("passing_cluster.py")
CLUSTER = """
cluster: passing
run: a folder/run
scheduler: {listen: "127.0.0.1:0"}
workers: [{name: only, roles: [{class: "trivial_roles:Echo", name: first}]}]
"""


class Command:
    """The command that has a cluster for a while."""

    def __init__(self, folder: Path) -> None:
        self.run = folder / "a folder" / "run"
        self._file = folder / "cluster.yaml"
        self._file.write_text(CLUSTER)
        roles = Path(__file__).parents[3] / "examples" / "trivial" / "trivial_roles.py"
        (folder / roles.name).write_text(roles.read_text())

    def start(self) -> "subprocess.Popen[str]":
        """Returns once its cluster is up."""
        pipe = subprocess.PIPE
        command = [sys.executable, str(PASSING), str(self._file)]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline(), process.stderr.read()
        assert len(list(marked_with(self.run))) >= 3
        return process


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    command = Command(tmp_path)
    yield command
    left = list(marked_with(command.run))
    state = read_state(command.run)
    for stray in [*left, *([state.supervisor] if state else [])]:
        stray.send(signal.SIGKILL)
    assert left == []
    assert state is None


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_closing_terminal_or_sigterm_ends_the_cluster_too(command: Command, number: signal.Signals) -> None:
    process = command.start()
    process.send_signal(number)
    process.send_signal(number)  # a terminal sends it more than once
    _, said = process.communicate()
    assert process.returncode == 128 + number, said
    assert "Traceback" not in said


def test_a_reader_that_is_gone_keeps_no_cluster_alive(command: Command) -> None:
    process = command.start()
    assert process.stdin is not None
    assert process.stderr is not None
    process.stderr.close()
    process.stdin.close()
    process.wait()


async def test_what_kill_9_left_is_ended_by_the_next_or_as_the_error_says(command: Command, tmp_path: Path) -> None:
    first = command.start()
    left = read_state(command.run)
    first.kill()
    first.wait()
    assert left is not None
    assert left.supervisor.alive
    second = command.start()
    assert not left.supervisor.alive
    second.kill()
    second.wait()

    refused = await omniflow("up", "cluster.yaml", "--detach", folder=tmp_path)
    assert refused.status == ExitCode.FAILED
    cure = re.search(r"`omniflow (down [^`]*)`", refused.output)
    assert cure is not None, refused.output
    ended = await omniflow(*shlex.split(cure[1]), folder=Path.home())
    assert ended.status == ExitCode.OK, ended.output
