//! Drafts without a drafter of the runner's are those that were recorded before there was one.

use spectrie_trie::{DraftConfig, DraftMemory, Drafter, MemoryConfig};
use spectrie_types::seed::splitmix;

/// Text that repeats itself with changes, the same on every machine.
fn text(seed: u64, length: usize) -> Vec<u32> {
    let mut tokens: Vec<u32> = Vec::with_capacity(length);
    for index in 0..length {
        let chance = splitmix(seed << 32 | index as u64) >> 16;
        let token = match tokens.len().checked_sub(17) {
            Some(before) if !chance.is_multiple_of(9) => tokens[before],
            _ => (chance >> 8) as u32 % 60 + 1,
        };
        tokens.push(token);
    }
    tokens
}

#[test]
fn drafts_without_answers_of_a_head_are_those_that_were_recorded() {
    let memory = DraftMemory::new(MemoryConfig::default()).unwrap();
    let shared = memory.namespace("a");
    shared.insert(&text(7, 400));
    let (mut num_nodes, mut num_accepted, mut promised) = (0, 0, 0.0);
    let mut spelled = 0_u64;
    for seed in 1..9 {
        let tokens = text(seed, 260);
        let mut drafter = Drafter::new(DraftConfig::default(), Some(shared.clone()));
        drafter.push_prompt(&tokens[..90]);
        for index in 90..tokens.len() - 8 {
            let tree = drafter.draft(16, 0.01);
            num_nodes += tree.len();
            promised += f64::from(tree.expected_accepted());
            for node in &tree.nodes {
                spelled = splitmix(spelled ^ u64::from(node.token) << 8 ^ u64::from(node.depth));
            }
            let path = tree.walk(&tokens[index..]);
            num_accepted += path.len();
            drafter.observe(&tree, &path);
            let (last, next) = (tokens[index - 1], tokens[index]);
            drafter.recycle(None, last, &[(next, 0.5), (next % 60 + 1, 0.25)]);
            drafter.push_output(&tokens[index..=index]);
        }
    }
    let promised = (promised * 100.0).round() / 100.0;
    assert_eq!(
        (num_nodes, num_accepted, spelled),
        (20_475, 7_297, 1_419_447_458_264_076_646)
    );
    assert!((promised - 8852.18).abs() < 1e-6, "{promised}");
}
