"""M*: a conductor and three workers, whose nodes compute nothing. The driver stands where M*'s API server stands."""

import itertools
import logging
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import torch
from mstar.api_server.data_worker import PreprocessWorker
from mstar.api_server.request_types import PreprocessInput
from mstar.communication.communicator import CommProtocol, make_communicator
from mstar.conductor.conductor import Conductor
from mstar.conductor.request_info import CurrentForwardConductorMetadata
from mstar.graph.base import GraphEdge, GraphNode, Sequential
from mstar.graph.special_destinations import EMIT_TO_CLIENT
from mstar.model.base import ForwardPassArgs, Model
from mstar.model.submodule_base import NodeInputs, NodeSubmodule
from orders import Order, take_orders

SILENCE_SECONDS = 60
PLACEMENT = """
model: counting
max_seq_len: 128
node_groups:
  - {node_names: [first], ranks: [0]}
  - {node_names: [middle], ranks: [1]}
  - {node_names: [last], ranks: [2]}
"""


class CountingNode(NodeSubmodule):
    """`first` makes the bytes, `middle` passes them on, `last` counts them."""

    disable_torch_compile = True

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def prepare_inputs(self, graph_walk: Any, fwd_info: Any, inputs: Any, **_: Any) -> NodeInputs:
        return NodeInputs(tensor_inputs={"x": inputs["x"][0]})

    def can_batch(self, batch: Any, model_inputs: Any) -> bool:
        return True

    def preprocess(self, graph_walk: Any, engine_inputs: Any, inputs: Any) -> dict[str, list[torch.Tensor]]:
        return {"xs": [each.tensor_inputs["x"] for each in inputs]}

    def forward(self, graph_walk: Any, engine_inputs: Any, xs: list[torch.Tensor]) -> dict[str, list[torch.Tensor]]:
        return self._answer(xs[0])

    def forward_batched(self, graph_walk: Any, engine_inputs: Any, xs: list[torch.Tensor]) -> dict[str, Any]:
        return {request: self._answer(x) for request, x in zip(engine_inputs.request_ids, xs, strict=True)}

    def _answer(self, x: torch.Tensor) -> dict[str, list[torch.Tensor]]:
        match self.name:
            case "first":
                return {"x": [torch.zeros(int(x), dtype=torch.uint8)]}
            case "middle":
                return {"x": [x.clone()]}  # a node owns what it returns
            case _:
                return {"count": [torch.tensor([x.numel()])]}


class CountingModel(Model):
    """Three nodes in a row."""

    def get_node_resources(self) -> list[Any]:
        return []

    def get_graph_walk_graphs(self) -> dict[str, Any]:
        return {
            "walk": Sequential(
                [
                    GraphNode("first", ["x"], [GraphEdge("middle", "x")]),
                    GraphNode("middle", ["x"], [GraphEdge("last", "x")]),
                    GraphNode("last", ["x"], [GraphEdge(EMIT_TO_CLIENT, "count", output_modality="text")]),
                ]
            )
        }

    def process_prompt(self, prompt: str, *_: Any, **__: Any) -> dict[str, list[torch.Tensor]]:
        return {"x": [torch.tensor([int(prompt)])]}

    def get_initial_forward_pass_args(
        self,
        partition_name: Any,
        input_modalities: Any,
        output_modalities: Any,
        input_signals: Any,
        model_kwargs: Any = None,
    ) -> ForwardPassArgs:
        return ForwardPassArgs(
            full_metadata=CurrentForwardConductorMetadata(graph_walk="walk", is_prefill=False),
            inputs=[GraphEdge("first", "x", tensor_info=input_signals["x"])],
            unpersist_tensors=[],
        )

    def get_partition_forward_pass_args(
        self, partition_name: Any, partition_metadata: Any, persist_signals: Any, incoming_connections: Any = None
    ) -> ForwardPassArgs:
        return ForwardPassArgs(
            full_metadata=partition_metadata,
            inputs=[],
            unpersist_tensors=list(itertools.chain.from_iterable(persist_signals.values())),
            request_done=True,
        )

    def postprocess(self, output: torch.Tensor, modality: Any, request_kwargs: Any = None) -> bytes:
        return str(int(output)).encode()

    def get_submodule(self, node_name: str, *_: Any, **__: Any) -> CountingNode:
        return CountingNode(node_name)


