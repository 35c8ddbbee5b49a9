"""Runs the real supervisor over tiny children: `tiny_cluster.py RUN NURSERY LISTEN [NAME=FLAG,FLAG ...]`."""

import asyncio
import sys
from pathlib import Path

from omniflow.config import ClusterConfig
from omniflow.errors import OmniFlowError
from omniflow.launch import ClusterState, Kind
from omniflow.launch.identity import MARK
from omniflow.launch.plan import Plan
from omniflow.launch.process import ProcessSpec
from omniflow.launch.sockets import socket_folder
from omniflow.launch.supervisor import Supervisor

CHILD = Path(__file__).with_name("tiny_child.py")


class AtOnce:
    """Everything is ready as soon as it is spawned, but for a cluster that shall never be."""

    def __init__(self, never: bool) -> None:
        self._never = never

    async def registry_ready(self, plan: Plan) -> None:
        return

    async def scheduler_ready(self, plan: Plan) -> None:
        return

    async def workers_ready(self, plan: Plan) -> None:
        if self._never:
            await asyncio.Event().wait()

    async def flows_registered(self, plan: Plan) -> None:
        return

    async def unserved(self, plan: Plan) -> list[str]:
        return []

    async def laggards(self, plan: Plan) -> list[str]:
        return ["worker"]


class Printed:
    def progress(self, text: str) -> None:
        print("progress:", text, flush=True)


def make_plan(run: Path, nursery: str, listen: str, flags: dict[str, str]) -> Plan:
    def spec(name: str, kind: Kind) -> ProcessSpec:
        given = tuple(filter(None, flags.get(name, "").split(",")))
        return ProcessSpec(
            name=name,
            kind=kind,
            argv=(sys.executable, str(CHILD), name, nursery, *given),
            log=run / "logs" / f"{name}.log",
            env={MARK: str(run)},
            stop_timeout_s=0.5 if "stubborn" in given else 10.0,
            may_leave=kind is Kind.WORKER,
        )

    config = ClusterConfig.model_validate(
        {
            "cluster": "tiny",
            "run": run,
            "start_timeout_s": 0.5 if flags.get("never") == "soon" else 20.0,
            "restart": {"first_delay_s": 0.02, "max_delay_s": 0.1},
            "workers": [{"name": "worker", "roles": ["nowhere:Nothing"]}],
        }
    )
    return Plan(
        config=config,
        run=run,
        addresses=(listen,),
        listens=(listen,),
        etcd_endpoints=("127.0.0.1:1",),
        etcd=spec("etcd", Kind.ETCD),
        schedulers=(spec("scheduler", Kind.SCHEDULER),),
        workers=(spec("worker", Kind.WORKER),),
        sockets=socket_folder(run, ["worker"]),
        files={run / "config" / "worker.json": {"some": "keys"}},
    )


def main() -> int:
    run, nursery, listen, *rest = sys.argv[1:]
    flags = dict(item.split("=", 1) for item in rest)

    def ready(state: ClusterState) -> None:
        print("ready", flush=True)

    try:
        plan = make_plan(Path(run), nursery, listen, flags)
        asyncio.run(Supervisor(plan, AtOnce("never" in flags), Printed(), ready).run())
    except OmniFlowError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
