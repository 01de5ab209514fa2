//! Rust messages and descriptors from `proto/`.

use std::path::Path;

use prost::Message as _;

use crate::result::Result;

const PUBLIC_PROTO: &str = "spectrie/v1/inference.proto";
const ADMIN_PROTO: &str = "spectrie/v1/admin.proto";
const WORKER_PROTO: &str = "spectrie/worker/v1/worker.proto";

/// Writes one Rust file per package of `includes` to `output`, and the descriptor sets that
/// reflection serves.
pub(crate) fn write(includes: &Path, output: &Path) -> Result<()> {
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
    // The worker protocol is private, and the public listener has no Admin.
    write_descriptors(includes, PUBLIC_PROTO, &output.join("spectrie.v1.bin"))?;
    write_descriptors(includes, ADMIN_PROTO, &output.join("spectrie.v1.admin.bin"))
}

/// Writes the descriptors of one proto file and its imports, for reflection.
fn write_descriptors(includes: &Path, proto: &str, output: &Path) -> Result<()> {
    let mut compiler = protox::Compiler::new([includes])?;
    compiler.include_imports(true).open_files([proto])?;
    let mut set = compiler.file_descriptor_set();
    for file in &mut set.file {
        file.source_code_info = None;
    }
    std::fs::write(output, set.encode_to_vec())?;
    Ok(())
}
