"""The extension module. One section per crate; held to the compiled module by `mypy.stubtest`."""

from os import PathLike
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

__version__: str

# --- flow -----------------------------------------------------------------------------------------------------------

@final
class FlowProblem:
    """One reason why a graph can never work."""

    @property
    def code(self) -> str:
        """Stable name of the kind of problem, e.g. "unreachable-result", "exclusive-join"."""

    @property
    def message(self) -> str:
        """What is wrong, and why it can never work."""

    @property
    def cure(self) -> str:
        """What to do about it."""

    @property
    def node(self) -> int | None:
        """Index into `Flow.nodes` of the node at fault; None when it is no single one's."""

    @property
    def edge(self) -> int | None:
        """Index into `Flow.edges` of the edge at fault; None when it is no single one's."""

def check_flow(flow: bytes) -> list[FlowProblem]:
    """Problems of a serialized `omniflow.v1.Flow`, in node order, those of no node last; empty when it is valid.

    Raises `WireError` when the bytes are no such message.
    """

def flow_version(flow: bytes) -> bytes:
    """The version of a serialized `omniflow.v1.Flow`: a hash over all but the version itself, docs and source places.

    Raises `WireError`.
    """

# --- hub: the scheduler's data path -----------------------------------------------------------------------------------

@final
class Hub:
    """Clients and worker links around the job table. All calls but `close` return at once, and release the GIL.

    `journal`: the folder in which accepted jobs survive the process (`kill -9`), of this hub alone; with
    `journal_fsync` also the machine, at the price of a wait for the disk with every batch. What it holds is back when
    this returns. Raises `InvalidArgument` for an unknown policy, naming the known ones; `JournalUnusable` for a journal
    that is damaged, in use, or not to be read or written: which file, where in it, and the cure.

    `tls`: PEM files with the scheduler's certificate, its key and the cluster's authority, for links over TCP; none:
    they are plain. Raises `CertificateUnusable`, naming the file and the cure.
    """

    def __new__(
        cls,
        *,
        cluster: str,
        term: int,
        policy: str = "least-outstanding",
        queue_limit: int = 100_000,
        max_deadline_ms: int = 600_000,
        max_input_bytes: int = 67_108_864,
        max_held_input_bytes: int = 2_147_483_648,
        max_kept_result_bytes: int = 2_147_483_648,
        client_grace_ms: int = 5_000,
        result_ttl_ms: int = 60_000,
        max_attempts: int = 3,
        journal: str | PathLike[str] | None = None,
        journal_fsync: bool = False,
        heartbeat_ms: int = 1_000,
        heartbeat_limit_ms: int = 10_000,
        reconnect_ms: int = 2_000,
        tls: tuple[str, str, str] | None = None,
    ) -> Self: ...
    def fileno(self) -> int:
        """An eventfd, readable while `ready_clients` would return something."""
    def open_client(self) -> int: ...
    def close_client(self, client: int) -> None:
        """The call or stream broke or ended: its jobs, but for those submitted with `detach`, are cancelled after the
        grace period, unless a client takes them over in it."""
    def send(self, client: int, batch: bytes) -> int:
        """`batch` is a serialized `ClientBatch`, as it came off the wire. Answers come through `take`.

        How many of them wait for the client: while they are many, it should not be listened to.
        Raises `WireError`, `UnknownClient`.
        """
    def ready_clients(self) -> list[int]:
        """Clients with something to take; resets the eventfd. Each is named once until `take` has emptied it."""
    def take(self, client: int, max_bytes: int) -> bytes:
        """A serialized `EventBatch` of at most about `max_bytes`; empty when nothing is left."""
    def put_flow(self, flow: bytes) -> tuple[bytes, bool]:
        """(version, existed); it is the newest of its name from now on. Raises `WireError`, `FlowInvalid`."""
    def drop_flow(self, name: str) -> bool:
        """Forgets every version of a flow; jobs that run go on. Whether it was known."""
    def flows(self) -> list[bytes]: ...
    def worker_seen(self, info: bytes) -> None:
        """The registry shows this `WorkerInfo` (new, or changed). The hub dials it. Raises `WireError`."""
    def worker_gone(self, name: str, incarnation: str) -> None:
        """The registration vanished. With a living link this changes nothing (rule 13)."""
    def drain_worker(self, name: str, within_ms: int = 0) -> int:
        """Outstanding activations; those that are left after `within_ms` (0: no limit) go on elsewhere.

        Raises `UnknownWorker`.
        """
    def cluster_status(self) -> bytes: ...
    def job_status(self, job: str) -> bytes | None: ...
    def list_jobs(self, request: bytes) -> bytes: ...
    def close(self, timeout: float) -> None:
        """Refuses new jobs, waits up to `timeout` seconds for running ones, closes the links."""

