"""The command line's edges: start-up, exit statuses, messages. Each runs the real program."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from omniflow.cli.exit_codes import ExitCode, exit_code_of
from omniflow.errors import (
    Cancelled,
    DeadlineExceeded,
    InvalidArgument,
    NoWorker,
    OmniFlowError,
    ResourceExhausted,
    RoleFailed,
    Unavailable,
    UnknownFlow,
)
from omniflow.launch import NoCluster, StartFailed
from tests.cluster_fixtures.ports import free_port


def _omniflow(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != "OMNIFLOW_ADDRESS"}
    return subprocess.run(
        [sys.executable, "-m", "omniflow.cli.main", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidArgument("x"), ExitCode.USAGE),
        (UnknownFlow("x"), ExitCode.USAGE),
        (Unavailable("x"), ExitCode.UNREACHABLE),
        (NoCluster("x"), ExitCode.UNREACHABLE),
        (ResourceExhausted("x"), ExitCode.REFUSED),
        (NoWorker("x"), ExitCode.REFUSED),
        (DeadlineExceeded("x"), ExitCode.DEADLINE),
        (RoleFailed("x"), ExitCode.FAILED),
        (Cancelled("x"), ExitCode.FAILED),
        (StartFailed("x"), ExitCode.FAILED),
    ],
)
def test_scripts_can_tell_errors_by_exit_status(error: OmniFlowError, code: ExitCode) -> None:
    assert exit_code_of(error) is code


def test_help_brings_no_heavy_module_along() -> None:
    code = (
        "import sys; from omniflow.cli.main import build\n"
        "import typer.testing\n"
        "result = typer.testing.CliRunner().invoke(build(['--help']), ['--help'])\n"
        "assert result.exit_code == 0, result.output\n"
        "assert 'submit' in result.output and 'flow' in result.output\n"
        "heavy = {'numpy', 'grpc', 'google.protobuf', 'pydantic', 'yaml', 'torch', 'PIL'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_without_a_cluster_commands_say_how_to_start_one(tmp_path: Path) -> None:
    done = _omniflow(tmp_path, "status")
    assert done.returncode == ExitCode.UNREACHABLE
    assert "no cluster runs on" in done.stderr
    assert "omniflow up CLUSTER.yaml" in done.stderr
    assert "Traceback" not in done.stderr


def test_json_asks_for_json_errors(tmp_path: Path) -> None:
    done = _omniflow(tmp_path, "jobs", "--json")
    assert done.returncode == ExitCode.UNREACHABLE
    assert "no cluster runs on" in json.loads(done.stdout)["error"]["message"]


def test_an_address_where_nobody_listens_is_unreachable(tmp_path: Path) -> None:
    done = _omniflow(tmp_path, "workers", "--address", f"127.0.0.1:{free_port('127.0.0.1')}")
    assert done.returncode == ExitCode.UNREACHABLE
    assert "the scheduler does not answer" in done.stderr


def test_down_without_a_cluster_is_no_error(tmp_path: Path) -> None:
    done = _omniflow(tmp_path, "down")
    assert done.returncode == ExitCode.OK
    assert "no cluster runs on" in done.stderr


def test_a_bad_cluster_file_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("cluster: x\nworkers: []\nschedulr: {}\n")
    for more in ([], ["--detach"]):
        done = _omniflow(tmp_path, "up", "cluster.yaml", *more)
        assert done.returncode == ExitCode.USAGE
        assert "cluster.yaml:3: unknown key 'schedulr'; did you mean 'scheduler' or 'schedulers'?" in done.stderr
    assert not (tmp_path / ".omniflow").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["submit"], "FLOW"),
        (["bench", "x", "--rate", "5", "--concurrency", "2"], "--rate"),
        (["nonsense"], "nonsense"),
        (["up"], "CLUSTER.yaml"),
    ],
)
def test_wrong_use_is_exit_status_2(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = _omniflow(tmp_path, *arguments)
    assert done.returncode == ExitCode.USAGE
    assert words in done.stderr


@pytest.mark.parametrize(("command", "option"), [("submit", "--out"), ("bench", "--out"), ("trace", "--output")])
def test_where_results_go_is_said_in_the_same_words_everywhere(tmp_path: Path, command: str, option: str) -> None:
    done = _omniflow(tmp_path, command, "x", option, "there")
    assert done.returncode == ExitCode.UNREACHABLE, done.stderr
    assert "no cluster runs" in done.stderr


FLOW = """from omniflow import Text, flow


@flow
def louder(text: Text) -> Text:
    return text
"""


def test_a_drawing_is_never_named_for_what_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "my_flow.py").write_text(FLOW)
    done = _omniflow(tmp_path, "flow", "draw", "my_flow.py:louder", "-o", "my.png")
    assert done.returncode == ExitCode.USAGE
    assert "cannot draw into my.png" in done.stderr
    assert ".svg" in done.stderr
    assert not (tmp_path / "my.png").exists()
    for name, start in (("my.md", "flowchart"), ("my.SVG", "<svg")):
        done = _omniflow(tmp_path, "flow", "draw", "my_flow.py:louder", "-o", name)
        assert done.returncode == ExitCode.OK, done.stderr
        assert (tmp_path / name).read_text().startswith(start)


def test_down_takes_the_cluster_file_as_argument_or_as_option(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "cluster.yaml").write_text("cluster: x\nschedulr: {}\n")
    for more in (["--cluster", "elsewhere/cluster.yaml"], ["elsewhere/cluster.yaml"]):
        done = _omniflow(tmp_path, "down", *more)
        assert done.returncode == ExitCode.USAGE
        assert "unknown key 'schedulr'" in done.stderr
    done = _omniflow(tmp_path, "down", "one.yaml", "--cluster", "other.yaml")
    assert done.returncode == ExitCode.USAGE
    assert "name two clusters" in done.stderr
