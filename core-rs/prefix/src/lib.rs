//! Page keys (chained keyed BLAKE3) and the prefix-closed index over them.
//!
//! [`KeyChain`] names the pages of one token sequence; [`PrefixIndex`] finds the longest known prefix of such a
//! sequence. Keys are exact (a match never ends inside a page), and nobody here knows what a page is: the index holds
//! whatever its owner wants to find again.

mod chain;
mod error;
mod index;
mod key;
mod media;

pub use chain::KeyChain;
pub use error::{ChainError, Corrupt, IndexError, TooFew};
pub use index::{Insertion, PrefixIndex};
pub use key::{KeyRoot, PageKey};
pub use media::MediaItem;
