"""The extension module. One section per crate; held to the compiled module by `mypy.stubtest`."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
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

    `standby_listen`: link address where a `Standby` follows the journal; then clients are told what it has, too, once
    etcd has it in the set of those that may lead. One that answers nothing for `standby_limit_ms` is taken out of that
    set.
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
        standby_listen: str | None = None,
        standby_limit_ms: int = 2_000,
    ) -> Self: ...
    def fileno(self) -> int:
        """A descriptor, readable once `ready_clients` is to be asked."""
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
        """Clients with something to take; resets the descriptor. Each is named once until `take` has emptied it."""
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
    def next_mark(self, patience: float) -> tuple[int, str | None] | None:
        """What etcd has to be asked, waiting up to `patience` seconds: (ticket, journal of the standby that the set of
        those that may lead shall hold beside the leader's; None: the leader's alone). Answer it with `marked` first."""
    def marked(self, ticket: int, answer: str) -> None:
        """What became of that: "done", "unknown" (no answer: it may be written) or "superseded" (another leads)."""
    def close(self, timeout: float) -> None:
        """Refuses new jobs, waits up to `timeout` seconds for running ones, closes the links."""

@final
class Standby:
    """A scheduler that does not lead: keeps its journal a copy of the leader's, in a thread of its own.

    `journal_id`: what etcd knows the journal by. Raises `JournalUnusable` for a journal that is damaged or in use.
    """

    def __new__(
        cls,
        *,
        cluster: str,
        name: str,
        journal: str | PathLike[str],
        journal_id: str,
        journal_fsync: bool = False,
        heartbeat_ms: int = 1_000,
        heartbeat_limit_ms: int = 10_000,
        limit_ms: int = 2_000,
        tls: tuple[str, str, str] | None = None,
    ) -> Self: ...
    def follow(self, term: int, address: str) -> None:
        """The leader of this term lets standbys follow at that link address. Raises `InvalidArgument`."""
    def news(self, patience: float) -> str | None:
        """What has happened, for its log, waiting up to `patience` seconds for it."""
    def close(self) -> None:
        """Says goodbye to the leader, and lets go of the journal: a `Hub` may open it. Harmless when done before."""

# --- grpc: calls of opaque messages -----------------------------------------------------------------------------------

@final
class Call:
    """The client's side of a gRPC call with a stream of messages each way, on a connection and a thread of its own.

    `address`: HOST:PORT; `method`: "/package.Service/Method". What goes wrong is told by `status`.
    """

    def __new__(
        cls,
        address: str,
        method: str,
        *,
        connect_ms: int = 10_000,
        ping_every_ms: int = 20_000,
        ping_patience_ms: int = 10_000,
    ) -> Self: ...
    def fileno(self) -> int:
        """A descriptor, readable when there is something to take, or a status."""
    def send(self, message: bytes) -> None:
        """Sends a message behind those that wait, at once. Nothing comes of it when the call is over."""
    def take(self) -> list[bytes]:
        """The messages that have arrived; resets the descriptor."""
    def status(self) -> tuple[int, str, list[tuple[str, bytes]]] | None:
        """How it ended, once everything was taken: gRPC code, message, binary entries of the trailers."""
    def cancel(self) -> None:
        """Ends it; the peer is told."""

@final
class Edge:
    """The scheduler's gRPC port: bound once constructed, serves from `start` on, in a thread of its own.

    `listen`: HOST:PORT. Raises `AddressInUse`, and `OSError` for an address that cannot be bound.
    """

    def __new__(cls, listen: str) -> Self: ...
    @property
    def port(self) -> int:
        """The port that it has."""
    def start(
        self,
        hub: Hub,
        method: str,
        behind: str,
        *,
        max_message_bytes: int,
        ping_every_ms: int = 30_000,
        ping_patience_ms: int = 10_000,
    ) -> None:
        """Serves calls of `method` from the hub; the server on the abstract Unix socket `behind` answers others."""
    def finish(self) -> None:
        """Clients are given what there is for them, and their calls of the method end. Other calls go on."""
    def stop(self) -> None:
        """Closes the port and every connection."""

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
        retention_disk_bytes: int = 0,
        retention_job_bytes: int = 0,
        retention_folder: str | PathLike[str] | None = None,
        arena_bytes: int = 536_870_912,
        lease_ms: int = 60_000,
        heartbeat_limit_ms: int = 10_000,
        reconnect_ms: int = 2_000,
        tls: tuple[str, str, str] | None = None,
    ) -> Self:
        """`info`: serialized WorkerInfo. `listen`: "unix:PATH" or "tcp:HOST:PORT" (port 0: any).

        `arena_bytes`: at most so many bytes of big payloads lie in memory that other workers of the host read in place
        (0: they are sent to them); `lease_ms`: how long a reader may be silent before what it reads is free again.

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
        """Counters and gauges: jobs, activations queued and running, frames and bytes in and out, retained bytes.

        Of payloads over 64 KiB: `arena_blobs` and `arena_bytes` that somebody holds, what is `lent` to other workers
        and `borrowed` from them now; since the start `arena_writes`, `arena_full` (no room), and how many were
        `sent_in_place`, `sent_inline` and `received_inline`.
        """
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
class Payload(Buffer):
    """A big payload where it lies: read-only bytes, held for as long as this or any view of it lives."""

    def __len__(self) -> int: ...

