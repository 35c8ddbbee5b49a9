"""The Rust core of Omni-Flow. Everything here is implemented in `core-rs/`; `_native.pyi` documents it."""
