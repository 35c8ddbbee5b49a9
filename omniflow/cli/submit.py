"""`submit`: runs a job, writes its results, says where the time went."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omniflow.cli.failures import error_fields, reports_failures
from omniflow.cli.options import AddressOption, ClusterOption, JsonOption

if TYPE_CHECKING:
    from omniflow.cli.locate import Target
    from omniflow.cli.submission import Finished


def add_to(app: typer.Typer) -> None:
    """Adds this command."""
    app.command()(reports_failures(submit))


def submit(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="A registered flow's name.")],
    given: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", metavar="NAME=VALUE|@FILE", help="An input; again for each frame of a stream."),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="NAME=VALUE",
            help="A parameter of the flow; or any other constant in it, as NODE.PARAMETER.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "--out", "-o", metavar="DIR", help="Where the results go.")
    ] = Path("out"),
    deadline: Annotated[float | None, typer.Option(help="Seconds from now; by default the cluster's maximum.")] = None,
    priority: Annotated[int, typer.Option(help="A higher class goes first.")] = 0,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Print the job's id and leave; it goes on without us.")
    ] = False,
    timeline: Annotated[bool, typer.Option("--timeline", help="Draw the timeline, too.")] = False,
    cluster: ClusterOption = None,
    address: AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job and write its results into a folder."""
    import asyncio

    from omniflow.cli.exit_codes import exit_code_of
    from omniflow.cli.locate import locate
    from omniflow.cli.outputs import output_folder

    target = locate(cluster, address)
    if detach:
        job = asyncio.run(_submit_detached(target, flow, given or [], parameter or [], priority, deadline))
        typer.echo(f'{{"job": "{job}"}}' if as_json else job)
        return
    with output_folder(output):
        finished = asyncio.run(_submit(target, flow, given or [], parameter or [], priority, deadline))
        _show(finished, output, timeline, as_json)
    if finished.error is not None:
        raise typer.Exit(exit_code_of(finished.error))


async def _submit(
    target: "Target", flow: str, given: list[str], parameter: list[str], priority: int, deadline: float | None
) -> "Finished":
    from omniflow.cli.consoles import err
    from omniflow.cli.inputs import read_inputs, read_parameters
    from omniflow.cli.live import LiveProgress
    from omniflow.cli.submission import run_job
    from omniflow.client import Client

    async with Client(target.address) as client:
        signature = await client.signature_of(flow, b"")
        inputs = read_inputs(signature.inputs, given)
        with LiveProgress(flow) as live:
            return await run_job(
                client,
                flow,
                inputs,
                live.take,
                lambda reason: err().print(f"{flow} {reason}", markup=False, soft_wrap=True),
                parameters=read_parameters(parameter),
                priority=priority,
                deadline=deadline,
            )


async def _submit_detached(
    target: "Target", flow: str, given: list[str], parameter: list[str], priority: int, deadline: float | None
) -> str:
    from omniflow.cli.inputs import read_inputs, read_parameters
    from omniflow.client import Client

    async with Client(target.address) as client:
        signature = await client.signature_of(flow, b"")
        job = await client.submit(
            flow,
            read_inputs(signature.inputs, given),
            parameters=read_parameters(parameter),
            priority=priority,
            deadline=deadline,
            detach=True,
        )
        return job.id


def _show(finished: "Finished", output: Path, timeline: bool, as_json: bool) -> None:
    from omniflow.cli.consoles import columns, err, out
    from omniflow.cli.outputs import short_text, write_results
    from omniflow.report import report_table, report_timeline

    files = write_results(output, finished.frames)
    if as_json:
        typer.echo(_as_json(finished, files))
        return
    for port, paths in files.items():
        for path in paths:
            out().print(f"{port}: {path}", markup=False, soft_wrap=True)
        # Only for eyes: what a pipe or a script reads is the list of files.
        if out().is_terminal and (text := short_text(finished.frames[port])):
            out().print(text, markup=False, soft_wrap=True)
    if finished.report is not None:
        err().print(report_table(finished.report))
        if timeline:
            err().print(report_timeline(finished.report, columns(err())), markup=False, soft_wrap=True)
    if finished.error is not None:
        err().print(f"job {finished.job} failed: {finished.error}", markup=False, soft_wrap=True)


def _as_json(finished: "Finished", files: dict[str, list[Path]]) -> str:
    import json

    from google.protobuf.json_format import MessageToDict

    answer: dict[str, Any] = {
        "job": finished.job,
        "results": {port: [str(path) for path in paths] for port, paths in files.items()},
        "report": MessageToDict(
            finished.report, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        if finished.report is not None
        else None,
    }
    if finished.error is not None:
        answer["error"] = error_fields(finished.error)
    return json.dumps(answer)
