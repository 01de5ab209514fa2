//! Values are probabilities: over real text, what is expected is what comes.

use std::fs;
use std::path::Path;

use spectrie_trie::{DraftConfig, DraftMemory, Drafter, MemoryConfig, TokenId};

/// This crate's own sources, each as words and single other characters, numbered by first sight.
fn documents() -> Vec<Vec<TokenId>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    let mut ids = std::collections::HashMap::new();
    let texts: Vec<_> = paths
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect();
    let mut documents = Vec::new();
    for text in &texts {
        let mut tokens = Vec::new();
        let mut rest = &text[..];
        while let Some(first) = rest.chars().next() {
            let word = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let length = word.max(first.len_utf8());
            let next = ids.len() as TokenId;
            tokens.push(*ids.entry(&rest[..length]).or_insert(next));
            rest = &rest[length..];
        }
        documents.push(tokens);
    }
    documents
}

#[derive(Default)]
struct Totals {
    steps: u32,
    drafted: usize,
    expected: f32,
    accepted: usize,
}

/// Replays every document, its first quarter as the prompt, then teaches it to the next ones.
fn replay(max_nodes: usize, min_value: f32) -> Totals {
    let mut totals = Totals::default();
    let Ok(memory) = DraftMemory::new(MemoryConfig::default()) else {
        return totals;
    };
    let shared = memory.namespace("sources");
    for document in documents() {
        let mut drafter = Drafter::new(DraftConfig::default(), Some(shared.clone()));
        let (prompt, mut rest) = document.split_at(document.len() / 4);
        drafter.push_prompt(prompt);
        while !rest.is_empty() {
            let tree = drafter.draft(max_nodes, min_value);
            let path = tree.walk(rest);
            totals.steps += 1;
            totals.drafted += tree.len();
            totals.expected += tree.expected_accepted();
            totals.accepted += path.len();
            let emitted = (path.len() + 1).min(rest.len());
            drafter.observe(&tree, &path, rest[emitted - 1]);
            drafter.push_output(&rest[..emitted]);
            rest = &rest[emitted..];
        }
        shared.insert(&document);
    }
    totals
}

#[test]
fn expected_acceptance_is_near_what_is_accepted() {
    for min_value in [0.0, 0.1, 0.3] {
        let totals = replay(16, min_value);
        assert!(totals.steps > 1000, "{} steps", totals.steps);
        let ratio = totals.expected / totals.accepted as f32;
        assert!(
            (0.6..1.5).contains(&ratio),
            "expected / accepted is {ratio} at {min_value}"
        );
    }
}

#[test]
fn a_price_saves_more_drafts_than_it_costs_acceptance() {
    let free = replay(16, 0.0);
    let priced = replay(16, 0.1);
    let kept = |part: usize, of: usize| part as f32 / of as f32;
    let per_step = |totals: &Totals| totals.accepted as f32 / totals.steps as f32;
    assert!(per_step(&free) > 0.5, "{}", per_step(&free));
    assert!(kept(priced.drafted, free.drafted) < 0.5);
    assert!(per_step(&priced) > 0.6 * per_step(&free));
}
