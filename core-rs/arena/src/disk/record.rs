//! What is written about one page on disk.

use omniflow_pages::{Generation, PageId};

use crate::layout::Fingerprint;

/// Bytes of a page's key.
pub(super) const KEY: usize = 32;

/// What is known of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The slot's generation when it was written, or when its page was forgotten.
    pub(super) generation: Generation,
    /// None: nothing is there.
    pub(super) content: Option<Content>,
}

/// What lies in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) key: [u8; KEY],
    pub(super) checksum: [u8; blake3::OUT_LEN],
}

/// What a slot of the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Nothing was ever written there.
    Untouched,
    Record(Record),
    /// A record that was not written whole.
    Damaged,
}

const EMPTY: u8 = 1;
const FILLED: u8 = 2;

impl Record {
    /// State and generation, key, checksum of the page, and a checksum of these.
    pub(super) const SIZE: usize = 96;
    const SAID: usize = 16 + KEY + blake3::OUT_LEN;

    pub(super) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[0] = if self.content.is_some() {
            FILLED
        } else {
            EMPTY
        };
        bytes[8..16].copy_from_slice(&self.generation.0.to_le_bytes());
        if let Some(content) = self.content {
            bytes[16..16 + KEY].copy_from_slice(&content.key);
            bytes[16 + KEY..Self::SAID].copy_from_slice(&content.checksum);
        }
        let checksum = blake3::hash(&bytes[..Self::SAID]);
        bytes[Self::SAID..].copy_from_slice(&checksum.as_bytes()[..Self::SIZE - Self::SAID]);
        bytes
    }

    pub(super) fn decode(bytes: &[u8; Self::SIZE]) -> Said {
        if bytes.iter().all(|&byte| byte == 0) {
            return Said::Untouched;
        }
        let (said, checksum) = bytes.split_at(Self::SAID);
        if blake3::hash(said).as_bytes()[..checksum.len()] != *checksum {
            return Said::Damaged;
        }
        let part = |start: usize| std::array::from_fn(|index| said[start + index]);
        let content = Content {
            key: part(16),
            checksum: part(16 + KEY),
        };
        let generation: [u8; 8] = std::array::from_fn(|index| said[8 + index]);
        Said::Record(Self {
            generation: Generation(u64::from_le_bytes(generation)),
            content: (said[0] == FILLED).then_some(content),
        })
    }
}

/// The checksum of a page, in one slot, at one write, under one key, of one model.
pub(super) fn checksum(
    fingerprint: Fingerprint,
    page: PageId,
    generation: Generation,
    key: &[u8; KEY],
    bytes: &[u8],
) -> [u8; blake3::OUT_LEN] {
    let mut hasher = blake3::Hasher::new_keyed(&fingerprint.0);
    hasher.update(&page.0.to_le_bytes());
    hasher.update(&generation.0.to_le_bytes());
    hasher.update(key);
    hasher.update(bytes);
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            generation: Generation(u64::MAX - 4),
            content: Some(Content {
                key: [3; KEY],
                checksum: [9; blake3::OUT_LEN],
            }),
        }
    }

    #[test]
    fn a_record_says_what_was_put_into_it() {
        let filled = record();
        assert_eq!(Record::decode(&filled.encode()), Said::Record(filled));
        let empty = Record {
            content: None,
            ..filled
        };
        assert_eq!(Record::decode(&empty.encode()), Said::Record(empty));
        assert_eq!(Record::decode(&[0; Record::SIZE]), Said::Untouched);
    }

    #[test]
    fn a_record_with_any_bit_flipped_is_damaged() {
        let bytes = record().encode();
        for bit in 0..Record::SIZE * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&flipped), Said::Damaged, "bit {bit}");
        }
    }

    #[test]
    fn the_checksum_of_a_page_is_of_its_slot_its_write_its_key_and_its_model() {
        let of = |model: u8, page, generation, key: u8| {
            checksum(
                Fingerprint([model; 32]),
                PageId(page),
                Generation(generation),
                &[key; KEY],
                b"bytes",
            )
        };
        let one = of(1, 1, 1, 1);
        for other in [
            of(2, 1, 1, 1),
            of(1, 2, 1, 1),
            of(1, 1, 2, 1),
            of(1, 1, 1, 2),
        ] {
            assert_ne!(one, other);
        }
        assert_eq!(one, of(1, 1, 1, 1));
    }
}
