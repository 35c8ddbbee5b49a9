//! A media item's part in page keys.

use std::num::NonZeroUsize;
use std::ops::Range;

/// An item (image, sound, video) that fills consecutive positions of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaItem {
    /// 256 bits over all that decides the item's embeddings: the item itself and how it is processed.
    pub digest: [u8; 32],
    /// Positions that it fills.
    pub length: NonZeroUsize,
    /// The token id at these positions.
    pub placeholder: u32,
    /// The model's position number of its first token, for models whose positions do not just count tokens.
    pub basis: u64,
}

/// An item where it lies in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedMedia {
    pub(crate) item: MediaItem,
    pub(crate) start: usize,
}

impl PlacedMedia {
    pub(crate) fn end(&self) -> usize {
        self.start + self.item.length.get()
    }

    /// Appends what the page of tokens `page` must say of this item, which touches it: a fixed number of bytes, so that
    /// a page's content reads in one way only.
    pub(crate) fn write(&self, page: &Range<usize>, content: &mut Vec<u8>) {
        let from = self.start.max(page.start);
        content.extend_from_slice(&self.item.digest);
        for number in [
            (from - page.start) as u64,
            (from - self.start) as u64,
            self.item.length.get() as u64,
            self.item.basis,
        ] {
            content.extend_from_slice(&number.to_le_bytes());
        }
    }
}
