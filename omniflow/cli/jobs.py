"""`jobs`, `cancel`."""

from typing import Annotated

import typer

from omniflow.cli.failures import reports_failures
from omniflow.cli.options import AddressOption, ClusterOption, JsonOption


def add_to(app: typer.Typer) -> None:
    """Adds these commands."""
    for command in (jobs, cancel):
        app.command()(reports_failures(command))


def jobs(
    ended: Annotated[bool, typer.Option("--all", "-a", help="Ended jobs that are still kept, too.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="So many at most, newest first.")] = 100,
    cluster: ClusterOption = None,
    address: AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """List jobs, newest first."""
    from omniflow.cli.consoles import out, plain_table
    from omniflow.cli.locate import locate
    from omniflow.cli.remote import ask, message_json
    from omniflow.report import describe_seconds
    from omniflow.v1 import error_pb2, job_pb2

    found = ask(locate(cluster, address), lambda client: client.list(ended=ended, limit=limit))
    if as_json:
        typer.echo("[" + ",\n ".join(message_json(job) for job in found) + "]")
        return
    table = plain_table("job", "flow", "state", "age", "deadline in", "error", right=("age", "deadline in"))
    for job in found:
        over = job.state not in (job_pb2.JobStatus.RUNNING, job_pb2.JobStatus.WAITING)
        table.add_row(
            job.job,
            job.flow,
            job_pb2.JobStatus.State.Name(job.state).lower(),
            describe_seconds(job.age_ms / 1000),
            "" if over else describe_seconds(job.remaining_ms / 1000),
            error_pb2.ErrorCode.Name(job.error.code) if job.HasField("error") else "",
        )
    out().print(table)


def cancel(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its id, as `omniflow jobs` shows it.")],
    reason: Annotated[str, typer.Option(help="Told to whoever waits for the job.")] = "cancelled by omniflow cancel",
    cluster: ClusterOption = None,
    address: AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel a job: what runs of it stops within one step."""
    import json

    from omniflow.cli.consoles import err
    from omniflow.cli.locate import locate
    from omniflow.cli.remote import ask

    running = ask(locate(cluster, address), lambda client: client.cancel(job, reason))
    if as_json:
        typer.echo(json.dumps({"job": job, "was_running": running}))
    else:
        err().print(f"job {job} is cancelled" if running else f"job {job} had ended already")
