//! Memory that several processes share, and pages on disk. It knows no flow, no lease and no Python.
//!
//! - A [`HostArena`] is anonymous memory (`memfd_create`) of a fixed size. Its first page says what it is ([`Layout`]);
//!   behind that lies a generation for each page of the arena, then the pages. Every process that has the descriptor maps
//!   all of it and uses what lies there in place. It is gone when the last descriptor, mapping and [`View`] are: nothing has
//!   a name, so that `kill -9` leaves nothing behind.
//! - Who hands out pages of an arena does so with a `PageAllocator` over the arena's own generations
//!   ([`HostArena::allocator`]). A [`BlobArena`] hands out runs of small pages, its blocks, to tensors and media of any size.
//! - Descriptors travel over a [`Channel`], a Unix socket whose other end belongs to the same user. An [`Offer`] says what a
//!   descriptor is; an [`Offered`] one is mapped only after size, seals and header have been found to be as told.
//! - An arena of another device (`cuda:0`) has its generations here and its pages elsewhere: a second descriptor.
//! - A [`DiskArena`] keeps pages in a file, each with its key and checksum, over restarts of the process.

mod blobs;
mod channel;
pub mod disk;
mod error;
mod header;
mod host;
mod layout;
mod mapping;
mod offer;
mod room;
mod view;

pub use blobs::{Blob, BlobArena, Place};
pub use channel::{Address, Channel, Listener, MAX_DESCRIPTORS, MAX_PAYLOAD, Message, check_peer};
pub use disk::DiskArena;
pub use error::ArenaError;
pub use header::ArenaId;
pub use host::{Access, HostArena, HostOptions, HugePages, MemoryInfo};
pub use layout::{Content, DeviceName, Fingerprint, Layout, PAGE_ALIGN};
pub use offer::{Offer, Offered, offer, take_offers};
pub use view::View;
