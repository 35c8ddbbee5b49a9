//! Errors of the crates as Python exceptions: one tree under `CoreError`, each mapped here and nowhere else.

use omniflow_arena::{ArenaError as Arena, disk::DiskError as Disk};
use omniflow_hub::HubError;
use omniflow_link::LinkError;
use omniflow_node::NodeError;
use omniflow_pages::{ExtentError as Extent, PageError as Pages, PageId, TierError};
use omniflow_prefix::{ChainError, IndexError};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::flow::FlowProblem;

/// Declares the exceptions and one function that adds them all to the module.
macro_rules! exceptions {
    ($($name:ident($base:ty): $doc:literal;)*) => {
        $(create_exception!(omniflow_core._native, $name, $base, $doc);)*

        /// Adds every exception to the module.
        pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add(stringify!($name), PyType::new::<$name>(module.py()))?;)*
            Ok(())
        }
    };
}

exceptions! {
    CoreError(PyException): "The root of every error of the core.";
    InvalidArgument(CoreError): "An argument that can never be right.";
    CorruptState(CoreError): "`check()` found a broken invariant: a bug of the core.";
    WireError(CoreError): "Bytes that are not the message they should be.";

    CertificateUnusable(CoreError): "A certificate, key or authority that cannot be read or does not fit.";
    AddressInUse(CoreError): "Another living process listens at the address.";
    Closed(CoreError): "The object was closed: nothing comes from it any more.";
    Cancelled(CoreError): "The activation must stop: its job ended, or another attempt replaced it.";
    UnknownPort(CoreError): "A port or parameter that the node does not have.";
    BadOutput(CoreError): "The role yields what its method does not declare.";

    FlowInvalid(CoreError): "A flow that can never work; `problems` says why.";
    UnknownWorker(CoreError): "No worker of that name is known to the scheduler.";
    UnknownClient(CoreError): "A client that was never opened, or is closed.";

    JournalUnusable(CoreError): "The scheduler's journal is damaged, in use, or not to be read.";

    PageError(CoreError): "The root of errors about the state of pages.";
    OutOfPages(PageError): "Fewer pages are free than were wanted; nothing was allocated.";
    StalePage(PageError): "The page was freed since its generation was noted.";
    UnknownPage(PageError): "A page id that the pool never hands out.";
    QuotaExceeded(PageError): "The tenant may not use so many pages; nothing was allocated.";
    PageNotHeld(PageError): "A lease of a page that nobody holds.";
    UnknownLease(PageError): "The lease has ended.";
    RunReleased(PageError): "A run or match was used after `release()`.";
    ForeignRun(PageError): "A run of another allocator.";
    UnknownEntry(PageError): "The entry is in no tier any more.";
    UnknownMove(PageError): "The move was finished or aborted before.";
    EntryHasChildren(PageError): "Other entries come behind this one.";
    ExtentError(PageError): "A request about extents that was refused; nothing has changed.";
    OutOfExtents(ExtentError): "Every extent is somebody's.";
    UnknownOwner(ExtentError): "The process is not in the pool, or not any more.";

    ArenaError(CoreError): "The root of errors about shared memory and pages on disk.";
    ArenaMismatch(ArenaError): "The arena is another one than was told or wanted.";
    ArenaDamaged(ArenaError): "The memory or file is no arena, or a damaged one.";
    ArenaFull(ArenaError): "No free piece of the arena is long enough.";
    ArenaReadOnly(ArenaError): "The arena is mapped for reading only.";
    OutOfMemory(ArenaError): "The system has no memory for the arena.";
    OutOfBounds(ArenaError): "A place outside of the arena.";
    OtherUser(ArenaError): "The process at the other end belongs to another user.";
    ChannelHungUp(ArenaError): "The process at the other end has ended or let go.";
    ChannelTimeout(ArenaError): "Nothing came or could be sent in time.";
    BadMessage(ArenaError): "What came is no message of a channel, or cannot be sent as one.";
    DiskFull(ArenaError): "The disk has no room; what was there is still there.";
    DiskArenaInUse(ArenaError): "Another process has the file open.";
    DiskPageMissing(ArenaError): "The slot does not hold the page of that key.";
    DiskPageDamaged(ArenaError): "The page was damaged, and has been dropped.";

    PrefixError(CoreError): "The root of errors about chains and indexes.";
    MediaCut(PrefixError): "A media item cannot be kept in part.";
    KeysWithoutPages(PrefixError): "More keys than the run has pages.";
    UnknownPageKey(PrefixError): "The page before these is not in the index, or not held by the worker.";
}

/// An exception that carries numbers as attributes.
fn with_fields(error: PyErr, fields: &[(&str, u64)]) -> PyErr {
    Python::attach(|py| {
        for (name, number) in fields {
            if let Err(failed) = error.value(py).setattr(*name, *number) {
                return failed;
            }
        }
        error
    })
}

