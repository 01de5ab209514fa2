//! Races the structures that draft memory could be: on the same text, with the same score and the
//! same trees, in one process.
//!
//! `cargo run --release -p spectrie-trie --example race -- TRACE.u32 [--corpus CORPUS.u32]
//! [--rounds 3] [--own 3] [--escape 1] [--most 32] [--only chains|trie|bounded|automaton] [--json]`
//!
//! Files hold little-endian token ids, 4294967295 between documents. The first quarter of each
//! document of the trace is the prompt. `bounded` is the trie that reads only the `--most` children
//! of a node that were entered last. The score is the blend alone, so figures are below those
//! of the server, whose mixer, hints and recycling stand on any of these structures.
#![allow(clippy::print_stdout, reason = "the figures are the output")]

mod automaton;
mod chain_log;
#[path = "../../src/chains.rs"]
mod chains;
mod draft;
mod index;
mod measure;
mod suffix_trie;
mod table;
#[cfg(test)]
mod truth;

use std::error::Error;
use std::path::Path;

use spectrie_trie::{MAX_MATCH, SEPARATOR, TokenId};

use automaton::Automaton;
use chain_log::ChainLog;
use draft::Tuning;
use measure::{Figures, Texts, measure};
use suffix_trie::SuffixTrie;

/// Longest match of the tries.
const LONGEST: u16 = 32;
type Race = fn(&Texts, Tuning) -> Figures;

const RACERS: [(&str, Race); 4] = [
    ("chains", |texts, tuning| {
        measure(texts, tuning, ChainLog::new)
    }),
    ("trie", |texts, tuning| {
        measure(texts, tuning, || SuffixTrie::new(LONGEST, usize::MAX))
    }),
    ("bounded", |texts, tuning| {
        measure(texts, tuning, || SuffixTrie::new(LONGEST, tuning.most))
    }),
    ("automaton", |texts, tuning| {
        measure(texts, tuning, Automaton::new)
    }),
];

fn read(path: &Path) -> Result<Vec<Vec<TokenId>>, Box<dyn Error>> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (words, _) = bytes.as_chunks();
    let tokens: Vec<_> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let documents = tokens.split(|&token| token == SEPARATOR);
    Ok(documents
        .filter(|document| !document.is_empty())
        .map(<[TokenId]>::to_vec)
        .collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut json, mut rounds, mut only) = (false, 3, None);
    let mut tuning = Tuning {
        own: 3.0,
        escape: 1.0,
        most: 32,
    };
    let mut texts = Texts::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--json" => json = true,
            "--rounds" => rounds = value()?.parse::<usize>()?,
            "--own" => tuning.own = value()?.parse()?,
            "--escape" => tuning.escape = value()?.parse()?,
            "--most" => tuning.most = value()?.parse()?,
            "--only" => only = Some(value()?),
            "--corpus" => texts.corpus = read(Path::new(&value()?))?,
            flag if flag.starts_with("--") => return Err(format!("unknown argument {flag}").into()),
            path => texts.trace.extend(read(Path::new(path))?),
        }
    }
    if texts.trace.is_empty() {
        return Err("no trace: name a file of token ids".into());
    }
    if !json {
        println!("round structure {}", Figures::HEADINGS);
    }
    for round in 1..=rounds {
        for (name, race) in RACERS {
            if only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            eprintln!("round {round} of {rounds}: {name}");
            let figures = race(&texts, tuning);
            if json {
                let figures = figures.json();
                println!("{{\"round\": {round}, \"structure\": \"{name}\", {figures}}}");
            } else {
                println!("{round:5} {name:9} {figures}");
            }
        }
    }
    Ok(())
}
