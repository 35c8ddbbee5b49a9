//! Writes `core-rs/wire/src/v1.rs` anew from the .proto files: `cargo run -p omniflow-codegen`, or `make proto`.

mod fingerprint;

use std::error::Error;
use std::fs;
use std::path::Path;

const FILES: [&str; 6] = ["value", "error", "flow", "job", "cluster", "link"];

fn main() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("../../proto");
    let code = generate(&root)?;
    let head = fingerprint::fingerprint(&root, &code)?;
    fs::write(here.join("../wire/src/v1.rs"), head + &code)?;
    Ok(())
}

/// The code that the .proto files ask for.
fn generate(root: &Path) -> Result<String, Box<dyn Error>> {
    let files = FILES.map(|name| root.join(format!("omniflow/v1/{name}.proto")));
    let descriptors = protox::compile(files, [root])?;
    let folder = tempfile::tempdir()?;
    prost_build::Config::new()
        .bytes(["."])
        // Ordered maps: equal messages have equal bytes, which hashes of flows rely on.
        .btree_map(["."])
        .out_dir(folder.path())
        .compile_fds(descriptors)?;
    Ok(fs::read_to_string(folder.path().join("omniflow.v1.rs"))?)
}
