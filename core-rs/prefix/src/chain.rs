//! The page keys of one sequence, kept up to date as it grows.

use crate::error::ChainError;
use crate::key::{KeyRoot, PageKey};
use crate::media::{MediaItem, PlacedMedia};

/// A token sequence and the keys of its full pages. Every page is hashed once: when it fills.
#[derive(Clone, Debug)]
pub struct KeyChain {
    root: KeyRoot,
    /// All of them, not only those past the last full page: truncating may reopen any page.
    tokens: Vec<u32>,
    /// In order, without overlap.
    media: Vec<PlacedMedia>,
    keys: Vec<PageKey>,
}

impl KeyChain {
    /// An empty sequence under `root`.
    pub fn new(root: KeyRoot) -> Self {
        Self {
            root,
            tokens: Vec::new(),
            media: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// Tokens in the sequence, media positions included.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether it has no token.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Tokens in a page.
    pub fn page_tokens(&self) -> usize {
        self.root.page_tokens()
    }

    /// The keys of the full pages, in order.
    pub fn keys(&self) -> &[PageKey] {
        &self.keys
    }

    /// Adds tokens. Returns how many pages they completed.
    pub fn extend(&mut self, tokens: &[u32]) -> usize {
        self.tokens.extend_from_slice(tokens);
        self.hash_full_pages()
    }

    /// Adds a media item at the end. Returns how many pages it completed.
    pub fn add_media(&mut self, item: MediaItem) -> usize {
        let start = self.tokens.len();
        self.media.push(PlacedMedia { item, start });
        self.tokens
            .resize(start + item.length.get(), item.placeholder);
        self.hash_full_pages()
    }

    /// Keeps the first `tokens` tokens. The pages that stay full keep their keys.
    pub fn truncate(&mut self, tokens: usize) -> Result<(), ChainError> {
        if tokens >= self.tokens.len() {
            return Ok(());
        }
        let kept = self.media.partition_point(|media| media.start < tokens);
        if let Some(cut) = self.media[..kept]
            .last()
            .filter(|media| media.end() > tokens)
        {
            return Err(ChainError::MediaCut {
                tokens,
                start: cut.start,
                end: cut.end(),
            });
        }
        self.media.truncate(kept);
        self.tokens.truncate(tokens);
        self.keys.truncate(tokens / self.page_tokens());
        Ok(())
    }

    fn hash_full_pages(&mut self) -> usize {
        let page_tokens = self.page_tokens();
        let before = self.keys.len();
        let full = self.tokens.len() / page_tokens;
        self.keys.reserve(full - before);
        let mut parent = self.keys.last().copied().unwrap_or(self.root.key);
        let mut content = Vec::with_capacity(page_tokens * size_of::<u32>());
        for page in before..full {
            self.write_content(page, &mut content);
            parent = parent.child(&content);
            self.keys.push(parent);
        }
        full - before
    }

    /// Token ids first: as their number is in the root, what follows them can only be media.
    fn write_content(&self, page: usize, content: &mut Vec<u8>) {
        let range = page * self.page_tokens()..(page + 1) * self.page_tokens();
        content.resize(range.len() * size_of::<u32>(), 0);
        let (places, _) = content.as_chunks_mut();
        for (place, token) in places.iter_mut().zip(&self.tokens[range.clone()]) {
            *place = token.to_le_bytes();
        }
        let first = self
            .media
            .partition_point(|media| media.end() <= range.start);
        for media in self.media[first..]
            .iter()
            .take_while(|media| media.start < range.end)
        {
            media.write(&range, content);
        }
    }
}
