//! The checked-in prost code says what the .proto files say.

#[path = "../codegen/mod.rs"]
mod codegen;

#[test]
fn generated_code_is_current() {
    let wanted = codegen::generate().expect("the .proto files compile");
    let found = std::fs::read_to_string(codegen::checked_in()).expect("src/v1.rs is checked in");
    assert!(
        wanted == found,
        "core-rs/wire/src/v1.rs is older than proto/omniflow/v1: run `cargo run -p omniflow-wire --example regenerate`"
    );
}
