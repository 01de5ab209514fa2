//! Regenerates every checked-in generated Rust file: `cargo run --release -p spectrie-codegen`;
//! with `--check` it writes nothing and fails, naming each file that is out of date.
//!
//! Reads `proto/` and writes `rust/proto/src/generated/`: one Rust file per package and the
//! descriptor sets that reflection serves. Needs no `protoc`.

use std::error::Error;
use std::path::{Path, PathBuf};

use prost::Message as _;

const PUBLIC_PROTO: &str = "spectrie/v1/inference.proto";
const ADMIN_PROTO: &str = "spectrie/v1/admin.proto";
const WORKER_PROTO: &str = "spectrie/worker/v1/worker.proto";

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let includes = root.join("proto");
    let checked_in = root.join("rust/proto/src/generated");
    if std::env::args().any(|argument| argument == "--check") {
        let fresh = root.join("target/codegen-check");
        generate(&includes, &fresh)?;
        return compare(&fresh, &checked_in);
    }
    generate(&includes, &checked_in)
}

/// Fails with the name of every file of `fresh` that differs in `checked_in`.
fn compare(fresh: &Path, checked_in: &Path) -> Result<(), Box<dyn Error>> {
    let mut stale = Vec::new();
    for entry in std::fs::read_dir(fresh)? {
        let name = entry?.file_name();
        if std::fs::read(fresh.join(&name))?
            != std::fs::read(checked_in.join(&name)).unwrap_or_default()
        {
            stale.push(name.to_string_lossy().into_owned());
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("out of date, run `make proto`: {}", stale.join(", ")).into())
}

fn generate(includes: &Path, output: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(output)?;

    let mut compiler = protox::Compiler::new([includes])?;
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files([PUBLIC_PROTO, ADMIN_PROTO, WORKER_PROTO])?;
    tonic_prost_build::configure()
        .btree_map(".")
        .bytes(".")
        .build_transport(false)
        .out_dir(output)
        .compile_fds(compiler.file_descriptor_set())?;
    // The worker protocol is nobody else's business, and the public listener has no Admin.
    write_descriptors(includes, PUBLIC_PROTO, &output.join("spectrie.v1.bin"))?;
    write_descriptors(includes, ADMIN_PROTO, &output.join("spectrie.v1.admin.bin"))
}

/// Writes the descriptors of one proto file and its imports, for reflection.
fn write_descriptors(includes: &Path, proto: &str, output: &Path) -> Result<(), Box<dyn Error>> {
    let mut compiler = protox::Compiler::new([includes])?;
    compiler.include_imports(true).open_files([proto])?;
    let mut set = compiler.file_descriptor_set();
    for file in &mut set.file {
        file.source_code_info = None;
    }
    std::fs::write(output, set.encode_to_vec())?;
    Ok(())
}
