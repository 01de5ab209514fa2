//! Regenerates every checked-in file that has a source here: `cargo run --release -p
//! spectrie-codegen`; with `--check` it writes nothing and fails, naming each file that is out of
//! date.
//!
//! | from | to |
//! |---|---|
//! | `proto/` | `rust/proto/src/generated/`: messages and descriptor sets; needs no `protoc` |
//! | `rust/types/src/options/` | `python/spectrie/engine/options.py`, `python/spectrie/llm/keywords.py`, `docs/options.md` |
//! | `rust/python/stubs/` and the tables | `python/spectrie/_core.pyi` |

mod docs;
mod protos;
mod python;
mod result;
mod stub;
mod text;

use std::path::{Path, PathBuf};

use result::Result;

/// Where messages are checked in.
const MESSAGES: &str = "rust/proto/src/generated";

fn main() -> Result<()> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    if std::env::args().any(|argument| argument == "--check") {
        let fresh = root.join("target/codegen-check");
        generate(&root, &fresh)?;
        return compare(&fresh, &root);
    }
    generate(&root, &root)
}

/// Writes every file below `output`, from its source below `root`.
fn generate(root: &Path, output: &Path) -> Result<()> {
    protos::write(&root.join("proto"), &output.join(MESSAGES))?;
    let texts = [
        (
            "python/spectrie/_core.pyi",
            stub::stub(&root.join("rust/python/stubs"))?,
        ),
        (
            "python/spectrie/engine/options.py",
            python::engine_options(),
        ),
        ("python/spectrie/llm/keywords.py", python::keywords()),
        ("docs/options.md", docs::page()),
    ];
    for (name, text) in texts {
        let path = output.join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// Fails with the name of every file below `fresh` that differs below `root`.
fn compare(fresh: &Path, root: &Path) -> Result<()> {
    let mut stale = Vec::new();
    let mut folders = vec![fresh.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(fresh)?;
            if std::fs::read(&path)? != std::fs::read(root.join(name)).unwrap_or_default() {
                stale.push(name.to_string_lossy().into_owned());
            }
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    stale.sort();
    Err(format!("out of date, run `make generate`: {}", stale.join(", ")).into())
}