def conduct(sockets: str, placement: str) -> None:
    """The conductor's process, which starts its workers itself."""
    logging.disable(logging.WARNING)
    conductor = Conductor(
        CountingModel(),
        placement,
        socket_path_prefix=sockets,
        log_level="ERROR",
        tensor_comm_protocol=CommProtocol.SHM,
    )
    try:
        conductor.run()
    finally:
        conductor.shutdown()


class Driver:
    """A closed loop between HTTP and the conductor."""

    def __init__(self, sockets: str) -> None:
        self._ids = itertools.count()
        self._inbox = make_communicator(my_id="api_server", push_ids=["conductor"], ipc_socket_path_prefix=sockets)
        self._data = PreprocessWorker(
            model=CountingModel(), socket_path_prefix=sockets, tensor_comm_protocol=CommProtocol.SHM
        )

    def wait_ready(self, conductor: Any) -> None:
        """Until every worker is set up."""
        while not any(message.message_type == "setup_done" for message in self._inbox.get_all_new_messages()):
            if not conductor.is_alive():
                raise RuntimeError("the conductor ended before its workers were ready")
            time.sleep(0.02)

    def close(self) -> None:
        """Ends the driver's own threads."""
        self._data.shutdown()

    def run(self, order: Order) -> list[float]:
        """Latencies in seconds."""
        started: dict[str, float] = {}
        latencies: list[float] = []
        left = iter(range(order.requests))

        def submit() -> None:
            if next(left, None) is not None:
                request = f"r{next(self._ids)}"
                started[request] = time.perf_counter()
                self._submit(request, order.bytes)

        for _ in range(order.in_flight):
            submit()
        for request, answer in self._finished():
            latencies.append(time.perf_counter() - started.pop(request))
            if answer != order.bytes:
                raise RuntimeError(f"expected {order.bytes}, got {answer}")
            submit()
            if not started:
                break
        return latencies

    def _submit(self, request: str, size: int) -> None:
        self._data.new_request(
            PreprocessInput(
                request_id=request,
                text=str(size),
                file_paths=None,
                input_modalities=["text"],
                output_modalities=["text"],
                model_kwargs={},
            )
        )

    def _finished(self) -> Iterator[tuple[str, int]]:
        answers: dict[str, int] = {}
        complete: set[str] = set()
        heard = time.monotonic()
        while time.monotonic() - heard < SILENCE_SECONDS:
            self._take_messages(complete)
            for chunk in self._data.get_result_chunks():
                answers[chunk.request_id] = int(chunk.data)
            done = complete & answers.keys()
            complete -= done
            for request in done:
                self._data.finished_reading(request)
                heard = time.monotonic()
                yield request, answers.pop(request)
            if not done:
                self._inbox.poll_for_messages(timeout_ms=1)
        raise TimeoutError(f"no answer for {SILENCE_SECONDS} s")

    def _take_messages(self, complete: set[str]) -> None:
        for message in self._inbox.get_all_new_messages():
            match message.message_type:
                case "result_tensors":
                    self._data.new_result_tensors(message.body)
                case "request_complete":
                    complete.add(message.body.request_id)
                case "request_failed":
                    raise RuntimeError(message.body.error_message)


def main() -> None:
    """Starts conductor and workers and takes orders."""
    logging.disable(logging.WARNING)
    os.environ["MSTAR_RUST_ZMQ"] = os.environ["MSTAR_SHM_ARENA"] = "0"
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="mstar-") as folder:
        placement = Path(folder, "placement.yaml")
        placement.write_text(PLACEMENT)
        driver = Driver(folder)
        conductor = multiprocessing.get_context("spawn").Process(target=conduct, args=(folder, str(placement)))
        conductor.start()
        try:
            driver.wait_ready(conductor)
            take_orders(f"mstar {version('mstar-ai')}", driver.run)
        finally:
            for process in [*psutil.Process(conductor.pid).children(), conductor]:
                process.terminate()
            conductor.join(10)
            driver.close()


if __name__ == "__main__":
    main()
