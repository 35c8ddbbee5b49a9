//! What an arena is made of: what lies in it, in pages of which size, for which model, on which device.

use std::fmt;

use crate::error::ArenaError;

/// Every page begins at a multiple of this, so that rows of any element type do: a cache line, and what torch asks of
/// tensors that it computes on.
pub const PAGE_ALIGN: u64 = 64;

/// What the pages of an arena hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// KV: each page is a fixed number of tokens over all layers.
    Pages,
    /// Tensors and media: each takes as many consecutive pages, called blocks, as it needs.
    Blobs,
}

impl Content {
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Pages => 1,
            Self::Blobs => 2,
        }
    }

    pub(crate) fn from_code(code: u32) -> Option<Self> {
        [Self::Pages, Self::Blobs]
            .into_iter()
            .find(|content| content.code() == code)
    }
}

impl fmt::Display for Content {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Pages => "pages",
            Self::Blobs => "blobs",
        })
    }
}

/// Hash of all that must be equal for two processes to read each other's pages: weights, KV layout, page size in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Enough to tell two models apart in a message.
        let mut bytes = self.0[..8].iter();
        bytes.try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// Where the pages lie: `cpu`, `cuda:0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeviceName(String);

impl DeviceName {
    /// The longest name, in bytes.
    pub const MAX: usize = 32;

    /// The host's own memory.
    pub fn host() -> Self {
        Self("cpu".into())
    }

    /// Refused when it is empty, too long, or more than printable ASCII.
    pub fn new(name: &str) -> Result<Self, ArenaError> {
        let printable = name.bytes().all(|byte| byte.is_ascii_graphic());
        if name.is_empty() || name.len() > Self::MAX || !printable {
            return Err(ArenaError::BadLayout {
                why: format!(
                    "a device is called {name:?}: give it a name of 1 to {} letters, such as cpu or cuda:0",
                    Self::MAX
                ),
            });
        }
        Ok(Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pages lie in the host's own memory.
    pub fn is_host(&self) -> bool {
        self.0 == "cpu"
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What two processes must agree on before they share memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    content: Content,
    page_bytes: u64,
    pages: u32,
    fingerprint: Fingerprint,
    device: DeviceName,
}

impl Layout {
    /// Refused when there is nothing in it, when pages would not be aligned, or when it fits no address space.
    pub fn new(
        content: Content,
        page_bytes: u64,
        pages: u32,
        fingerprint: Fingerprint,
        device: DeviceName,
    ) -> Result<Self, ArenaError> {
        let bad = |why: String| Err(ArenaError::BadLayout { why });
        if pages == 0 || page_bytes == 0 {
            return bad(format!(
                "{pages} pages of {page_bytes} bytes hold nothing: give it at least one page of {PAGE_ALIGN} bytes"
            ));
        }
        if !page_bytes.is_multiple_of(PAGE_ALIGN) {
            return bad(format!(
                "a page of {page_bytes} bytes: make it a multiple of {PAGE_ALIGN}"
            ));
        }
        // Half of the addresses that a process has, so that no sum of offsets overflows.
        if page_bytes
            .checked_mul(u64::from(pages))
            .is_none_or(|bytes| bytes > 1 << 46)
        {
            return bad(format!(
                "{pages} pages of {page_bytes} bytes: 64 TiB is the most"
            ));
        }
        Ok(Self {
            content,
            page_bytes,
            pages,
            fingerprint,
            device,
        })
    }

    /// What the pages hold.
    pub fn content(&self) -> Content {
        self.content
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// How many pages.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// What must be equal to read each other's pages.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Where the pages lie.
    pub fn device(&self) -> &DeviceName {
        &self.device
    }

    /// Bytes of all pages.
    pub fn data_bytes(&self) -> u64 {
        self.page_bytes * u64::from(self.pages)
    }

    /// That this layout is `expected`; else the first field in which it differs.
    pub fn require(&self, expected: &Self) -> Result<(), ArenaError> {
        let fields = |layout: &Self| {
            [
                ("content", layout.content.to_string()),
                ("fingerprint", layout.fingerprint.to_string()),
                ("device", layout.device.to_string()),
                ("page bytes", layout.page_bytes.to_string()),
                ("page count", layout.pages.to_string()),
            ]
        };
        if self == expected {
            return Ok(());
        }
        let pairs = fields(expected).into_iter().zip(fields(self));
        let mut differing = pairs.filter(|((_, expected), (_, found))| expected != found);
        let (field, expected, found) = differing.next().map_or_else(
            // Only the part of the fingerprint that is not shown differs.
            || ("fingerprint", "another".into(), "one".into()),
            |((field, expected), (_, found))| (field, expected, found),
        );
        Err(ArenaError::Mismatch {
            field,
            expected,
            found,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(page_bytes: u64, pages: u32) -> Result<Layout, ArenaError> {
        let fingerprint = Fingerprint([7; 32]);
        Layout::new(
            Content::Pages,
            page_bytes,
            pages,
            fingerprint,
            DeviceName::host(),
        )
    }

    #[test]
    fn a_layout_that_holds_nothing_or_cannot_be_addressed_is_refused() {
        for (page_bytes, pages) in [
            (0, 1),
            (64, 0),
            (96, 1),
            (1 << 40, 1 << 20),
            (u64::MAX - 63, 9),
        ] {
            let refused = layout(page_bytes, pages);
            assert!(
                matches!(refused, Err(ArenaError::BadLayout { .. })),
                "{page_bytes} {pages}"
            );
        }
    }

    #[test]
    fn a_device_has_a_short_printable_name() {
        let long = "x".repeat(33);
        for name in ["", "two words", "null\0", long.as_str()] {
            assert!(DeviceName::new(name).is_err(), "{name:?}");
        }
        assert!(DeviceName::new("cuda:11").is_ok_and(|device| !device.is_host()));
    }

    #[test]
    fn the_first_field_that_differs_is_named() {
        let (one, other) = (layout(64, 3).unwrap(), layout(64, 4).unwrap());
        let mismatch = ArenaError::Mismatch {
            field: "page count",
            expected: "4".into(),
            found: "3".into(),
        };
        assert_eq!(one.require(&other), Err(mismatch));
        assert_eq!(one.require(&one.clone()), Ok(()));
        let hidden = Layout {
            fingerprint: Fingerprint(std::array::from_fn(|index| if index == 31 { 8 } else { 7 })),
            ..one.clone()
        };
        assert!(one.require(&hidden).is_err());
    }
}
