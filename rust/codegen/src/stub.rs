//! The stub of `spectrie._core`: fragments written beside the bindings, and the tables.

use std::fmt::Write as _;
use std::path::Path;

use spectrie_types::options::EngineConfig;
use spectrie_types::{FinishKind, PackedSection, PackedWork, Source, SpeculationMode};

use crate::result::Result;
use crate::text::{described, wrapped};

/// Fragments in the order of the stub; `enums` is made here.
const PARTS: [&str; 14] = [
    "module", "enums", "grammar", "plan", "packing", "output", "load", "engine", "options",
    "request", "cpu", "text", "replay", "router",
];

const SECTIONS: &str =
    "Sections of a packed step; rust/types/src/packed_section.rs says their shapes.";
const WORK: &str = "Lists of attention's work for one window, after those sections.";

/// The line of a fragment that stands for every option of an engine.
const OPTIONS: &str = "        (every option of an engine)\n";

/// `python/spectrie/_core.pyi`, from the fragments in `folder`.
pub(crate) fn stub(folder: &Path) -> Result<String> {
    let mut parts = Vec::new();
    for part in PARTS {
        if part == "enums" {
            parts.push(enums());
            continue;
        }
        let path = folder.join(part).with_extension("pyi");
        let fragment = std::fs::read_to_string(&path);
        let fragment = fragment.map_err(|error| format!("{}: {error}", path.display()))?;
        parts.push(fragment.replace(OPTIONS, &arguments()));
    }
    let note =
        "# Generated from rust/python/stubs and rust/types by `make generate`: do not edit.\n";
    Ok(format!("{note}{}", parts.join("\n")))
}

/// What an engine's configuration holds, as arguments of a docstring.
fn arguments() -> String {
    let mut text = String::new();
    for row in EngineConfig::rows() {
        let first = format!("        {}: ", row.field);
        let mut about = described(row);
        if row.is_required {
            about.push_str(" Required.");
        }
        text.push_str(&wrapped(&first, "            ", &about));
        text.push('\n');
    }
    text
}

fn enums() -> String {
    let mut text = String::from("# ---- enums (rust/types) ");
    text.push_str(&"-".repeat(100 - text.len()));
    text.push('\n');
    let kinds = FinishKind::ALL.map(|kind| (kind.name(), kind.number()));
    let sources = Source::ALL.map(|source| (source.name(), source.number()));
    let modes = SpeculationMode::ALL.map(|mode| (mode.name(), mode.number()));
    let sections = PackedSection::ALL.map(|section| (section.name(), section.number()));
    let lists = PackedWork::ALL.map(|list| (list.name(), list.number()));
    push_enum(&mut text, "FinishKind", "Why a choice ended.", &kinds);
    push_enum(&mut text, "Source", "Where a token came from.", &sources);
    push_enum(
        &mut text,
        "SpeculationMode",
        "How draft trees are grown.",
        &modes,
    );
    push_enum(&mut text, "PackedSection", SECTIONS, &sections);
    push_enum(&mut text, "PackedWork", WORK, &lists);
    text
}

fn push_enum(text: &mut String, name: &str, about: &str, members: &[(&str, u8)]) {
    let _ = writeln!(text, "\nclass {name}(IntEnum):\n    \"\"\"{about}\"\"\"\n");
    for (member, number) in members {
        let _ = writeln!(text, "    {} = {number}", member.to_uppercase());
    }
}