# --- node: a worker's data path ---------------------------------------------------------------------------------------

@final
class Node:
    """Links, resolvers and ready queues of one worker. Listens once constructed.

    Frames never enter Python on their way to the ready queue.
    """

    def __new__(
        cls,
        info: bytes,
        listen: list[str],
        *,
        cluster: str,
        retention_bytes: int = 268_435_456,
        heartbeat_limit_ms: int = 10_000,
        reconnect_ms: int = 2_000,
        tls: tuple[str, str, str] | None = None,
    ) -> Self:
        """`info`: serialized WorkerInfo. `listen`: "unix:PATH" or "tcp:HOST:PORT" (port 0: any).

        `reconnect_ms`: how long a link outlives its connection. `tls`: PEM files with this worker's certificate, its
        key and the cluster's authority, for links over TCP; none: they are plain.

        Raises `WireError`, `InvalidArgument` (an address that can never be right), `AddressInUse`, and
        `CertificateUnusable`, naming the file and the cure.
        """
    @property
    def addresses(self) -> list[str]:
        """Where it listens, with real port numbers: what to register."""
    def ready(self, role: str) -> Ready:
        """Raises `InvalidArgument` for a role that `info` did not name."""
    def drain(self) -> None:
        """Accept nothing new; finish what is bound."""
    def wait_drained(self, timeout: float) -> bool: ...
    def draining(self) -> bool: ...  # asked by the scheduler, or by `drain`
    def stats(self) -> dict[str, int]:
        """Counters and gauges: jobs, activations queued and running, frames and bytes in and out, retained bytes."""
    def close(self) -> None: ...

@final
class Ready:
    """The ready queue of one role, ordered by the scheduler's `order` of the job, then by arrival."""

    def take(self, max_n: int, timeout: float) -> list[Activation]:
        """Up to `max_n` activations, as soon as there is one; they are STARTED by this. Empty after `timeout` seconds.

        Raises `Closed`.
        """
    def __len__(self) -> int: ...

@final
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
        """A plain input's serialized Value; None when an optional port was closed. Raises `UnknownPort`."""
    def read(self, parameter: str, max_n: int, timeout: float) -> list[bytes] | None:
        """Next frames of a stream, at least one; [] after `timeout` seconds; None when it has ended.

        Raises `Cancelled`, `UnknownPort`.
        """
    def emit(self, port: str, frames: list[bytes]) -> int:
        """How many were taken; never blocks. The others have to wait until their reader has caught up: `Ready.take`
        comes back then, at the latest.

        Raises `Cancelled`, `UnknownPort`, and `BadOutput` for a second frame on a plain port or one over 128 MiB.
        """
    def end(self, port: str) -> None:
        """No more frames on this stream port. Raises `Cancelled`, `UnknownPort`, `BadOutput`."""
    def finish(self, features: dict[str, float]) -> None:
        """Ends open stream ports, closes optional ports that got nothing.

        Raises `Cancelled`, and `BadOutput` when a required plain port got nothing; then it still runs.
        """
    def fail(self, error: bytes) -> None:
        """`error`: a serialized Error; node and worker are filled in. Raises `WireError`.

        Nothing happens when the activation is cancelled. One that is dropped unfinished fails by itself.
        """

# --- errors: one tree, so that a caller can catch at any height ------------------------------------------------------

class CoreError(Exception):
    """The root of every error of the core. The message says what was wrong, where, and how to mend it."""

class InvalidArgument(CoreError):
    """An argument that can never be right: a size of zero, a digest of the wrong length, a buffer of the wrong type."""

class CorruptState(CoreError):
    """`check()` found a broken invariant: a bug of the core. Nothing computed from that object can be trusted."""

class WireError(CoreError):
    """Bytes that are not the message of the wire contract that they should be."""

class FlowInvalid(CoreError):
    """A flow that can never work."""

    problems: list[FlowProblem]

class UnknownWorker(CoreError):
    """No worker of that name is known to the scheduler; the message names those that are."""

class UnknownClient(CoreError):
    """A client that was never opened, or is closed."""

