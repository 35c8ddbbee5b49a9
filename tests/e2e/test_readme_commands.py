"""The README's commands, called as a user calls them, on a cluster of three trivial workers."""

import json
from pathlib import Path

from omniflow.cli.exit_codes import ExitCode
from tests.cluster_fixtures.command import omniflow
from tests.e2e.conftest import Here


async def test_submit_writes_the_results_and_says_where_the_time_went(here: Here) -> None:
    done = await here.omniflow("submit", "trivial", "--input", "payload=hello there", "--output", "out")
    assert done.status == 0, done.output
    assert (here.folder / "out" / "result.txt").read_text() == "hello there"
    assert "out/result.txt" in done.stdout
    for node, worker in (("first.echo", "first"), ("second.echo", "second"), ("third.echo", "third")):
        assert node in done.stderr
        assert worker in done.stderr


async def test_submit_takes_a_file_and_joins_a_stream(here: Here) -> None:
    (here.folder / "words.txt").write_text("one two three")
    done = await here.omniflow(
        "submit", "trivial_words", "--input", "payload=@words.txt", "--output", "words", "--json"
    )
    assert done.status == 0, done.output
    answer = json.loads(done.stdout)
    assert (here.folder / answer["results"]["result"][0]).read_text() == "onetwothree"
    assert {activation["node"] for activation in answer["report"]["activations"]} == {
        "first.echo",
        "second.echo",
        "third.words",
    }


async def test_status_json_names_every_process_and_worker(here: Here) -> None:
    done = await here.omniflow("status", "--json")
    assert done.status == 0, done.output
    status = json.loads(done.stdout)
    processes = {process["name"]: process["state"] for process in status["local"]["processes"]}
    assert processes == dict.fromkeys(("etcd", "scheduler", "first", "second", "third"), "running")
    workers = {worker["info"]["name"]: worker["state"] for worker in status["cluster"]["workers"]}
    assert workers == dict.fromkeys(("first", "second", "third"), "READY")
    assert status["cluster"]["registry_reachable"] is True


async def test_status_and_workers_for_people(here: Here) -> None:
    status = await here.omniflow("status")
    workers = await here.omniflow("workers")
    assert (status.status, workers.status) == (0, 0), status.output + workers.output
    for name in ("first", "second", "third"):
        assert name in status.stdout
        assert name in workers.stdout


async def test_bench_runs_every_job_and_writes_figures_and_a_plot(here: Here) -> None:
    done = await here.omniflow(
        "bench", "trivial", "--input", "payload=hello", "--concurrency", "8", "--jobs", "64", "--json"
    )
    assert done.status == 0, done.output
    figures = json.loads(done.stdout)
    assert (figures["completed"], figures["failed"]) == (64, 0)
    assert figures["request_throughput"] > 0
    assert 0 < figures["median_jct_ms"] <= figures["p99_jct_ms"]
    assert json.loads((here.folder / "out" / "bench.json").read_text()) == figures
    assert "<svg" in (here.folder / "out" / "bench.svg").read_text()


async def test_a_wrong_input_is_told_with_its_cure(here: Here) -> None:
    done = await here.omniflow("submit", "trivial", "--input", "pyload=x")
    assert done.status == ExitCode.USAGE
    assert "did you mean 'payload'?" in done.stderr
    done = await here.omniflow("submit", "triviall", "--input", "payload=x", "--json")
    assert done.status == ExitCode.USAGE
    assert json.loads(done.stdout)["error"]["code"] == "UNKNOWN_FLOW"


async def test_jobs_lists_what_ran_and_cancel_comes_too_late(here: Here) -> None:
    submitted = await here.omniflow("submit", "trivial", "--input", "payload=x", "--detach")
    assert submitted.status == 0, submitted.output
    job = submitted.stdout.strip()
    listed = await here.omniflow("jobs", "--all", "--json")
    assert job in {each["job"] for each in json.loads(listed.stdout)}
    cancelled = await here.omniflow("cancel", job, "--json")
    assert cancelled.status == 0, cancelled.output
    assert json.loads(cancelled.stdout)["job"] == job


async def test_a_drained_worker_leaves_and_its_role_is_missed(own: Here) -> None:
    done = await own.omniflow("drain", "third", "--json")
    assert done.status == 0, done.output
    assert json.loads(done.stdout) == {"worker": "third", "outstanding": 0}
    done = await own.omniflow("submit", "trivial", "--input", "payload=x", "--deadline", "0.5", "--json")
    assert done.status == ExitCode.REFUSED, done.output
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "NO_WORKER"
    assert "third" in error["message"]
    done = await own.omniflow("drain", "nobody")
    assert done.status == ExitCode.USAGE
    assert "first" in done.stderr


async def test_commands_without_a_cluster_say_how_to_start_one(tmp_path: Path) -> None:
    for command in (("status",), ("submit", "trivial", "--input", "payload=x"), ("drain", "first")):
        done = await omniflow(*command, folder=tmp_path)
        assert done.status == ExitCode.UNREACHABLE
        assert "omniflow up" in done.stderr
    done = await omniflow("down", folder=tmp_path)
    assert done.status == 0
    assert "no cluster runs" in done.stderr
