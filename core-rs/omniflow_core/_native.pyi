"""The extension module. One section per crate; held to the compiled module by `mypy.stubtest`."""

__version__: str

# --- flow -----------------------------------------------------------------------------------------------------------

class FlowProblem:
    """One reason why a graph can never work."""

    @property
    def code(self) -> str: ...          # stable, e.g. "unreachable-result", "exclusive-join"
    @property
    def message(self) -> str: ...       # what, and why it can never work
    @property
    def cure(self) -> str: ...
    @property
    def node(self) -> int | None: ...   # index into Flow.nodes
    @property
    def edge(self) -> int | None: ...   # index into Flow.edges

def check_flow(flow: bytes) -> list[FlowProblem]:
    """Problems of a serialized `omniflow.v1.Flow`, in node order; empty when it is valid. Raises `WireError` when it does not parse."""

# --- hub: the scheduler's data path -----------------------------------------------------------------------------------

class Hub:
    """Clients and worker links around the job table. All calls return at once; the GIL is released around work."""

    def __init__(
        self,
        *,
        cluster: str,
        term: int,
        policy: str = "least-outstanding",
        queue_limit: int = 100_000,
        max_deadline_ms: int = 600_000,
        max_input_bytes: int = 67_108_864,
        result_ttl_ms: int = 60_000,
        max_attempts: int = 3,
        heartbeat_ms: int = 1_000,
        heartbeat_limit_ms: int = 10_000,
        reconnect_ms: int = 2_000,
    ) -> None: ...
    def fileno(self) -> int:
        """An eventfd, readable while `ready_clients` would return something."""
    def open_client(self) -> int: ...
    def close_client(self, client: int) -> None:
        """The call or stream broke or ended: its jobs that were not submitted with `detach` are cancelled; the others go on."""
    def send(self, client: int, batch: bytes) -> None:
        """`batch` is a serialized `ClientBatch`, as it came off the wire. Answers come through `take`. Raises `WireError`."""
    def ready_clients(self) -> list[int]:
        """Clients with something to take; resets the eventfd. Each is named once until `take` has emptied it."""
    def take(self, client: int, max_bytes: int) -> bytes:
        """A serialized `EventBatch` of at most about `max_bytes`; empty when nothing is left."""
    def put_flow(self, flow: bytes) -> tuple[bytes, bool]:
        """(version, existed). Raises `FlowInvalid` with `.problems: list[FlowProblem]`."""
    def flows(self) -> list[bytes]: ...
    def worker_seen(self, info: bytes) -> None:
        """The registry shows this `WorkerInfo` (new, or changed). The hub dials it."""
    def worker_gone(self, name: str, incarnation: str) -> None:
        """The registration vanished. With a living link this changes nothing (rule 13)."""
    def drain_worker(self, name: str) -> int:
        """Outstanding activations. Raises `UnknownWorker`."""
    def cluster_status(self) -> bytes: ...
    def job_status(self, job: str) -> bytes | None: ...
    def list_jobs(self, request: bytes) -> bytes: ...
    def close(self, timeout: float) -> None:
        """Refuses new jobs, waits up to `timeout` seconds for running ones, closes the links."""

# --- node: a worker's data path ---------------------------------------------------------------------------------------

class Node:
    """Links, resolvers and ready queues of one worker. Listens once constructed; frames never enter Python on their way."""

    def __init__(
        self,
        info: bytes,
        listen: list[str],
        *,
        cluster: str,
        retention_bytes: int = 268_435_456,
        heartbeat_limit_ms: int = 10_000,
    ) -> None:
        """`info`: serialized WorkerInfo. `listen`: "unix:PATH" or "tcp:HOST:PORT" (port 0: any)."""
    @property
    def addresses(self) -> list[str]:
        """Where it listens, with real port numbers: what to register."""
    def ready(self, role: str) -> Ready: ...
    def drain(self) -> None:
        """Accept nothing new; finish what is bound."""
    def wait_drained(self, timeout: float) -> bool: ...
    def draining(self) -> bool: ...  # asked by the scheduler, or by `drain`
    def stats(self) -> dict[str, int]:
        """Counters and gauges: jobs, activations queued and running, frames and bytes in and out, retained bytes."""
    def close(self) -> None: ...

class Ready:
    """The ready queue of one role, ordered by the scheduler's `order` of the job, then by arrival."""

    def take(self, max_n: int, timeout: float) -> list[Activation]:
        """Up to `max_n` activations, as soon as there is one (they are STARTED by this); empty after `timeout` seconds. Raises `Closed`."""
    def __len__(self) -> int: ...

class Activation:
    """One run of a node in a job for one key. Methods are safe from any thread."""

    @property
    def job(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def key(self) -> tuple[int, ...]: ...
    @property
    def epoch(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def tenant(self) -> str: ...
    @property
    def cancelled(self) -> bool:
        """The job was cancelled, has failed or is past its deadline: stop within one step."""
    @property
    def remaining_ms(self) -> int: ...
    @property
    def parameters(self) -> dict[str, bytes]:
        """Serialized Values: the flow's constants, overridden by the job's."""
    @property
    def inputs(self) -> list[tuple[str, str]]:
        """(parameter, "value" | "stream" | "none") of the ports of the alternative that fired."""
    def value(self, parameter: str) -> bytes | None:
        """A plain input's serialized Value; None when an optional port was closed."""
    def read(self, parameter: str, max_n: int, timeout: float) -> list[bytes] | None:
        """Next frames of a stream, at least one; [] after `timeout` seconds; None when it has ended. Raises `Cancelled`."""
    def emit(self, port: str, frames: list[bytes]) -> int:
        """How many were taken; never blocks. Raises `Cancelled`, `UnknownPort`, `BadOutput` (second frame on a plain port)."""
    def end(self, port: str) -> None:
        """No more frames on this stream port."""
    def finish(self, features: dict[str, float]) -> None:
        """Ends open stream ports, closes optional ports that got nothing. Raises `BadOutput` when a required plain port got nothing."""
    def fail(self, error: bytes) -> None:
        """`error`: a serialized Error; node and worker are filled in."""
