//! Page keys (chained keyed BLAKE3) and the prefix-closed indexes over them.
//!
//! [`KeyChain`] names the pages of one token sequence. [`PrefixIndex`] finds the longest known prefix of such a sequence
//! in one worker, [`ClusterIndex`] how much of it each worker of a cluster holds. Keys are exact (a match never ends inside
//! a page), and nobody here knows what a page is: an index holds whatever its owner wants to find again.

mod chain;
mod cluster;
mod cluster_match;
mod error;
mod frugal;
mod holders;
mod index;
mod key;
mod media;
mod seats;
mod tree;

pub use chain::KeyChain;
pub use cluster::{ClusterIndex, Holder};
pub use cluster_match::ClusterMatch;
pub use error::{ChainError, Corrupt, IndexError, TooFew};
pub use index::{Insertion, PrefixIndex};
pub use key::{KeyRoot, PageKey};
pub use media::MediaItem;
