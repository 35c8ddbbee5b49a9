//! What generated code was made from, and that nobody has touched it since: a line at its head says both.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The line at the head of `code` when it is what the .proto files below `root` were compiled to.
pub fn fingerprint(root: &Path, code: &str) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    for file in proto_files(root)? {
        let name = file.file_name().unwrap_or_default();
        hasher.update(name.as_encoded_bytes()).update(b"\0");
        hasher.update(&fs::read(&file)?).update(b"\0");
    }
    hasher.update(code.as_bytes());
    Ok(format!(
        "// Made by `make proto`; of these lines and proto/omniflow/v1: {}\n",
        hasher.finalize()
    ))
}

/// Those of the contract, in the order of their names.
fn proto_files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("omniflow/v1"))? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
