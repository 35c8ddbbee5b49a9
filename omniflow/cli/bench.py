"""`bench`: a load test."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omniflow.cli.failures import reports_failures
from omniflow.cli.options import AddressOption, ClusterOption, JsonOption

if TYPE_CHECKING:
    from omniflow.bench.run import Outcome
    from omniflow.cli.locate import Target


@dataclass(frozen=True, slots=True)
class _Settings:
    """The command's options that shape the load."""

    concurrency: int
    rate: float | None
    jobs: int | None
    duration: float | None
    warmup: int
    deadline: float | None
    seed: int


def add_to(app: typer.Typer) -> None:
    """Adds this command."""
    app.command()(reports_failures(bench))


def bench(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="A registered flow's name.")],
    given: Annotated[
        list[str] | None, typer.Option("--input", "-i", metavar="NAME=VALUE|@FILE", help="An input of every job.")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option("--param", "-p", metavar="NAME=VALUE", help="Of every job; NAME as for submit.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", min=1, help="Closed loop: so many jobs at once (default 8).")
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", "-r", help="Open loop: so many jobs a second (Poisson), come what may.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-n", min=1, help="So many jobs (default 100).")] = None,
    duration: Annotated[float | None, typer.Option(help="For so many seconds, instead of --jobs.")] = None,
    warmup: Annotated[int, typer.Option(min=0, help="Jobs before the test, which count for nothing.")] = 1,
    deadline: Annotated[float | None, typer.Option(help="Of each job, in seconds.")] = None,
    seed: Annotated[int, typer.Option(help="Of the arrivals of an open loop.")] = 0,
    output: Annotated[
        Path,
        typer.Option("--output", "--out", "-o", metavar="FILE.json", help="Figures; the plot lies beside it as .svg."),
    ] = Path("out/bench.json"),
    cluster: ClusterOption = None,
    address: AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load a cluster with jobs of one flow and measure it."""
    import asyncio

    import uvloop

    from omniflow.cli.locate import locate
    from omniflow.cli.outputs import make_output_folder
    from omniflow.errors import InvalidArgument

    if rate is not None and (concurrency is not None or rate <= 0):
        raise InvalidArgument(
            "--rate is a number above 0 and excludes --concurrency",
            field="--rate",
            cure="a load is either so many jobs at once, or so many a second",
        )
    if duration is not None and duration <= 0:
        raise InvalidArgument("--duration is a number of seconds above 0", field="--duration")
    target = locate(cluster, address)
    make_output_folder(output.parent)

    load = _Settings(concurrency or 8, rate, jobs, duration, warmup, deadline, seed)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(_run(target, flow, given or [], parameter or [], load))
    _report(outcome, output, as_json)


async def _run(target: "Target", flow: str, given: list[str], parameter: list[str], settings: "_Settings") -> "Outcome":
    from omniflow.bench.run import Load, run_load
    from omniflow.cli.bench_view import LoadProgress
    from omniflow.cli.inputs import read_inputs, read_parameters
    from omniflow.client import Client

    async with Client(target.address) as client:
        signature = await client.signature_of(flow, b"")
        load = Load(
            flow=flow,
            inputs=read_inputs(signature.inputs, given),
            concurrency=settings.concurrency,
            rate=settings.rate,
            jobs=100 if settings.jobs is None and settings.duration is None else settings.jobs,
            duration_s=settings.duration,
            warm_up=settings.warmup,
            parameters=read_parameters(parameter),
            deadline_s=settings.deadline,
            seed=settings.seed,
        )
        with LoadProgress(load.jobs, load.duration_s) as bar:
            return await run_load(client, load, target.state, bar.begin, bar.take)


def _report(outcome: "Outcome", output: Path, as_json: bool) -> None:
    import json

    from omniflow.bench import latency_plot
    from omniflow.cli.bench_view import figures_table
    from omniflow.cli.consoles import err
    from omniflow.cli.outputs import cannot_write

    text = json.dumps(outcome.figures, indent=1)
    plot = output.with_suffix(".svg")
    title = f"{outcome.figures['flow']}: {outcome.figures['completed']} jobs"
    try:
        output.write_text(text + "\n")
        plot.write_text(latency_plot(outcome.samples, title))
    except OSError as error:
        raise cannot_write(output, error) from None
    if as_json:
        typer.echo(text)
    else:
        err().print(figures_table(outcome.figures))
        err().print(f"figures: {output}, plot: {plot}", markup=False, soft_wrap=True)
