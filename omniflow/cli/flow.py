"""`omniflow flow check` and `omniflow flow draw`."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from omniflow.cli.exit_codes import ExitCode
from omniflow.cli.failures import reports_failures
from omniflow.errors import BadFlow, InvalidArgument, Problem
from omniflow.flow import Flow, load_flows
from omniflow.flow.draw import mermaid, svg

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Check and draw flows; needs no cluster.")

Target = Annotated[str, typer.Argument(metavar="FILE[:NAME]", help="A Python file (or module), and which flow of it.")]


class Format(enum.StrEnum):
    mermaid = "mermaid"
    svg = "svg"


_ENDINGS = {".svg": Format.svg, ".mmd": Format.mermaid, ".md": Format.mermaid}


@app.command()
@reports_failures
def check(
    target: Target,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per flow, for scripts.")] = False,
) -> None:
    """Say what is wrong with flows, each mistake with its line and cure. Exit status 2 when something is."""
    flows = load_flows(target)
    wrong = False
    for flow in flows:
        problems = flow.problems()
        wrong = wrong or bool(problems)
        if as_json:
            typer.echo(json.dumps(_as_json(flow, problems)))
        elif problems:
            typer.echo(str(BadFlow.of(flow.name, problems)), err=True)
        else:
            compiled = flow.to_proto()
            roles = ", ".join(dict.fromkeys(node.role for node in compiled.nodes if node.role)) or "none"
            typer.echo(
                f"{flow.name}: ok, {len(compiled.nodes)} nodes, roles {roles}, version {compiled.version.hex()[:12]}"
            )
    if wrong:
        raise typer.Exit(ExitCode.USAGE)


@app.command()
@reports_failures
def draw(
    target: Target,
    format: Annotated[
        Format, typer.Option(help="mermaid: text; svg: a picture. OUT's ending goes before it.")
    ] = Format.mermaid,
    out: Annotated[
        Path | None, typer.Option("--out", "--output", "-o", help="Where to write it; standard output if absent.")
    ] = None,
) -> None:
    """Draw a flow. The format follows the ending of OUT: .svg a picture, .mmd or .md Mermaid text."""
    if out is not None:
        format = _format_of(out)
    flows = load_flows(target)
    if len(flows) > 1:
        names = ", ".join(flow.name for flow in flows)
        raise InvalidArgument(f"{target} defines several flows", field=target, cure=f"name one, FILE:NAME, of {names}")
    compiled = flows[0].to_proto()
    drawing = svg(compiled) if format is Format.svg else mermaid(compiled)
    if out is None:
        typer.echo(drawing, nl=False)
        return
    try:
        out.write_text(drawing)
    except OSError as error:
        raise InvalidArgument(
            f"cannot write {out}: {error.strerror}", field=str(out), cure="give another --out"
        ) from error
    typer.echo(f"wrote {out}")


def _format_of(out: Path) -> Format:
    """By its ending: another one would name a file for what it does not hold."""
    format = _ENDINGS.get(out.suffix.lower())
    if format is None:
        raise InvalidArgument(
            f"cannot draw into {out}: its ending names no format that `flow draw` writes",
            field="--out",
            cure="end its name in .svg for a picture, or in .mmd or .md for Mermaid text",
        )
    return format


def _as_json(flow: Flow[..., Any], problems: list[Problem]) -> dict[str, Any]:
    return {
        "flow": flow.name,
        "ok": not problems,
        "problems": [
            {
                "code": each.code,
                "message": each.message,
                "cure": each.cure,
                "node": each.node,
                "file": each.source.file if each.source else "",
                "line": each.source.line if each.source else 0,
            }
            for each in problems
        ],
    }
