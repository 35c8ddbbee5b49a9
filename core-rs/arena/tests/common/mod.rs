//! What the tests of arenas share.
#![allow(dead_code, clippy::unwrap_used)] // Each test binary uses a part of it.

use omniflow_arena::{Content, DeviceName, Fingerprint, HostArena, HostOptions, Layout};

/// A layout of the host, of model 7.
pub fn layout(content: Content, page_bytes: u64, pages: u32) -> Layout {
    layout_of_model(7, content, page_bytes, pages)
}

/// The same of any model.
pub fn layout_of_model(model: u8, content: Content, page_bytes: u64, pages: u32) -> Layout {
    let fingerprint = Fingerprint([model; 32]);
    Layout::new(content, page_bytes, pages, fingerprint, DeviceName::host()).unwrap()
}

/// An arena of that layout, which the system knows by `name`.
pub fn arena(name: &str, layout: &Layout) -> HostArena {
    let options = HostOptions {
        name: name.into(),
        ..HostOptions::default()
    };
    HostArena::create(layout, &options).unwrap()
}

/// A second mapping of an arena, as another process would have.
pub fn again(arena: &HostArena, access: omniflow_arena::Access) -> HostArena {
    let descriptor = arena.descriptor().try_clone_to_owned().unwrap();
    HostArena::open(descriptor, arena.layout(), access).unwrap()
}

/// How many mappings of this process the system knows by `name`.
pub fn mappings(name: &str) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(name)).count()
}
