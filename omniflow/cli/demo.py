"""`demo`: a picture and two questions in, the answers as text and speech out, and nothing left behind."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omniflow.cli.failures import reports_failures

if TYPE_CHECKING:
    from omniflow.cli.submission import Finished
    from omniflow.config import ClusterConfig
    from omniflow.types import Image

# Chosen: the demo's model has 135 million parameters, and gets most other questions about the board wrong.
_QUESTIONS = ("At what time does the train to Lisbon leave?", "Where does the train at 10:05 go?")


def add_to(app: typer.Typer) -> None:
    """Adds this command."""
    app.command()(reports_failures(demo))


def demo(
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Another picture with text in it.")] = None,
    question: Annotated[
        list[str] | None, typer.Option("--question", "-q", help="Your own question; again for more.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the answers go.")] = Path("out"),
) -> None:
    """Start the example cluster, ask two questions about a picture, hear the answers, end the cluster."""
    import asyncio

    from omniflow.cli.consoles import ConsoleObserver
    from omniflow.cli.for_a_while import cluster_for_a_while
    from omniflow.cli.outputs import make_output_folder
    from omniflow.config import load_cluster
    from omniflow.types import Image

    example = _example()
    image = Image.open(picture or example / "departures.png")
    make_output_folder(output)
    config = _beside_others(load_cluster(example / "cluster.yaml"))
    observer = ConsoleObserver()
    with cluster_for_a_while(config, observer) as state:
        failed = asyncio.run(_ask_all(state.address, image, question or list(_QUESTIONS), output))
    observer.progress("the cluster has ended")
    if failed:
        raise typer.Exit(1)


async def _ask_all(address: str, image: "Image", questions: list[str], output: Path) -> bool:
    """Whether any question failed."""
    from omniflow.cli.live import LiveProgress
    from omniflow.cli.submission import run_job
    from omniflow.client import Client

    failed = False
    async with Client(address) as client:
        for number, question in enumerate(questions, start=1):
            with LiveProgress(question) as live:
                inputs = {"image": image, "question": question}
                finished = await run_job(client, "speak_about", inputs, live.take, _tell)
            _show(finished, question, output, "answer" if number == 1 else f"answer-{number}")
            failed = failed or finished.error is not None
    return failed


def _tell(reason: str) -> None:
    from omniflow.cli.consoles import err

    err().print(f"speak_about {reason}", markup=False, soft_wrap=True)


def _show(finished: "Finished", question: str, output: Path, name: str) -> None:
    from omniflow.cli.consoles import columns, err, out
    from omniflow.cli.outputs import write_results
    from omniflow.report import describe_seconds, report_table, report_timeline
    from omniflow.types import Audio

    out().print(f"\n[bold]{question}[/bold]")
    if finished.error is not None:
        err().print(f"failed: {finished.error}", markup=False)
        return
    text, speech = finished.frames.get("text", []), finished.frames.get("speech", [])
    files = write_results(output, {name: text}) | {"speech": write_results(output, {name: speech}).get(name, [])}
    seconds = sum(part.seconds for part in speech if isinstance(part, Audio))
    out().print("".join(text).strip(), markup=False)
    written = ", ".join(str(path) for paths in files.values() for path in paths)
    out().print(f"written: {written} ({describe_seconds(seconds)} of speech)", markup=False, soft_wrap=True)
    if finished.report is not None:
        out().print(report_table(finished.report))
        out().print(report_timeline(finished.report, columns(out())), markup=False, soft_wrap=True)


def _beside_others(config: "ClusterConfig") -> "ClusterConfig":
    """On a free port and a run folder of its own: a cluster that is up here already is left alone."""
    from omniflow.launch import DEFAULT_RUN

    scheduler = config.scheduler.model_copy(update={"listen": "127.0.0.1:0"})
    return config.model_copy(update={"run": DEFAULT_RUN.absolute() / "demo", "scheduler": scheduler})


def _example() -> Path:
    from omniflow.errors import InvalidArgument

    folder = Path(__file__).parents[2] / "examples" / "speak"
    if not (folder / "cluster.yaml").is_file():
        raise InvalidArgument(
            f"the example is not at {folder}",
            field="demo",
            cure="the demo runs from a clone of the repository: `git clone`, then `make demo`",
        )
    return folder