@final
class Draft(Buffer):
    """Room in shared memory, to be written until it is sent; what lies there is left from before."""

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
    def job_over(self) -> bool:
        """The worker has let go of the job, however it ended: also once this activation has finished."""
    @property
    def remaining_ms(self) -> int: ...
    @property
    def resumed(self) -> list[bytes]:
        """Of a resumable method: the frames that readers have of earlier attempts, from the first one on, each a
        serialized Value with the FrameState behind it. What is emitted comes after them."""
    @property
    def parameters(self) -> dict[str, bytes]:
        """Serialized Values: the flow's constants, overridden by the job's."""
    @property
    def inputs(self) -> list[tuple[str, str]]:
        """(parameter, "value" | "stream" | "none") of the ports of the alternative that fired."""
    @property
    def values(self) -> dict[str, bytes | Payload]:
        """Serialized Values by parameter: the plain inputs that have one. Those over 64 KiB are not copied."""
    def value(self, parameter: str) -> bytes | Payload | None:
        """A plain input's serialized Value; None when an optional port was closed. Raises `UnknownPort`."""
    def read(self, parameter: str, max_n: int, timeout: float) -> list[bytes | Payload] | None:
        """Next frames of a stream, at least one; [] after `timeout` seconds; None when it has ended.

        Raises `Cancelled`, `UnknownPort`.
        """
    def emit(self, port: str, frames: Sequence[bytes | Sequence[Buffer]], more: bool = False) -> int:
        """How many were taken; never blocks. The others have to wait until their reader has caught up: `Ready.take`
        comes back then, at the latest. `more`: this thread emits or finishes something again at once, so that these may
        wait a moment (2 ms at most) to leave together with what follows.

        A frame may be given in parts, bytes or contiguous buffers of bytes, which nobody may write before this returns.

        Raises `Cancelled`, `UnknownPort`, and `BadOutput` for a second frame on a plain port or one over 128 MiB.
        """
    def draft(self, bytes: int) -> Draft | None:
        """Room to compute the data of a frame in. `emit` and `finish` copy nothing of a frame whose last part is all of
        it, the first time that it is sent. None for 64 KiB or less, and when there is no room."""
    def wait_for_room(self, timeout: float) -> bool:
        """Sleeps until there is room for what `emit` did not take; False after `timeout` seconds.

        Raises `Cancelled`.
        """
    def end(self, port: str) -> None:
        """No more frames on this stream port. Raises `Cancelled`, `UnknownPort`, `BadOutput`."""
    def finish(
        self,
        features: dict[str, float],
        last: Sequence[tuple[str, bytes | Sequence[Buffer]]] = ...,
        more: bool = False,
    ) -> None:
        """Sends a last frame on each of these ports, ends open stream ports, closes optional ports that got nothing.
        `more` is that of `emit`.

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

class QuotaExceeded(PageError):
    """The tenant may not use so many pages; nothing was allocated. End or evict its work, or raise its quota."""

    tenant: str
    wanted: int
    used: int
    quota: int

class PageNotHeld(PageError):
    """A lease of a page that nobody holds: only what a run or an index keeps can be leased."""

    page: int

class UnknownLease(PageError):
    """The lease has ended: it was released or revoked, or it expired. Its pages may hold other content by now."""

    lease: int

class RunReleased(PageError):
    """A `PageRun`, `PageCopies` or `Match` was used after `release()`."""

class ForeignRun(PageError):
    """A run of one `PageAllocator` was given to a `PrefixIndex` or `PageTiers` over another."""

class UnknownEntry(PageError):
    """The entry is in no tier: it was removed, or dropped to make room. Compute its page again."""

    entry: int

class UnknownMove(PageError):
    """The move was finished or aborted before; a late completion changes nothing."""

class EntryHasChildren(PageError):
    """Other entries come behind this one in their sequences: they go first."""

    entry: int
    children: int

class ExtentError(PageError):
    """A request about extents that was refused, and why; nothing has changed."""

class OutOfExtents(ExtentError):
    """Every extent is somebody's; `orphaned` of them wait for readers of a dead owner to report."""

    extents: int
    orphaned: int

