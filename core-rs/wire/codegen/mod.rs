//! Generates the prost code of `proto/omniflow/v1`; shared by `examples/regenerate.rs` and `tests/generated.rs`.

use std::error::Error;
use std::path::{Path, PathBuf};

const FILES: [&str; 6] = ["value", "error", "flow", "job", "cluster", "link"];

/// Where the checked-in code lies.
pub fn checked_in() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/v1.rs")
}

/// The code that the .proto files ask for now.
pub fn generate() -> Result<String, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let files: Vec<PathBuf> = FILES
        .iter()
        .map(|name| root.join(format!("omniflow/v1/{name}.proto")))
        .collect();
    let descriptors = protox::compile(&files, [&root])?;
    let folder = tempfile::tempdir()?;
    prost_build::Config::new()
        .bytes(["."])
        // Ordered maps: equal messages have equal bytes, which hashes of flows rely on.
        .btree_map(["."])
        .out_dir(folder.path())
        .compile_fds(descriptors)?;
    Ok(std::fs::read_to_string(
        folder.path().join("omniflow.v1.rs"),
    )?)
}
