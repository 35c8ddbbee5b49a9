"""`omniflow`: all commands. Heavy imports wait until a command needs them, so that `--help` is quick."""

import sys

import typer

from omniflow.cli import bench, cluster, demo, flows, jobs, submit, trace

_FLOW_HELP = "Check and draw flows; needs no cluster."

_EPILOG = (
    "Exit status: 0 done; 1 the job or the start failed; 2 wrong use or input; 3 no cluster there; "
    "4 the cluster cannot take it now; 124 the deadline passed; 130 interrupted."
)


def build(arguments: list[str]) -> typer.Typer:
    """The command line. `flow` brings the whole flow language along, so it is loaded only when it is asked for."""
    app = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,  # its help would import half of rich, and take twice as long
        pretty_exceptions_enable=False,
        epilog=_EPILOG,
        help="Serve models made of several unlike parts: start a cluster, submit jobs, look at it.",
    )
    cluster.add_to(app)
    submit.add_to(app)
    jobs.add_to(app)
    trace.add_to(app)
    flows.add_to(app)
    if arguments[:1] == ["flow"]:
        from omniflow.cli.flow import app as flow_app

        app.add_typer(flow_app, name="flow", help=_FLOW_HELP)
    else:
        app.add_typer(typer.Typer(), name="flow", help=_FLOW_HELP)
    demo.add_to(app)
    bench.add_to(app)
    return app


def main() -> None:
    """The entry point of the `omniflow` script."""
    build(sys.argv[1:])()


if __name__ == "__main__":
    main()
