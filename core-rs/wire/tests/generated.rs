//! The checked-in prost code says what the .proto files say.

#[path = "../../codegen/src/fingerprint.rs"]
mod fingerprint;

use std::path::Path;

#[test]
fn generated_code_is_current_and_as_it_was_generated() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let found = std::fs::read_to_string(crates.join("wire/src/v1.rs")).expect("it is checked in");
    let (head, code) = found.split_at(found.find('\n').expect("lines") + 1);
    let wanted =
        fingerprint::fingerprint(&crates.join("../proto"), code).expect("the .proto files");
    assert!(
        head == wanted,
        "core-rs/wire/src/v1.rs is not what proto/omniflow/v1 was compiled to: run `make proto`"
    );
}