/// An exception that names a tenant.
fn with_tenant(error: PyErr, tenant: &str) -> PyErr {
    Python::attach(|py| match error.value(py).setattr("tenant", tenant) {
        Ok(()) => error,
        Err(failed) => failed,
    })
}

/// Errors of `omniflow_pages`.
pub fn pages(error: Pages) -> PyErr {
    let message = error.to_string();
    match error {
        Pages::OutOfPages { wanted, free } => {
            let fields = [("wanted", wanted as u64), ("free", free as u64)];
            with_fields(OutOfPages::new_err(message), &fields)
        }
        Pages::StalePage {
            page,
            generation,
            current,
        } => {
            let fields = [
                ("page", page.0.into()),
                ("generation", generation.0),
                ("current", current.0),
            ];
            with_fields(StalePage::new_err(message), &fields)
        }
        Pages::UnknownPage { page, .. } => {
            with_fields(UnknownPage::new_err(message), &[("page", page.0.into())])
        }
        Pages::QuotaExceeded {
            tenant,
            wanted,
            used,
            quota,
        } => {
            let fields = [
                ("wanted", wanted as u64),
                ("used", used as u64),
                ("quota", quota as u64),
            ];
            with_tenant(
                with_fields(QuotaExceeded::new_err(message), &fields),
                &tenant,
            )
        }
        Pages::NotHeld { page } => {
            with_fields(PageNotHeld::new_err(message), &[("page", page.0.into())])
        }
        Pages::UnknownLease { lease } => {
            with_fields(UnknownLease::new_err(message), &[("lease", lease.0)])
        }
        Pages::Foreign => ForeignRun::new_err(message),
        Pages::EmptyPool { .. } => InvalidArgument::new_err(message),
        _ => PageError::new_err(message),
    }
}

/// Errors of `omniflow_pages::Extents`.
pub fn extents(error: Extent) -> PyErr {
    let message = error.to_string();
    match error {
        Extent::NoExtent { .. } => InvalidArgument::new_err(message),
        Extent::OutOfExtents { extents, orphaned } => with_fields(
            OutOfExtents::new_err(message),
            &[("extents", extents as u64), ("orphaned", orphaned as u64)],
        ),
        Extent::UnknownOwner { owner } => {
            with_fields(UnknownOwner::new_err(message), &[("owner", owner.0)])
        }
        Extent::UnknownLease { lease } => {
            with_fields(UnknownLease::new_err(message), &[("lease", lease.0)])
        }
        _ => ExtentError::new_err(message),
    }
}

/// Errors of `omniflow_pages::Tiers`.
pub fn tiers(error: TierError) -> PyErr {
    let message = error.to_string();
    match error {
        TierError::Page(error) => pages(error),
        TierError::UnknownEntry(entry) => {
            with_fields(UnknownEntry::new_err(message), &[("entry", entry.0)])
        }
        TierError::UnknownMove(id) => with_fields(UnknownMove::new_err(message), &[("move", id.0)]),
        TierError::HasChildren { entry, children } => with_fields(
            EntryHasChildren::new_err(message),
            &[("entry", entry.0), ("children", children.into())],
        ),
        TierError::BadWorth { .. } | TierError::NoTier(_) => InvalidArgument::new_err(message),
        _ => PageError::new_err(message),
    }
}

/// Errors of `omniflow_arena`, but for its disk.
pub fn arena(error: Arena) -> PyErr {
    let message = error.to_string();
    match error {
        Arena::Page(error) => pages(error),
        Arena::BadLayout { .. } => InvalidArgument::new_err(message),
        Arena::Mismatch { .. } => ArenaMismatch::new_err(message),
        Arena::Damaged { .. } => ArenaDamaged::new_err(message),
        Arena::Full { wanted, free } => with_fields(
            ArenaFull::new_err(message),
            &[("wanted", wanted), ("free", free)],
        ),
        Arena::ReadOnly => ArenaReadOnly::new_err(message),
        Arena::OutOfMemory { .. } => OutOfMemory::new_err(message),
        Arena::OutOfBounds { .. } => OutOfBounds::new_err(message),
        Arena::OtherUser { .. } => OtherUser::new_err(message),
        Arena::HungUp => ChannelHungUp::new_err(message),
        Arena::TimedOut => ChannelTimeout::new_err(message),
        Arena::BadMessage { .. } => BadMessage::new_err(message),
        Arena::AddressInUse { .. } => AddressInUse::new_err(message),
        _ => ArenaError::new_err(message),
    }
}