class UnknownOwner(ExtentError):
    """The process is not in the pool, or not any more: it joins as a new owner."""

    owner: int

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
    def counters(self) -> dict[str, int]:
        """Pages by use: "total", "reserved", "own" (handed out here), "free" and "held" (together "own"),
        "pinned", "leased"; and "references" (holds over all pages), "leases". From "held" on all are 0 when no
        work is left.
        """

    def tenants(self) -> dict[str, tuple[int, int | None]]:
        """(pages in use, quota) of each tenant that has either."""

    def set_quota(self, tenant: str, pages: int | None) -> None:
        """Holds a tenant to so many pages in use at once; what it uses, it keeps. None: as many as there are."""

    def adopt(self, start: int, stop: int) -> None:
        """Hands out pages `start` to `stop` of the pool, too, from now on: an extent, or a part of one. Their
        generations are raised first, so that what was noted under an earlier owner is stale. Raises `PageError` when
        one of them is handed out already, is reserved, or is not in the pool."""

    def retire(self, start: int, stop: int) -> None:
        """Hands out none of these pages any more. Raises `PageError` while one of them is held."""

    def allocate(self, pages: int, tenant: str = "") -> PageRun:
        """A run of `pages` pages, with consecutive ids where the pool has room for that. All or nothing (`OutOfPages`).

        `tenant` pays for them, and for what the run grows by, until they are free (`QuotaExceeded`); empty: nobody.
        `allocate(0)` is an empty run, to be grown by `extend`.
        """

    def lease(
        self,
        pages: Buffer | NDArray[np.uint32],
        generations: Buffer | NDArray[np.uint64],
        holder: int,
        until: int,
    ) -> int:
        """`PageRun.lease` for pages that somebody here holds, whoever it is. Raises `StalePage` when one of them has
        been freed since its generation was noted, `PageNotHeld`."""

    def renew(self, lease: int, now: int, until: int) -> None:
        """Moves the end of a lease (`PageRun.lease`). Raises `UnknownLease` when it has ended, at `now` or before."""

    def end_lease(self, lease: int) -> None:
        """Ends a lease ahead of its time, by whoever wishes. Raises `UnknownLease`."""

    def expire(self, now: int) -> list[int]:
        """Ends the leases that are over at `now`, and no other hold on their pages. Which ones."""

    @property
    def next_expiry(self) -> int | None:
        """When `expire` has something to do next."""

    def drop_holder(self, holder: int) -> int:
        """Ends the leases of a reader that is dead, or gone. How many."""

    def generation(self, page: int) -> int:
        """How often the page has been freed. Raises `UnknownPage`."""

    def verify(self, page: int, generation: int) -> None:
        """Raises `StalePage` when the page has been freed since `generation` was noted."""

    def verify_all(self, pages: Buffer | NDArray[np.uint32], generations: Buffer | NDArray[np.uint64]) -> None:
        """The same for many: uint32 page ids, uint64 generations (`PageRun.generations`). Raises `StalePage` for the
        first that is stale."""

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
    @property
    def tenant(self) -> str:
        """Who pays for what it grows by; empty: nobody."""

    def charge_to(self, tenant: str) -> None:
        """Says who pays for what it grows by from now on."""

    @property
    def generations(self) -> bytes:
        """The generations of its pages, uint64 each: `np.frombuffer(run.generations, np.uint64)`. They stay as they are
        while the run, or a lease on its pages, lives."""

    def spans(self) -> list[tuple[int, int]]:
        """(first page id, pages) of each span of consecutive pages, in order: what copies move, one each."""

    def extend(self, pages: int) -> None:
        """Appends `pages` new pages, right behind the last one where that is free. All or nothing (`OutOfPages`)."""

    def truncate(self, pages: int) -> None:
        """Keeps the first `pages` pages and gives back the rest; longer than the run: nothing happens."""

    def share(self, pages: int | None = None) -> PageRun:
        """A second run over the same (first `pages`) pages: a fork. They are free when the last run over them is gone.

        Nothing is copied, so call `write` before writing to a page that another run shares.
        """

    def write(self, start: int, stop: int) -> PageCopies:
        """Makes its pages `start` to `stop` (cut to its length) its own alone: those that anyone else holds are
        replaced by new ones, to which the caller copies what the result names before it writes. All or nothing
        (`OutOfPages`, `QuotaExceeded`).
        """

    def pin(self) -> PagePin:
        """Keeps its pages held, and in the tier where they are, until the pin is released or garbage collected."""

    def lease(self, holder: int, until: int) -> int:
        """Lets another process, `holder`, read its pages until `until`, milliseconds on the caller's own clock: they
        are not free before that, whoever else lets go of them. The lease's number, for `PageAllocator.renew` and
        `end_lease`.
        """

    def release(self) -> None:
        """Gives the pages back. Releasing twice is harmless."""

@final
class PageIds:
    """Page ids as they were: a buffer of uint32, of shape `(len(ids),)`, read-only."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class PageCopies:
    """What `PageRun.write` wants copied. The sources stay held until it is released or garbage collected: release it
    when they are copied. The targets are the run's."""

    def __len__(self) -> int:
        """Pages to copy; 0 once released."""

    @property
    def sources(self) -> PageIds: ...
    @property
    def targets(self) -> PageIds:
        """One for each source."""

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, trace: object, /) -> None: ...
    def release(self) -> None: ...

@final
class PagePin:
    """Keeps pages where they are."""

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, trace: object, /) -> None: ...
    def release(self) -> None: ...

