//! Writes `src/v1.rs` anew from the .proto files: `cargo run -p omniflow-wire --example regenerate`.

#[path = "../codegen/mod.rs"]
mod codegen;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    std::fs::write(codegen::checked_in(), codegen::generate()?)?;
    Ok(())
}