/// Errors of `omniflow_arena::disk`.
pub fn disk(error: Disk) -> PyErr {
    let message = error.to_string();
    let of_page = |error: PyErr, page: PageId| with_fields(error, &[("page", page.0.into())]);
    match error {
        Disk::Unusable { error, .. } => match error {
            Arena::Mismatch { .. } => ArenaMismatch::new_err(message),
            _ => ArenaDamaged::new_err(message),
        },
        Disk::Full { .. } => DiskFull::new_err(message),
        Disk::InUse { .. } => DiskArenaInUse::new_err(message),
        Disk::NotThere { page } => of_page(DiskPageMissing::new_err(message), page),
        Disk::PageDamaged { page } => of_page(DiskPageDamaged::new_err(message), page),
        Disk::UnknownPage { page, .. } => of_page(UnknownPage::new_err(message), page),
        Disk::WrongSize { .. } => InvalidArgument::new_err(message),
        _ => ArenaError::new_err(message),
    }
}

/// Errors of `omniflow_prefix::KeyChain`.
pub fn chain(error: ChainError) -> PyErr {
    let message = error.to_string();
    match error {
        ChainError::MediaCut { start, end, .. } => with_fields(
            MediaCut::new_err(message),
            &[("start", start as u64), ("end", end as u64)],
        ),
        _ => PrefixError::new_err(message),
    }
}

/// Errors of `omniflow_prefix::PrefixIndex` and `ClusterIndex`.
pub fn index(error: IndexError) -> PyErr {
    let message = error.to_string();
    match error {
        IndexError::UnknownKey(_) | IndexError::NotHeld { .. } => UnknownPageKey::new_err(message),
        IndexError::NotAChain { .. } => InvalidArgument::new_err(message),
        _ => PrefixError::new_err(message),
    }
}

/// Broken invariants of any crate.
pub fn corrupt(error: impl std::error::Error) -> PyErr {
    CorruptState::new_err(error.to_string())
}

/// A handle that was used after its release; `what` names its class.
pub fn released(what: &str) -> PyErr {
    RunReleased::new_err(format!("this {what} was released: allocate or match again"))
}

/// More keys than pages.
pub fn keys_without_pages(keys: usize, pages: usize) -> PyErr {
    let message = format!(
        "{keys} keys for a run of {pages} pages: pass the keys of the pages that the run holds"
    );
    with_fields(
        KeysWithoutPages::new_err(message),
        &[("keys", keys as u64), ("pages", pages as u64)],
    )
}

/// Bytes that are no message of the wire contract; `what` names the message.
pub fn wire(what: &str, error: &dyn std::error::Error) -> PyErr {
    WireError::new_err(format!(
        "this is no serialized {what} ({error}); pass what SerializeToString() gave"
    ))
}

/// Errors of `omniflow_link`, as far as callers cause them.
pub fn link(error: LinkError) -> PyErr {
    let message = error.to_string();
    match error {
        LinkError::BadAddress { .. } => InvalidArgument::new_err(message),
        LinkError::Certificate { .. } => CertificateUnusable::new_err(message),
        LinkError::AddressInUse(_) => AddressInUse::new_err(message),
        _ => CoreError::new_err(message),
    }
}

/// Errors of `omniflow_node`.
pub fn node(error: NodeError) -> PyErr {
    let message = error.to_string();
    match error {
        NodeError::Closed => Closed::new_err(message),
        NodeError::Cancelled { .. } => Cancelled::new_err(message),
        NodeError::Stale { .. } => StalePage::new_err(message),
        NodeError::UnknownPort { .. } => UnknownPort::new_err(message),
        NodeError::BadOutput { .. } => BadOutput::new_err(message),
        NodeError::Malformed { .. } => WireError::new_err(message),
        NodeError::InvalidArgument(_) => InvalidArgument::new_err(message),
        NodeError::Link(error) => link(error),
        NodeError::Thread(_) => CoreError::new_err(message),
    }
}

/// Errors of `omniflow_hub`.
pub fn hub(error: HubError) -> PyErr {
    let message = error.to_string();
    match error {
        HubError::Wire { .. } => WireError::new_err(message),
        HubError::FlowInvalid { problems, .. } => Python::attach(|py| {
            let error = FlowInvalid::new_err(message);
            let problems: Vec<FlowProblem> = problems.into_iter().map(FlowProblem::from).collect();
            match error.value(py).setattr("problems", problems) {
                Ok(()) => error,
                Err(failed) => failed,
            }
        }),
        HubError::UnknownWorker { .. } => UnknownWorker::new_err(message),
        HubError::UnknownClient(_) => UnknownClient::new_err(message),
        HubError::UnknownPolicy(_) => InvalidArgument::new_err(message),
        HubError::Journal(_) => JournalUnusable::new_err(message),
        HubError::Listen(error) => link(error),
        HubError::Io { .. } => CoreError::new_err(message),
    }
}
