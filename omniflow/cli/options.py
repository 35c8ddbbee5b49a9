"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

ClusterOption = Annotated[
    Path | None,
    typer.Option("--cluster", metavar="FILE", help="The cluster's file; by default the cluster of `.omniflow` here."),
]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", metavar="HOST:PORT", envvar="OMNIFLOW_ADDRESS", help="The scheduler, wherever it is."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on standard output, for scripts.")]