class JournalUnusable(CoreError):
    """The scheduler's journal is damaged, in use, or not to be read: which file, where in it, and the cure."""

class CertificateUnusable(CoreError):
    """A certificate, key or authority that cannot be read or does not fit; the message names the file and the cure."""

class AddressInUse(CoreError):
    """Another living process listens at the address."""

class Closed(CoreError):
    """The object was closed: nothing comes from it any more."""

class Cancelled(CoreError):
    """The activation must stop: its job ended, or another attempt replaced it."""

class UnknownPort(CoreError):
    """A port or parameter that the node does not have; the message names those that it has."""

class BadOutput(CoreError):
    """The role yields what its method does not declare: a second frame on a plain port, no frame on a required one."""

# --- pages: who uses which page of a KV pool -------------------------------------------------------------------------

class PageError(CoreError):
    """The root of what `PageAllocator` and `PageRun` raise about the state of pages."""

class OutOfPages(PageError):
    """Fewer pages are free than were wanted; nothing was allocated. Release runs, evict, or wait."""

    wanted: int
    free: int

class StalePage(PageError):
    """The page was freed (and may hold other content) since its generation was noted. Fetch or compute it again."""

    page: int
    generation: int
    current: int

class UnknownPage(PageError):
    """A page id outside the pool, or one of its reserved pages."""

    page: int

class RunReleased(PageError):
    """A `PageRun` or `Match` was used after `release()`."""

class ForeignRun(PageError):
    """A run of one `PageAllocator` was given to a `PrefixIndex` over another."""

@final
class PageAllocator:
    """Pages `0..pages` of one KV pool; the first `reserved` ones are never handed out (page 0 serves as padding).

    It hands out ids only: the tensor that they index is the caller's. Safe to share between threads.
    """

    def __new__(cls, pages: int, reserved: int = 1) -> Self:
        """Raises `InvalidArgument` when no page is left to hand out, or at more than 2**32 - 1 pages."""

    @property
    def total_pages(self) -> int:
        """Pages of the pool, the reserved ones included: the first dimension of the tensor."""

    @property
    def reserved_pages(self) -> int: ...
    @property
    def free_pages(self) -> int: ...
    def allocate(self, pages: int) -> PageRun:
        """A run of `pages` pages, with consecutive ids where the pool has room for that. All or nothing (`OutOfPages`).

        `allocate(0)` is an empty run, to be grown by `extend`.
        """

    def generation(self, page: int) -> int:
        """How often the page has been freed. Raises `UnknownPage`."""

    def verify(self, page: int, generation: int) -> None:
        """Raises `StalePage` when the page has been freed since `generation` was noted."""

    def check(self) -> None:
        """Verifies every invariant, O(pages). Raises `CorruptState`. Run it when idle, and in tests."""

