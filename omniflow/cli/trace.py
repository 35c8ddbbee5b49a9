"""`trace`: a job moment by moment, as a file for Perfetto or as OpenTelemetry spans."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omniflow.cli.failures import reports_failures
from omniflow.cli.options import AddressOption, ClusterOption, JsonOption

if TYPE_CHECKING:
    from omniflow.client import SyncClient
    from omniflow.trace import JobTrace

_DEFAULT_OUT = Path("trace.json")


def add_to(app: typer.Typer) -> None:
    """Adds this command."""
    app.command()(reports_failures(trace))


def trace(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its id, as `omniflow jobs --all` shows it.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "--output",
            "-o",
            metavar="FILE",
            help="Chrome trace, for ui.perfetto.dev. By default trace.json.",
        ),
    ] = None,
    otlp: Annotated[
        str | None,
        typer.Option(
            "--otlp",
            metavar="URL",
            help="Send spans to this OpenTelemetry collector, e.g. http://127.0.0.1:4318; a file only with --out.",
        ),
    ] = None,
    cluster: ClusterOption = None,
    address: AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write what a job did, moment by moment: activations, queues, frames, transfers. Also while it runs."""
    import json

    from omniflow.cli.consoles import err
    from omniflow.cli.locate import locate
    from omniflow.cli.remote import ask

    found, name = ask(locate(cluster, address), lambda client: _trace(client, job))
    done: dict[str, object] = {"job": job, "activations": len(found.attempts)}
    if otlp is not None:
        done["spans"] = _export(found, name, otlp)
    if out is not None or otlp is None:
        done["file"] = str(_write(found, out or _DEFAULT_OUT))
    if as_json:
        typer.echo(json.dumps(done))
        return
    if "file" in done:
        typer.echo(f"wrote {done['file']}: {len(found.attempts)} activations; open it in https://ui.perfetto.dev")
    if "spans" in done:
        typer.echo(f"sent {done['spans']} spans to {otlp}")
    if not found.over:
        err().print(f"job {job} is {found.state}: what has not ended yet is cut off here, and has no span")


def _trace(client: "SyncClient", job: str) -> tuple["JobTrace", str]:
    """The job's trace, and the cluster's name."""
    from omniflow.trace import trace_of

    status = client.get(job)
    flows = client.flows(status.flow, status.flow_version)
    return trace_of(status, flows[0] if flows else None), client.cluster_status().cluster


def _export(found: "JobTrace", cluster: str, url: str) -> int:
    from omniflow.errors import InvalidArgument

    try:
        from omniflow.trace.export import export_spans
        from omniflow.trace.spans import spans_of
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            "sending spans needs the OpenTelemetry SDK",
            field="--otlp",
            cause=str(error),
            cure="install it: pip install 'omniflow-serving[otel]'",
        ) from None
    spans = spans_of(found, cluster)
    export_spans(spans, url)
    return len(spans)


def _write(found: "JobTrace", file: Path) -> Path:
    import json

    from omniflow.errors import InvalidArgument
    from omniflow.trace import chrome_trace

    try:
        with file.open("w", encoding="utf-8") as opened:
            json.dump(chrome_trace(found), opened, ensure_ascii=False, separators=(",", ":"))
    except OSError as error:
        raise InvalidArgument(
            f"cannot write {file}: {error.strerror}", field="--out", cure="give another --out"
        ) from None
    return file
