"""`flows`: the flows that the cluster knows."""

from typing import TYPE_CHECKING, Annotated

import typer

from omniflow.cli.failures import reports_failures
from omniflow.cli.options import AddressOption, ClusterOption, JsonOption

if TYPE_CHECKING:
    from omniflow.v1.flow_pb2 import Flow


def add_to(app: typer.Typer) -> None:
    """Adds this command."""
    app.command()(reports_failures(flows))


def flows(
    unregister: Annotated[
        str | None,
        typer.Option(
            "--unregister",
            metavar="NAME",
            help="Forget this flow, all its versions: no new job of it is taken; those that run go on.",
        ),
    ] = None,
    cluster: ClusterOption = None,
    address: AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the registered flows: what each takes and gives, and which roles it needs."""
    import json

    from omniflow.cli.consoles import err, out, plain_table
    from omniflow.cli.locate import locate
    from omniflow.cli.remote import ask

    target = locate(cluster, address)
    if unregister is not None:
        name = unregister
        versions = ask(target, lambda client: client.unregister_flow(name))
        if as_json:
            typer.echo(json.dumps({"flow": name, "versions": versions}))
        else:
            err().print(f"{name} is no longer registered ({versions} version{'s' if versions != 1 else ''})")
        return
    found = ask(target, lambda client: client.flows())
    if as_json:
        typer.echo(json.dumps([_as_json(flow) for flow in found]))
        return
    table = plain_table("flow", "takes", "gives", "roles", "version")
    for flow in found:
        takes, gives = _ports(flow)
        if flow.parameters:
            takes += f"; {_parameters(flow)}"
        table.add_row(flow.name, takes, gives, ", ".join(_roles(flow)), flow.version.hex()[:12])
    out().print(table)


def _ports(flow: "Flow") -> tuple[str, str]:
    from omniflow.types import ValueType

    inputs = ", ".join(f"{port.name}: {ValueType.from_proto(port.type)}" for port in flow.inputs)
    results = ", ".join(f"{port.name}: {ValueType.from_proto(port.type)}" for port in flow.results)
    return inputs, results


def _parameters(flow: "Flow") -> str:
    from omniflow.types import ValueType, from_message

    typed = [(each.name, ValueType.from_proto(each.type), each.default) for each in flow.parameters]
    return ", ".join(f"{name}: {type} = {from_message(default, type)!r}" for name, type, default in typed)


def _roles(flow: "Flow") -> list[str]:
    return list(dict.fromkeys(node.role for node in flow.nodes if node.role))


def _as_json(flow: "Flow") -> dict[str, object]:
    takes, gives = _ports(flow)
    return {
        "flow": flow.name,
        "version": flow.version.hex(),
        "takes": takes,
        "gives": gives,
        "parameters": _parameters(flow),
        "roles": _roles(flow),
        "doc": flow.doc,
    }
