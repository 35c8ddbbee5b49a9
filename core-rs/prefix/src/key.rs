//! The name of a page's content, and the root that all keys of one model, layout and tenant grow from.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;

/// Separates these hashes from any other use of BLAKE3. A change of the encoding of roots or pages changes it too.
const ROOT_CONTEXT: &str = "omni-flow page key root, encoding 1";

/// The chained content hash of a page: equal keys mean equal content of the page and of all pages before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct PageKey(pub [u8; 32]);

impl PageKey {
    /// Bytes in a key.
    pub const SIZE: usize = 32;

    /// Keys laid end to end, as [`PageKey::SIZE`] bytes each; `None` if the bytes do not divide so.
    pub fn parse_all(bytes: &[u8]) -> Option<Vec<Self>> {
        let (keys, rest) = bytes.as_chunks::<{ Self::SIZE }>();
        rest.is_empty()
            .then(|| keys.iter().copied().map(Self).collect())
    }

    /// Its first eight bytes.
    pub(crate) fn head(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    /// The key of a page with this content under `self`, its parent's.
    pub(crate) fn child(&self, content: &[u8]) -> Self {
        Self(*blake3::keyed_hash(&self.0, content).as_bytes())
    }
}

/// Eight bytes of a key spread as well as all of them; the map's own hasher keeps chosen keys from colliding.
impl Hash for PageKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.head());
    }
}

impl fmt::Display for PageKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for PageKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PageKey({self})")
    }
}

/// What KV must have in common to be shared at all: model, layout, page size, tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRoot {
    pub(crate) key: PageKey,
    pub(crate) page_tokens: NonZeroU32,
}

impl KeyRoot {
    /// `model` is the fingerprint of the weights, `layout` the description of the KV layout, `salt` the tenant's.
    pub fn new(model: &[u8], layout: &str, page_tokens: NonZeroU32, salt: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(ROOT_CONTEXT);
        // Lengths go first, so that no two ways of cutting the same bytes into fields meet.
        for field in [
            model,
            layout.as_bytes(),
            &page_tokens.get().to_le_bytes(),
            salt,
        ] {
            hasher.update(&(field.len() as u64).to_le_bytes());
            hasher.update(field);
        }
        Self {
            key: PageKey(*hasher.finalize().as_bytes()),
            page_tokens,
        }
    }

    /// Tokens in a page.
    pub fn page_tokens(&self) -> usize {
        self.page_tokens.get() as usize
    }
}
