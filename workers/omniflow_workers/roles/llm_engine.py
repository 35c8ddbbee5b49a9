"""What the `llm` roles have in common: a model on an engine, its loop, its pages and those of others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from omniflow.errors import Cancelled
from omniflow.roles import Activation, EngineRole, QueueClosed, ReadyQueue, RoleContext
from omniflow_workers.engines.base import KvLayout, ModelFacts
from omniflow_workers.engines.fetching import Fetching, Reuse
from omniflow_workers.engines.loop import Request
from omniflow_workers.engines.planner import Limits
from omniflow_workers.roles.llm_options import EngineOptions
from omniflow_workers.roles.llm_prompt import Prompts
from omniflow_workers.transfer import Peers, SharedPool

if TYPE_CHECKING:
    from omniflow.v1.data_pb2 import MemoryAccount
    from omniflow_workers.engines.torch.pages import EnginePages

_IDLE_SECONDS = 3600.0  # waiting costs nothing: the queue wakes us
_RETRY_SECONDS = 0.005  # when all that is left to do is to offer text again, or to hear from others


class LlmEngine(EngineRole, ABC):
    """Serves activations by an engine's loop. A subclass says what one asks of it (`begin`)."""

    _reuse: Reuse = "never"
    _fetching: Fetching | None = None

    @abstractmethod
    def begin(self, activation: Activation) -> None:
        """`submit`s what it asks, or finishes it. What it raises fails the activation."""

    def open(self, options: EngineOptions, context: RoleContext) -> None:
        """Maps the model's weights, converting them first when the cache has none."""
        # Torch comes with this import: only a worker that serves the role pays for it.
        from omniflow_workers.engines.torch.converting import in_child
        from omniflow_workers.engines.torch.disk_file import DiskOptions
        from omniflow_workers.engines.torch.service import open_service

        self._running = options.running
        owner = (context.cluster, context.worker, type(self).name)
        disk = DiskOptions(context.cache / "kv", owner, options.kv_disk_bytes) if options.kv_disk_bytes else None
        self._service = open_service(
            options.model,
            context.cache,
            device=context.device,
            threads=options.threads,
            page_tokens=options.page_tokens,
            kv_bytes=options.kv_bytes,
            limits=Limits(options.running, options.step_tokens, options.mixed_tokens),
            converting=in_child,
            cluster=context.cluster,
            disk=disk,
        )
        self._prompts = Prompts(self._service.tokenizer, self._service.loop.capacity)

    def unload(self) -> None:
        """Lets go of what is held. The last role of the process that holds the weights frees them."""
        if self._fetching is not None:
            self._fetching.close()
        if self._service.disk is not None:
            self._service.disk.close()
        self._service.pages.hand_overs.close()
        self._service.engine.pool.close()
        self._service.weights.release()

    @property
    def model(self) -> ModelFacts:
        """Name, fingerprint and limits of the loaded model."""
        return self._service.facts

    @property
    def layout(self) -> KvLayout:
        """How the KV of the loaded model lies in its pages."""
        return self._service.layout

    @property
    def page_source(self) -> EnginePages:
        """The engine's pages, which other workers may borrow."""
        return self._service.pages

    def meet(self, peers: Peers) -> None:
        """From whom pages of prompts may come. What lies in the pool that is shared is read there."""
        share = self._service.engine.pool.share
        if share is not None:
            peers.share(SharedPool(share))
        self._fetching = Fetching(self._service.pages, peers, self._service.loop.rate, self._reuse, self._service.disk)

    def account(self, into: MemoryAccount) -> None:
        """Adds the engine's pages."""
        self._service.account(into)

    def submit(self, request: Request, *, handed_over: bool = False) -> None:
        """Has the engine compute it, with what others have of its prompt. `handed_over`: somebody has."""
        if self._fetching is None or not self._fetching.begin(request, handed_over=handed_over):
            self._add(request)

    def serve(self, ready: ReadyQueue) -> None:
        """Steps the engine while there is something to compute, and waits for more when there is not."""
        loop = self._service.loop
        open_ = True
        while open_ or loop.active or self._looking:
            room = 2 * self._running - loop.active - self._looking
            patience = self._patience()
            if open_ and room > 0:
                try:
                    taken = ready.take(room, patience)
                except QueueClosed:  # what has begun is finished
                    open_, taken = False, []
                for activation in taken:
                    self._begin(activation)
            self._take_found()
            loop.step()

    @property
    def _looking(self) -> int:
        """Requests whose pages are being looked for elsewhere."""
        return self._fetching.waiting if self._fetching is not None else 0

    def _patience(self) -> float:
        """Seconds that there is nothing to do for, unless something comes."""
        loop = self._service.loop
        hand_over_ends = self._service.pages.hand_overs.expire()
        if loop.computing or self._looking:
            return 0.0
        if loop.active:
            return _RETRY_SECONDS
        loop.rest()
        return min(_IDLE_SECONDS, hand_over_ends or _IDLE_SECONDS)

    def _begin(self, activation: Activation) -> None:
        try:
            self.begin(activation)
        except Exception as error:  # bad input: this activation ends, nothing else notices
            activation.fail(error)

    def _take_found(self) -> None:
        if self._fetching is not None and self._fetching.waiting:
            for request in self._fetching.cancelled():
                request.listener.failed(Cancelled("the answer is no longer wanted"))
            for request in self._fetching.found(0.0 if self._service.loop.computing else _RETRY_SECONDS):
                self._add(request)

    def _add(self, request: Request) -> None:
        try:
            self._service.loop.add(request)
        except Exception as error:  # what an earlier attempt said, say: this one ends, nothing else notices
            request.listener.failed(error)
