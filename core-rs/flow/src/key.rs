//! Which of many runs of a node a frame belongs to.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Indices kept without an allocation: fan-outs and loops seldom nest deeper.
const SHORT: usize = 4;

/// The path of fan-out and loop indices that a frame belongs to: `()`, `(3,)`, `(3, 1)`.
///
/// One of up to four indices costs no allocation; a longer one is shared by its copies.
#[derive(Clone)]
pub struct Key(Path);

/// A path that fits is always `Short`, and what it does not use of its indices is 0.
#[derive(Clone)]
enum Path {
    Short { len: u8, indices: [u32; SHORT] },
    Long(Arc<[u32]>),
}

impl Key {
    /// The key `()`: outside every fan-out and loop.
    pub const ROOT: Key = Key(Path::Short {
        len: 0,
        indices: [0; SHORT],
    });

    /// The key with this path; an empty path is the root.
    pub fn new(path: &[u32]) -> Self {
        if path.len() > SHORT {
            return Self(Path::Long(path.into()));
        }
        let mut indices = [0; SHORT];
        indices[..path.len()].copy_from_slice(path);
        Self(Path::Short {
            len: path.len() as u8,
            indices,
        })
    }

    /// The indices, outermost first.
    pub fn path(&self) -> &[u32] {
        match &self.0 {
            Path::Short { len, indices } => &indices[..usize::from(*len)],
            Path::Long(path) => path,
        }
    }

    /// Whether this is `()`.
    pub fn is_root(&self) -> bool {
        matches!(self.0, Path::Short { len: 0, .. })
    }

    /// How many fan-outs and loops it is inside of.
    pub fn depth(&self) -> usize {
        self.path().len()
    }

    /// The key of one item or round inside of this one.
    pub fn child(&self, index: u32) -> Self {
        if let Path::Short { len, mut indices } = self.0
            && usize::from(len) < SHORT
        {
            indices[usize::from(len)] = index;
            return Self(Path::Short {
                len: len + 1,
                indices,
            });
        }
        let path: Vec<u32> = self.path().iter().copied().chain([index]).collect();
        Self::new(&path)
    }

    /// The outermost `depth` indices of it, or all that it has.
    pub fn prefix(&self, depth: usize) -> Self {
        let path = self.path();
        if depth >= path.len() {
            return self.clone();
        }
        if depth == 0 {
            return Self::ROOT;
        }
        Self::new(&path[..depth])
    }

    /// The key around it and its last index. `None` for the root.
    pub fn split_last(&self) -> Option<(Self, u32)> {
        let (last, outer) = self.path().split_last()?;
        let outer = match outer {
            [] => Self::ROOT,
            outer => Self::new(outer),
        };
        Some((outer, *last))
    }

    /// Whether it is that key or one inside of it.
    pub fn extends(&self, outer: &Key) -> bool {
        self.path().starts_with(outer.path())
    }
}

impl Default for Key {
    fn default() -> Self {
        Self::ROOT
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (
                Path::Short { len, indices },
                Path::Short {
                    len: others,
                    indices: of_other,
                },
            ) => len == others && indices == of_other,
            (Path::Long(path), Path::Long(of_other)) => path == of_other,
            _ => false,
        }
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.path().cmp(other.path())
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Path::Short { len, indices } => {
                for index in &indices[..usize::from(*len)] {
                    state.write_u32(*index);
                }
                state.write_u8(*len);
            }
            Path::Long(path) => path.hash(state),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path() {
            [] => f.write_str("()"),
            [only] => write!(f, "({only},)"),
            path => {
                let words: Vec<String> = path.iter().map(u32::to_string).collect();
                write!(f, "({})", words.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_grows_and_shrinks_by_its_last_index() {
        let mut key = Key::ROOT;
        for index in 0..6 {
            let inner = key.child(index);
            assert!(inner.extends(&key) && !key.extends(&inner));
            assert_eq!(inner.split_last(), Some((key.clone(), index)));
            assert_eq!(inner.prefix(index as usize), key);
            key = inner;
        }
        assert_eq!(key, Key::new(&[0, 1, 2, 3, 4, 5]));
        assert_eq!(Key::ROOT.split_last(), None);
        assert_eq!(Key::new(&[3, 1]).to_string(), "(3, 1)");
    }
}
