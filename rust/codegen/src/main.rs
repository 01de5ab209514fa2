//! Regenerates every checked-in generated Rust file: `cargo run --release -p spectrie-codegen`.
//!
//! Reads `proto/` and writes `rust/proto/src/generated/`: one Rust file per package and the
//! descriptor set that reflection serves. Needs no `protoc`.

use std::error::Error;
use std::path::{Path, PathBuf};

use prost::Message as _;

const PUBLIC_PROTO: &str = "spectrie/v1/inference.proto";
const WORKER_PROTO: &str = "spectrie/worker/v1/worker.proto";

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let includes = root.join("proto");
    let output = root.join("rust/proto/src/generated");
    std::fs::create_dir_all(&output)?;

    let mut compiler = protox::Compiler::new([&includes])?;
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files([PUBLIC_PROTO, WORKER_PROTO])?;
    tonic_prost_build::configure()
        .btree_map(".")
        .bytes(".")
        .build_transport(false)
        .out_dir(&output)
        .compile_fds(compiler.file_descriptor_set())?;
    write_descriptors(&includes, &output)
}

/// Writes the descriptors of the public API alone: the worker protocol is nobody else's business.
fn write_descriptors(includes: &Path, output: &Path) -> Result<(), Box<dyn Error>> {
    let mut compiler = protox::Compiler::new([includes])?;
    compiler.include_imports(true).open_files([PUBLIC_PROTO])?;
    let mut set = compiler.file_descriptor_set();
    for file in &mut set.file {
        file.source_code_info = None;
    }
    std::fs::write(output.join("spectrie.v1.bin"), set.encode_to_vec())?;
    Ok(())
}
