"""`up`, `down`, `status`, `workers`, `drain`."""

from pathlib import Path
from typing import Annotated

import typer

from omniflow.cli.failures import reports_failures
from omniflow.cli.options import AddressOption, ClusterOption, JsonOption

ClusterFile = Annotated[Path, typer.Argument(metavar="CLUSTER.yaml", help="What to start.")]
MaybeClusterFile = Annotated[
    Path | None, typer.Argument(metavar="[CLUSTER.yaml]", help="By default the cluster of `.omniflow` here.")
]


def add_to(app: typer.Typer) -> None:
    """Adds these commands."""
    for command in (up, down, status, workers, drain):
        app.command()(reports_failures(command))


def up(
    cluster: ClusterFile,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Go into the background once it is ready.")] = False,
) -> None:
    """Start a cluster and stay with it until Ctrl-C; with --detach, until `omniflow down`."""
    from omniflow.cli.consoles import ConsoleObserver
    from omniflow.config import load_cluster
    from omniflow.launch import LocalLauncher

    config = load_cluster(cluster)
    if detach:
        LocalLauncher().start(config, ConsoleObserver())
    else:
        LocalLauncher().run(config, ConsoleObserver())


def down(
    file: MaybeClusterFile = None,
    cluster: ClusterOption = None,
    run: Annotated[Path | None, typer.Option(metavar="DIR", help="The cluster of this run folder.")] = None,
    force: Annotated[bool, typer.Option("--force", help="End everything at once; running jobs are lost.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for running jobs.")] = 120.0,
) -> None:
    """End a cluster: workers finish what they run, then everything stops and nothing is left."""
    import os

    from omniflow.cli.consoles import ConsoleObserver, err
    from omniflow.cli.locate import run_of
    from omniflow.errors import InvalidArgument
    from omniflow.launch import LocalLauncher

    if len(named := {str(path) for path in (file, cluster, run) if path}) > 1:
        names = " and ".join(sorted(named))
        raise InvalidArgument(f"{names} name two clusters", field="--cluster", cure="name one of them")
    folder = Path(os.path.abspath(run)) if run else run_of(cluster or file)
    found = LocalLauncher().stop(folder, timeout_s=timeout, force=force, observer=ConsoleObserver())
    err().print("the cluster has ended" if found else f"no cluster runs on {folder}")


def status(
    cluster: ClusterOption = None,
    address: AddressOption = None,
    as_json: JsonOption = False,
    memory: Annotated[bool, typer.Option("--memory", help="Also ask the workers where their memory is.")] = False,
) -> None:
    """Show the cluster: its processes, workers and jobs."""
    from omniflow.cli.consoles import out
    from omniflow.cli.locate import locate
    from omniflow.cli.memory_view import pages_table, sharing_lines
    from omniflow.cli.remote import ask
    from omniflow.cli.status_view import model_lines, process_table, status_json, summary_lines, worker_table
    from omniflow.errors import OmniFlowError

    target = locate(cluster, address)
    if target.state and not as_json:
        out().print(process_table(target.state))
    try:
        found, leader = ask(target, lambda client: (client.cluster_status(), client.address))
        held = ask(target, lambda client: client.memory()) if memory else None
    except OmniFlowError:
        if target.state and as_json:
            typer.echo(status_json(None, target.state))
            raise typer.Exit(3) from None
        raise
    if as_json:
        typer.echo(status_json(found, target.state, held))
        return
    for line in summary_lines(found, leader, target.state):
        out().print(line)
    out().print(worker_table(found.workers))
    for line in model_lines(found.workers):
        out().print(line)
    if held is not None:
        out().print(pages_table(held))
        for line in sharing_lines(held):
            out().print(line)


def workers(cluster: ClusterOption = None, address: AddressOption = None, as_json: JsonOption = False) -> None:
    """List the workers, what they serve and what they do."""
    from omniflow.cli.consoles import out
    from omniflow.cli.locate import locate
    from omniflow.cli.remote import ask, message_json
    from omniflow.cli.status_view import model_lines, worker_table

    found = ask(locate(cluster, address), lambda client: client.workers())
    if as_json:
        typer.echo("[" + ",\n ".join(message_json(worker) for worker in found) + "]")
    else:
        out().print(worker_table(found))
        for line in model_lines(found):
            out().print(line)


def drain(
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="Its name, as `omniflow workers` shows it.")],
    cluster: ClusterOption = None,
    address: AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a worker finish what it runs, take nothing new, and leave."""
    import json

    from omniflow.cli.consoles import err
    from omniflow.cli.locate import locate
    from omniflow.cli.remote import ask

    outstanding = ask(locate(cluster, address), lambda client: client.drain(worker))
    if as_json:
        typer.echo(json.dumps({"worker": worker, "outstanding": outstanding}))
    else:
        err().print(f"{worker} takes nothing new and leaves after {outstanding} running activations")