@final
class ExtentGrant:
    """An extent that was granted: pages `start` to `stop`. All but the `withheld` ones, which rise, may be adopted at
    once; each of those comes as freed when nobody reads it any more."""

    @property
    def extent(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def stop(self) -> int: ...
    @property
    def withheld(self) -> list[int]: ...

@final
class Extents:
    """The book of a pool that several processes map: who allocates from which extent, and when a dead owner's is
    anyone's again. One process keeps it; what the others must hear, it sends.

    An owner is one life of a process: its number is higher than all before. Moments are milliseconds on a clock that
    all of them share. "Freed" are (owner, page): nobody reads the page any more, it is `owner`'s to adopt, who has its
    extent by now. Raises `ExtentError`.
    """

    def __new__(cls, pages: int, extent_pages: int, reserved: int = 1) -> Self:
        """All extents free. Raises `InvalidArgument` when there is no whole one."""

    @staticmethod
    def restore(
        pages: int,
        extent_pages: int,
        claims: Sequence[tuple[int, Sequence[int], Sequence[int], Sequence[tuple[int, Sequence[int], int]]]],
        reserved: int = 1,
    ) -> tuple[Extents, list[list[int | None]], list[tuple[int, int]]]:
        """A new book when the old one is lost, from what all living owners claim: (owner, its extents, pages of them
        that it has not adopted, what it reads: (owner, pages, until)). Also, for each claim and each of its reads, the
        lease at the book (None: the owner keeps it itself, or it is over); and pages freed."""

    @property
    def pages(self) -> int: ...
    @property
    def reserved(self) -> int: ...
    @property
    def extent_pages(self) -> int: ...
    def __len__(self) -> int:
        """Extents of the pool."""

    def join(self, owner: int) -> None: ...
    def grant(self, owner: int) -> ExtentGrant:
        """One more extent: right behind one that it has if that is free, else far from those of others. Raises
        `OutOfExtents`, `UnknownOwner`."""

    def give_back(self, owner: int, extent: int) -> None:
        """The owner has retired all pages of the extent."""

    def died(self, owner: int) -> tuple[list[int], list[tuple[int, int]]]:
        """Who must `report` what it reads of the dead one's pages before they are granted again; and pages freed."""

    def report(self, reader: int, dead: int, reads: Sequence[tuple[Sequence[int], int]]) -> list[int]:
        """All that `reader` reads of a dead owner: (pages, until). A lease at the book for each. It accepts no lease of
        that owner from now on."""

    def renew(self, lease: int, now: int, until: int) -> None:
        """Raises `UnknownLease` when it has ended, at `now` or before."""

    def end(self, lease: int) -> list[tuple[int, int]]:
        """A reader has done. Pages freed. Raises `UnknownLease`."""

    def expire(self, now: int) -> list[tuple[int, int]]:
        """Ends the reads that are over. Pages freed."""

    @property
    def next_expiry(self) -> int | None:
        """When `expire` has something to do next."""

    def owner_of(self, extent: int) -> int | None: ...
    def counters(self) -> dict[str, int]:
        """ "owners"; "extents", of which "free", "owned" and "orphaned"; "withheld": pages of the dead still read."""

    def check(self) -> None:
        """Verifies every invariant. Raises `CorruptState`."""

@final
class PageMove:
    """One page to copy between tiers; then `PageTiers.finish` or `abort` with its `id`."""

    @property
    def id(self) -> int: ...
    @property
    def entry(self) -> int: ...
    @property
    def source(self) -> tuple[str, int]:
        """(tier, page id)."""

    @property
    def target(self) -> tuple[str, int]:
        """(tier, page id)."""

@final
class Acquired:
    """What `PageTiers.acquire` gives."""

    @property
    def run(self) -> PageRun:
        """A page on the device for each entry, in order."""

    @property
    def begun(self) -> list[PageMove]:
        """To be performed now: they bring pages of the run."""

    @property
    def awaited(self) -> list[int]:
        """Moves of earlier calls that bring others: read none of the run before all of these, too, are finished, and
        release it when one of them is aborted."""

@final
class Room:
    """What `PageTiers.make_room` could do."""

    @property
    def free(self) -> int:
        """Pages of the tier that are free now."""

    @property
    def coming(self) -> int:
        """Pages that are free when moves are finished, those of earlier calls included."""

    @property
    def begun(self) -> list[PageMove]:
        """To be performed now."""

    @property
    def dropped(self) -> list[int]:
        """Entries that are in no tier any more, each after all behind it: forget their keys."""

@final
class PageTiers:
    """What lies on the "device", in the "host"'s memory and on "disk", what leaves for room, and what comes back.

    An entry is the content of one page, whose copies lie in pages of the tiers' allocators. Nothing is copied here: it
    says which page to copy where, and hears how that went. Safe to share between threads.
    """

    def __new__(
        cls, device: PageAllocator, host: PageAllocator | None = None, disk: PageAllocator | None = None
    ) -> Self: ...
    def __len__(self) -> int:
        """Entries in any tier."""

    def insert(
        self,
        run: PageRun,
        start: int,
        stop: int,
        *,
        recompute_us: int,
        bytes: int,
        chance: float,
        parent: int | None = None,
    ) -> list[int]:
        """Takes in pages `start` to `stop` of a run, completely written: each is an entry behind the one before it, the
        first behind `parent`. An entry is not dropped before those behind it.

        Each is worth `recompute_us` (time saved by having it) times `chance` (of being used again, 0 to 1) for its
        `bytes`: who is worth least leaves first. Raises `InvalidArgument`, `ForeignRun`, `UnknownEntry`, `RunReleased`.
        """

    def remove(self, entry: int) -> None:
        """Drops all copies. Raises `UnknownEntry`, `EntryHasChildren`."""

    def set_worth(self, entry: int, *, recompute_us: int, bytes: int, chance: float) -> None:
        """What it is worth from now on. Raises `UnknownEntry`, `InvalidArgument`."""

    def acquire(self, entries: list[int], tenant: str = "") -> Acquired:
        """A hit: a run over the entries' pages on the device, where moves bring those that lie elsewhere. `tenant` pays
        for what the run grows by. All or nothing: raises `OutOfPages` (`make_room`), `QuotaExceeded`, `UnknownEntry`.
        """

    def hold(self, tier: str, entries: list[int]) -> PageRun:
        """A hit that is read where it lies: a run over the copies in `tier` of the first of `entries`, up to one that
        has none there. Nothing is moved. Of these, the first count as used last. Raises `UnknownEntry`,
        `InvalidArgument`.
        """

    def make_room(self, tier: str, pages: int) -> Room:
        """Makes `pages` pages of a tier free, now or when moves are finished, as far as that can be had: copies that
        nobody holds leave, least worth first, for a slower tier that has room, or for good. Raises `InvalidArgument`.
        """

    def finish(self, move_id: int) -> int | None:
        """The page was copied. The entry; None when it was removed meanwhile. Raises `UnknownMove`."""

    def abort(self, move_id: int) -> None:
        """The page was not copied, or not wholly: all is as before the move was begun. Raises `UnknownMove`."""

    def residence(self, entry: int) -> tuple[int | None, int | None, int | None]:
        """Page ids on device, host and disk. Raises `UnknownEntry`."""

    def counters(self, tier: str) -> tuple[int, int, int]:
        """(copies, moves that bring one, moves that take one to a slower tier). Raises `InvalidArgument`."""

    def check(self) -> None:
        """Verifies every invariant, O(entries). Raises `CorruptState`."""

# --- arena: memory that processes share, and pages on disk -----------------------------------------------------------

class ArenaError(CoreError):
    """The root of errors about shared memory, its passing and pages on disk."""

class ArenaMismatch(ArenaError):
    """An arena, but another one than was told or wanted: the message names what differs. Nothing was mapped."""

class ArenaDamaged(ArenaError):
    """No arena, or a damaged one: its size, its seals, its header. Nothing was mapped."""

class ArenaFull(ArenaError):
    """No run of free blocks is long enough. Release tensors, wait, or make the arena larger."""

    wanted: int  # bytes
    free: int  # bytes, in pieces

class ArenaReadOnly(ArenaError):
    """The arena is mapped for reading only."""

class OutOfMemory(ArenaError):
    """The machine, or this process's container, has no memory for the arena."""

class OutOfBounds(ArenaError):
    """A place that is not inside the arena."""

class OtherUser(ArenaError):
    """The process at the other end of a channel runs as another user."""

class ChannelHungUp(ArenaError):
    """The process at the other end has ended, or let go of the channel."""

class ChannelTimeout(ArenaError):
    """Nothing came, or the other end took nothing, in time."""

class BadMessage(ArenaError):
    """What came over a channel is no message, or cannot be sent as one. No descriptor of it is kept."""

class DiskFull(ArenaError):
    """The disk, or its user's quota, has no room. What was there is still there."""

class DiskArenaInUse(ArenaError):
    """Another process, or another object of this one, has the file open."""

class DiskPageMissing(ArenaError):
    """The slot does not hold the page of that key: it was replaced or forgotten."""

    page: int

class DiskPageDamaged(ArenaError):
    """The page's bytes are not those that were written. It has been dropped: compute it again."""

    page: int

@final
class ArenaLayout:
    """What an arena is made of: equal in all processes that share it."""

    def __new__(cls, content: str, *, page_bytes: int, pages: int, fingerprint: bytes, device: str = "cpu") -> Self:
        """`content`: "pages" (KV: a page is a fixed number of tokens over all layers) or "blobs" (tensors and media: a
        page is a block, and each takes as many as it needs). `page_bytes`: a multiple of 64. `fingerprint`: 32 bytes, a
        hash of all that must be equal to read each other's pages. Raises `InvalidArgument`.
        """

    @property
    def content(self) -> str: ...
    @property
    def page_bytes(self) -> int: ...
    @property
    def pages(self) -> int: ...
    @property
    def fingerprint(self) -> bytes: ...
    @property
    def device(self) -> str: ...
    @property
    def data_bytes(self) -> int:
        """Bytes of all pages."""

    def require(self, expected: ArenaLayout) -> None:
        """Raises `ArenaMismatch`, naming the first difference."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class ArenaInfo:
    """How an arena lies in this process."""

    @property
    def mapped_bytes(self) -> int: ...
    @property
    def prefaulted(self) -> bool:
        """Whether all memory was found when the arena was made."""

    @property
    def huge_pages(self) -> str:
        """Large pages of memory: "reserved" (all of those set aside at boot), "advised" (the system was asked for them
        and uses them where it can), "none"."""

    @property
    def writable(self) -> bool: ...

@final
class ArenaView:
    """A part of an arena, in place: a buffer of bytes, writable if the arena is. The memory stays mapped while it, or
    anything made of it, lives; who reads under a lease checks the generation after having read."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def offset(self) -> int:
        """Where it begins, in bytes from the arena's first page."""

@final
class HostArena:
    """Anonymous memory that processes share: a generation for each page, and the pages.

    A buffer of all pages, in place, of `layout.data_bytes` bytes: `np.frombuffer(arena, ...)`, `torch.frombuffer(arena,
    ...)` copy nothing. The memory is mapped until this object and all views of it are collected, and is gone when no
    process has it: nothing of it has a name.
    """

    @staticmethod
    def create(
        layout: ArenaLayout, *, name: str = "omniflow-arena", prefault: bool = False, huge_pages: bool = True
    ) -> HostArena:
        """New memory, all zeros. `name` is shown in /proc/PID/maps and never looked up. `prefault`: finds all memory
        now, else at first use. `huge_pages`: use large pages where the system allows; see `info`. Raises
        `OutOfMemory`.
        """

    @staticmethod
    def open(descriptor: int, layout: ArenaLayout, *, writable: bool = True) -> HostArena:
        """Maps what another process made. Its size, seals and header must be those of `layout`, else nothing is mapped:
        `ArenaDamaged`, `ArenaMismatch`. The descriptor stays the caller's."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def layout(self) -> ArenaLayout: ...
    @property
    def id(self) -> bytes:
        """16 bytes that name this arena in every process, and never another one."""

    @property
    def info(self) -> ArenaInfo: ...
    def fileno(self) -> int:
        """Its descriptor, which stays this object's."""

    def allocator(self, reserved: int = 1) -> PageAllocator:
        """An allocator over the arena's own generations, which all processes see. It hands out nothing until extents
        are adopted. Raises `ArenaReadOnly`."""

    def generation(self, page: int) -> int:
        """How often a page, of whatever owner, has been freed. Raises `UnknownPage`."""

    def verify(self, page: int, generation: int) -> None:
        """Raises `StalePage` when the page has been freed since `generation` was noted."""

    def verify_all(self, pages: Buffer | NDArray[np.uint32], generations: Buffer | NDArray[np.uint64]) -> None:
        """The same for many: uint32 page ids, uint64 generations. Raises `StalePage` for the first that is stale."""

    def view(self, offset: int, bytes: int) -> ArenaView:
        """`bytes` bytes from `offset` on, counted from the first page. Raises `OutOfBounds`."""

    def page(self, page: int) -> ArenaView:
        """Raises `UnknownPage`."""

    def blob(self, place: BlobPlace) -> ArenaView:
        """A blob, of whatever owner. Raises `StalePage` when it has been freed: `verify(place.page, place.generation)`
        again after having read. Raises `OutOfBounds`."""

@final
class BlobPlace:
    """Where a blob lies in its arena: what a reader is told."""

    def __new__(cls, *, offset: int, bytes: int, page: int, generation: int) -> Self: ...
    @property
    def offset(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def page(self) -> int:
        """Its first block."""

    @property
    def generation(self) -> int:
        """That of its first block; all its blocks are freed at once."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class BlobArena:
    """Hands out room for tensors and media: consecutive blocks of an arena of "blobs"."""

    def __new__(cls, arena: HostArena, allocator: PageAllocator | None = None) -> Self:
        """Without `allocator`, hands out all of the arena, as the only process to do so. With one of
        `arena.allocator(0)`: what it has adopted. Raises `ArenaReadOnly`, `PageError`."""

    @property
    def arena(self) -> HostArena: ...
    @property
    def allocator(self) -> PageAllocator:
        """Leases of blobs are leases of its pages."""

    def allocate(self, bytes: int, tenant: str = "") -> Blob:
        """Room for `bytes` bytes in one piece, aligned to 64; what lies there is left from before. Raises `ArenaFull`,
        `QuotaExceeded`."""

@final
class Blob:
    """Room for one tensor: a writable buffer of its bytes, in place. Its blocks are free once it is released or
    collected (with all buffers, arrays and tensors made of it) and no lease is on them."""

    def __len__(self) -> int:
        """Bytes in it."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, trace: object, /) -> None: ...
    @property
    def place(self) -> BlobPlace: ...
    @property
    def released(self) -> bool: ...
    def lease(self, holder: int, until: int) -> int:
        """Lets another process read it until `until`, as `PageRun.lease` does."""

    def release(self) -> None:
        """Gives the blocks back at once: views that are left show what comes next. Releasing twice is harmless."""

@final
class ArenaChannel:
    """One end of a Unix socket (`SOCK_SEQPACKET`) between two processes of one user. The kernel closes it when its
    process dies: the other end is readable then, and `hung_up`. `patience` is in seconds; None: for ever."""

    @staticmethod
    def pair() -> tuple[ArenaChannel, ArenaChannel]: ...
    @staticmethod
    def connect(address: str) -> ArenaChannel:
        """To an `ArenaListener`. Raises `OtherUser`, `ArenaError`."""

    @staticmethod
    def of(descriptor: int) -> ArenaChannel:
        """Over a connected socket, inherited say; the descriptor stays the caller's. Raises `OtherUser`,
        `BadMessage`."""

    def fileno(self) -> int: ...
    def offer(self, arenas: Sequence[tuple[str, HostArena, int | None]], *, patience: float | None = None) -> None:
        """Sends arenas in one message: the name of each (1 to 64 bytes), its generations and pages, and the
        descriptor of its pages where these lie on another device. At most 16 descriptors in all. Raises `BadMessage`,
        `ChannelHungUp`, `ChannelTimeout`.
        """

    def take(self, *, patience: float | None = None) -> list[OfferedArena]:
        """The arenas of the next message. Raises `BadMessage`, `ArenaDamaged`, `ChannelHungUp`, `ChannelTimeout`."""

    def send(self, payload: bytes, descriptors: Sequence[int] = ..., *, patience: float | None = None) -> None:
        """Another message: 1 to 8,192 bytes, up to 16 descriptors, which stay the caller's."""

    def receive(self, *, patience: float | None = None) -> tuple[bytes, list[int]]:
        """The next message; its descriptors are the caller's to close."""

    @property
    def hung_up(self) -> bool:
        """Whether the other end is closed. What it sent before may still be received."""

@final
class ArenaListener:
    """Where processes of the same user connect to: "@NAME" (no file: gone with its process) or a path."""

    def __new__(cls, address: str) -> Self:
        """Raises `AddressInUse`, `ArenaError`."""

    @property
    def address(self) -> str: ...
    def fileno(self) -> int: ...
    def accept(self, *, patience: float | None = None) -> ArenaChannel:
        """Raises `OtherUser` (that connection is closed), `ChannelTimeout`."""

@final
class OfferedArena:
    """An arena that has come over a channel, and is not mapped yet."""

    @property
    def name(self) -> str: ...
    @property
    def layout(self) -> ArenaLayout:
        """As its owner says; `open` holds it to that."""

    @property
    def id(self) -> bytes: ...
    def open(self, wanted: ArenaLayout | None = None, *, writable: bool = True) -> tuple[HostArena, int | None]:
        """Maps it, once; with `wanted` only if that is its layout. The second: the descriptor of pages that lie on
        another device, the caller's to close. Raises `ArenaMismatch`, `ArenaDamaged`, and keeps nothing then.
        """

    def close(self) -> None:
        """Lets go of it unopened. Harmless when done before."""

@final
class DiskInfo:
    """How an arena lies on disk."""

    @property
    def file_bytes(self) -> int: ...
    @property
    def direct(self) -> bool:
        """Whether pages go past the system's cache."""

    @property
    def filled(self) -> int:
        """Slots that hold a page."""

@final
class DiskArena:
    """A file of pages, each with its key and checksum, which one process has open at a time. Pages survive a restart;
    one that is damaged is dropped when it is read, and never read as something else. All calls release the GIL."""

    def __new__(cls, path: str | PathLike[str], layout: ArenaLayout) -> Self:
        """Opens the file, or makes it, whole or not at all. Raises `ArenaMismatch` for a file of another model or
        layout, `ArenaDamaged` for one that is cut off or no such file (remove it to begin anew), `DiskArenaInUse`,
        `DiskFull`.
        """

    @property
    def layout(self) -> ArenaLayout: ...
    @property
    def path(self) -> Path: ...
    @property
    def info(self) -> DiskInfo: ...
    @property
    def dropped(self) -> list[int]:
        """Slots whose page was given up when the file was opened, as its record was damaged."""

    def allocator(self) -> tuple[PageAllocator, list[tuple[bytes, PageRun]]]:
        """Who hands out the slots, and what they hold: (page key, a run of the one slot). Call it once. Releasing a run
        frees its slot, to be written again; `forget` it too if it must not be found after a restart."""

    def write(self, page: int, key: bytes, content: Buffer | NDArray[np.uint8]) -> None:
        """Writes a page into a slot that the caller holds: `layout.page_bytes` bytes, which must not change meanwhile.
        If it fails, the slot holds nothing. Raises `DiskFull`, `InvalidArgument`, `UnknownPage`."""

    def read_into(self, page: int, key: bytes, into: Buffer | NDArray[np.uint8]) -> None:
        """Reads a page into a buffer that nobody else uses meanwhile, and checks it. Raises `DiskPageMissing`,
        `DiskPageDamaged`; the buffer holds anything then."""

    def forget(self, page: int) -> None:
        """The slot holds nothing any more, also after a restart."""

    def sync(self) -> None:
        """What was written survives the loss of power from now on. Without it, what was lost is noticed by
        checksums."""

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

class UnknownPageKey(PrefixError):
    """The page before these is not in the index, or the worker does not hold it. Report it first."""

@final
class PageKeys:
    """Page keys, in order: what `KeyChain.keys` gives, and what indexes take. They stay in Rust.

    A buffer of 32 bytes a key, for wires: `bytes(keys)` and back `PageKeys(...)`. Equal when all keys are.
    """

    def __new__(cls, keys: Buffer) -> Self:
        """Raises `InvalidArgument` when the length is no multiple of 32."""

    def __len__(self) -> int:
        """Pages."""

    def __getitem__(self, pages: slice, /) -> PageKeys:
        """Consecutive keys, not copied. Raises `InvalidArgument` for another step than 1."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

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
    def keys(self) -> PageKeys:
        """The keys of the full pages as they are now. An index takes the chain itself, which copies none."""

    def append(self, token: int) -> int:
        """Adds one token. Returns how many pages it completed (0 or 1)."""

    def extend(self, tokens: Buffer | NDArray[np.integer[Any]]) -> int:
        """Adds tokens: one dimension of int32, uint32 or int64 (a torch tensor by its `.numpy()`).

        Hashes only what is new, about 0.1 µs a page of 16. Returns how many pages were completed. Raises
        `InvalidArgument` for another type, or an id outside `0..2**32`, and then adds nothing.
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
    """What `insert` of an index did."""

    @property
    def present(self) -> int:
        """Pages known before (in a `ClusterIndex`: of this worker). A `PrefixIndex` keeps the pages it had; the run's
        copies stay the run's own."""

    @property
    def added(self) -> int:
        """Pages of the run that the index now holds too (in a `ClusterIndex`: that this worker is known to hold)."""

@final
class PrefixIndex:
    """From page keys to pages of one `PageAllocator`, for reuse between the sequences of one worker.

    It holds its pages by itself, so they outlive the run that brought them, until evicted. Prefix-closed: the key of a
    page is there only when those of all pages before it are. A page takes about 70 bytes, a branch about 200. Safe to
    share between threads.
    """

    def __new__(cls, allocator: PageAllocator) -> Self: ...
    def __len__(self) -> int:
        """Pages in the index."""

    @property
    def evictable_pages(self) -> int:
        """Pages that `evict` could free now; with `free_pages`, what an admission can count on. O(pages)."""

    def match(self, keys: KeyChain | PageKeys, max_pages: int | None = None) -> Match:
        """The longest known prefix of `keys`, at most `max_pages` long. About a microsecond for 512 pages.

        An engine that needs the logits of the last token passes `max_pages=(tokens - 1) // page_tokens`.
        """

    def insert(self, keys: KeyChain | PageKeys, run: PageRun, max_pages: int | None = None) -> Insertion:
        """Page `i` of `run` holds the content of key `i`, completely written; at most the first `max_pages`. Pages
        beyond the keys are ignored.

        Raises `KeysWithoutPages`, `ForeignRun`, `RunReleased`, and `InvalidArgument` for keys that are not of one
        chain, from its first page on; then nothing was inserted.
        """

    def evict(self, pages: int) -> int:
        """Drops least recently used leaves that nobody else holds, up to `pages`. Returns how many pages it freed."""

    def make_room(self, pages: int) -> int:
        """Evicts just enough for `allocate(pages)` to succeed; returns how many it freed.

        Raises `OutOfPages`, evicting nothing, when that cannot be had.
        """

    def check(self) -> None:
        """Verifies every invariant, O(pages). Raises `CorruptState`."""

@final
class ClusterMatch:
    """What `ClusterIndex.match` found, as it was then: how many pages from the sequence's start each worker holds."""

    @property
    def pages(self) -> int:
        """The most that any worker holds."""

    @property
    def workers(self) -> int:
        """Workers that hold at least the first page."""

    def pages_of(self, worker: int) -> int:
        """How many this worker holds; 0 when it holds none, or is unknown."""

    def longest(self, count: int | None = None) -> list[tuple[int, int]]:
        """(worker, pages), most pages first, of at most `count` workers."""

@final
class ClusterIndex:
    """From page keys to the workers that hold the pages, for all of a cluster. Workers are numbers of the caller's.

    Made for 4,000 workers and millions of pages: a match costs by the branches of the one sequence that it follows, not
    by workers or pages. A page takes about 60 bytes, however many workers hold it; a branch about 300, and about 16
    more for each worker that holds it. What a worker held costs nothing once it is removed. Safe to share between
    threads.
    """

    def __new__(cls) -> Self: ...
    def __len__(self) -> int:
        """Pages that somebody holds."""

    @property
    def held(self) -> int:
        """Pages, each counted as often as it is held."""

    def held_by(self, worker: int) -> int:
        """Pages that this worker holds."""

    def match(self, keys: KeyChain | PageKeys, max_pages: int | None = None) -> ClusterMatch:
        """Who holds how much of a sequence with these keys, or of its first `max_pages` pages. Copies nothing."""

    def insert(self, worker: int, keys: KeyChain | PageKeys, after: bytes | None = None) -> Insertion:
        """The worker holds these pages, which continue the page with key `after`, or start a sequence.

        Raises `UnknownPageKey` when the worker does not hold `after`, and `InvalidArgument` for keys that are not of
        one chain; then nothing has changed.
        """

    def remove(self, worker: int, keys: KeyChain | PageKeys) -> int:
        """The worker holds these pages no more, nor any behind them. Returns how many it lost. Keys of pages that it
        does not hold are passed over, so what is said twice, or too late, does no harm."""

    def remove_worker(self, worker: int) -> int:
        """The worker is gone. Returns how many pages it held, in time that grows with these alone."""

    def check(self) -> None:
        """Verifies every invariant, O(pages held). Raises `CorruptState`."""