@final
class PageRun:
    """Pages held for one user, in order; given back by `release()`, at the end of `with`, or when garbage collected.

    A buffer of its page ids: `np.asarray(run)` is uint32, of shape `(len(run),)`, read-only. A buffer is a snapshot:
    it stays readable, and as it was, after `extend`, `truncate` or `release`.
    """

    def __len__(self) -> int:
        """Pages in the run; 0 once released."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, trace: object, /) -> None: ...
    @property
    def released(self) -> bool: ...
    def extend(self, pages: int) -> None:
        """Appends `pages` new pages, right behind the last one where that is free. All or nothing (`OutOfPages`)."""

    def truncate(self, pages: int) -> None:
        """Keeps the first `pages` pages and gives back the rest; longer than the run: nothing happens."""

    def share(self, pages: int | None = None) -> PageRun:
        """A second run over the same (first `pages`) pages: they are free only when the last run over them is gone.

        Nothing is copied, so write to no page that another run shares.
        """

    def release(self) -> None:
        """Gives the pages back. Releasing twice is harmless."""

# --- prefix: page keys, and the index from keys to pages -------------------------------------------------------------

class PrefixError(CoreError):
    """The root of what `KeyChain` and `PrefixIndex` raise about their state."""

class MediaCut(PrefixError):
    """`KeyChain.truncate` would cut a media item in two. Truncate at `start` or at `end`."""

    start: int
    end: int

class KeysWithoutPages(PrefixError):
    """`PrefixIndex.insert` was given more keys than its run has pages."""

    keys: int
    pages: int

@final
class KeyChain:
    """The page keys of one token sequence, kept up to date as it grows. Only full pages have a key.

    A key is a keyed BLAKE3 of the page's content under its parent's key; the root is made of `model`, `layout`,
    `page_tokens` and `salt` (the tenant's). So equal keys mean equal content of the page and of all pages before it,
    for the same model, KV layout and tenant.
    """

    def __new__(cls, model: bytes | str, layout: str, page_tokens: int, salt: bytes = b"") -> Self:
        """`model`: the fingerprint of the weights. Raises `InvalidArgument` when `page_tokens` is 0."""

    def __len__(self) -> int:
        """Tokens in the sequence, media positions included."""

    @property
    def page_tokens(self) -> int: ...
    @property
    def pages(self) -> int:
        """Full pages, which is the number of keys."""

    @property
    def keys(self) -> bytes:
        """The keys of the full pages, 32 bytes each, in order: what `PrefixIndex.match` and `insert` take."""

    def append(self, token: int) -> int:
        """Adds one token. Returns how many pages it completed (0 or 1)."""

    def extend(self, tokens: Buffer | NDArray[np.integer[Any]]) -> int:
        """Adds tokens: one dimension of int32, uint32 or int64 (a torch tensor by its `.numpy()`).

        Hashes only what is new. Returns how many pages were completed. Raises `InvalidArgument` for another type, or
        an id outside `0..2**32`, and then adds nothing.
        """

    def add_media(self, digest: bytes, length: int, placeholder: int = 0, basis: int = 0) -> int:
        """Adds a media item that fills the next `length` positions. Returns how many pages were completed.

        `digest`: 32 bytes over all that decides the item's embeddings; `placeholder`: the token id at its positions;
        `basis`: the model's position number of its first token (0 where positions just count tokens). The item is part
        of the key of every page it touches. Raises `InvalidArgument` for an empty item or a digest that isn't 32 bytes.
        """

    def truncate(self, tokens: int) -> None:
        """Keeps the first `tokens` tokens; longer than the chain: nothing happens. Raises `MediaCut`."""

    def fork(self) -> KeyChain:
        """An independent copy, to go on differently from here."""

@final
class Match:
    """What `PrefixIndex.match` found. It holds its pages: while it lives they are neither evicted nor freed.

    A buffer of the page ids, like `PageRun`. Released by `release()`, at the end of `with`, or when garbage collected.
    """

    @property
    def pages(self) -> int:
        """How many pages matched, from the start of the sequence."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, trace: object, /) -> None: ...
    def run(self) -> PageRun:
        """A run that starts with the matched pages, shared, to `extend` for the rest. Outlives the match."""

    def release(self) -> None: ...

@final
class Insertion:
    """What `PrefixIndex.insert` did."""

    @property
    def present(self) -> int:
        """Leading pages known before. The index keeps the pages it had; the run's copies stay the run's own."""

    @property
    def added(self) -> int:
        """Pages of the run that the index now holds too."""

@final
class PrefixIndex:
    """From page keys to pages of one `PageAllocator`, for reuse between the sequences of one worker.

    It holds its pages by itself, so they outlive the run that brought them, until evicted. Prefix-closed: the key of a
    page is there only when those of all pages before it are. Safe to share between threads.
    """

    def __new__(cls, allocator: PageAllocator) -> Self: ...
    def __len__(self) -> int:
        """Pages in the index."""

    @property
    def evictable_pages(self) -> int:
        """Pages that `evict` could free now; with `free_pages`, what an admission can count on. O(pages)."""

    def match(self, keys: Buffer, max_pages: int | None = None) -> Match:
        """The longest known prefix of `keys` (32 bytes each, as `KeyChain.keys`), at most `max_pages` long.

        An engine that needs the logits of the last token passes `max_pages=(tokens - 1) // page_tokens`.
        """

    def insert(self, keys: Buffer, run: PageRun) -> Insertion:
        """Page `i` of `run` holds the content of key `i`, completely written. Pages beyond the keys are ignored.

        Raises `KeysWithoutPages`, `ForeignRun`, `RunReleased`; then nothing was inserted.
        """

    def evict(self, pages: int) -> int:
        """Drops least recently used leaves that nobody else holds, up to `pages`. Returns how many pages it freed."""

    def make_room(self, pages: int) -> int:
        """Evicts just enough for `allocate(pages)` to succeed; returns how many it freed.

        Raises `OutOfPages`, evicting nothing, when that cannot be had.
        """

    def check(self) -> None:
        """Verifies every invariant, O(pages). Raises `CorruptState`."""
