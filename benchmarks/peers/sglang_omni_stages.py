"""SGLang-Omni: three stages in three processes that compute nothing. Keep this module's name: stages import from it."""

import asyncio
import itertools
import logging
import time
from importlib.metadata import version

import torch
from orders import Order, take_orders
from sglang_omni.config.schema import PipelineConfig, StageConfig
from sglang_omni.pipeline.mp_runner import MultiProcessPipelineRunner
from sglang_omni.proto import StagePayload
from sglang_omni.scheduling.simple_scheduler import SimpleScheduler

START_SECONDS = 300


def first() -> SimpleScheduler:
    """Makes as many bytes as the request says."""

    def make(payload: StagePayload) -> StagePayload:
        payload.data = {"x": torch.zeros(payload.request.inputs["bytes"], dtype=torch.uint8)}
        return payload

    return SimpleScheduler(make)


def middle() -> SimpleScheduler:
    """Passes them on."""
    return SimpleScheduler(lambda payload: payload)


def last() -> SimpleScheduler:
    """Answers with their number."""

    def count(payload: StagePayload) -> StagePayload:
        payload.data = payload.data["x"].numel()
        return payload

    return SimpleScheduler(count)


def pipeline() -> PipelineConfig:
    """Each stage in a process of its own."""
    chain = {"first": "middle", "middle": "last", "last": None}
    return PipelineConfig(
        model_path="none",
        stages=[
            StageConfig(
                name=name,
                factory_path=f"sglang_omni_stages.{name}",
                process=name,
                **({"next": after} if after else {"terminal": True}),
            )
            for name, after in chain.items()
        ],
    )


class Driver:
    """A closed loop on the pipeline's coordinator."""

    def __init__(self, loop: asyncio.AbstractEventLoop, runner: MultiProcessPipelineRunner) -> None:
        self._loop = loop
        self._runner = runner
        self._ids = itertools.count()

    def run(self, order: Order) -> list[float]:
        """Latencies in seconds."""
        return self._loop.run_until_complete(self._closed_loop(order))

    async def _closed_loop(self, order: Order) -> list[float]:
        latencies: list[float] = []
        left = iter(range(order.requests))

        async def client() -> None:
            for _ in left:
                start = time.perf_counter()
                answer = await self._runner.coordinator.submit(f"r{next(self._ids)}", {"bytes": order.bytes})
                latencies.append(time.perf_counter() - start)
                if answer != order.bytes:
                    raise RuntimeError(f"expected {order.bytes}, got {answer!r}")

        async with asyncio.TaskGroup() as group:
            for _ in range(order.in_flight):
                group.create_task(client())
        return latencies


def main() -> None:
    """Starts the pipeline and takes orders."""
    logging.disable(logging.WARNING)
    loop = asyncio.new_event_loop()
    runner = MultiProcessPipelineRunner(pipeline())
    loop.run_until_complete(runner.start(timeout=START_SECONDS))
    try:
        take_orders(f"sglang-omni {version('sglang-omni')}", Driver(loop, runner).run)
    finally:
        loop.run_until_complete(runner.stop())


if __name__ == "__main__":
    main()
