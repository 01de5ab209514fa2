//! Modes `eagle2` and `chain` draft what a drafter of the runner's answers, and nothing else.

use spectrie_trie::{DraftConfig, DraftMode, DraftTree, Drafter};
use spectrie_types::Source;
use spectrie_types::seed::splitmix;
use spectrie_types::sizes::TOP_K;

const PROMPT: [u32; 9] = [3, 1, 4, 1, 5, 3, 1, 4, 1];

fn drafter(mode: DraftMode, head_steps: usize, head_top_k: usize) -> Drafter {
    let config = DraftConfig {
        mode,
        head_steps,
        head_top_k,
        ..DraftConfig::default()
    };
    let mut drafter = Drafter::new(config, None);
    // Text that others would draft from.
    drafter.push_prompt(&PROMPT);
    drafter
}

/// What the head says after a path: eight tokens that depend on all of it, descending.
fn answer(seed: u64, path: &[u32]) -> Vec<(u32, f32)> {
    let key = path
        .iter()
        .fold(seed, |key, &token| splitmix(key ^ u64::from(token)));
    let weights: Vec<f32> = (0..TOP_K as u64)
        .map(|rank| (splitmix(key ^ rank) % 1000 + 1) as f32)
        .collect();
    let sum: f32 = weights.iter().sum();
    let mut likeliest: Vec<(u32, f32)> = (0..TOP_K as u32)
        .zip(weights)
        .map(|(rank, weight)| (100 + 10 * (key % 50) as u32 + rank, weight / sum))
        .collect();
    likeliest.sort_by(|a, b| b.1.total_cmp(&a.1));
    likeliest
}

/// Drafts as the engine does, level by level until no node is open; the tree, and the rows of each level.
fn drafted(drafter: &mut Drafter, seed: u64, nodes: usize) -> (DraftTree, Vec<usize>) {
    drafter.forget_answers();
    let mut tree = drafter.draft(nodes, 0.0);
    assert!(tree.nodes.is_empty(), "nothing was answered");
    let mut rows = Vec::new();
    let mut paths: Vec<Vec<u32>> = Vec::new();
    loop {
        let inquiries = drafter.frontier(rows.len() as u16 + 1, 0.1);
        if inquiries.is_empty() {
            return (tree, rows);
        }
        rows.push(inquiries.len());
        for inquiry in inquiries {
            assert_eq!(inquiry.named, []);
            let path = inquiry.parent.map(|parent| {
                let mut path = paths[parent as usize].clone();
                path.push(inquiry.token);
                path
            });
            let path = path.unwrap_or_default();
            let likeliest = answer(seed, &path);
            let number = drafter.answer(&inquiry, &likeliest, Vec::new(), Source::Head);
            assert_eq!(number as usize, paths.len());
            paths.push(path);
        }
        tree = drafter.draft(nodes, 0.0);
    }
}

/// Paths of a tree with their values, the largest first.
fn paths(tree: &DraftTree) -> Vec<(Vec<u32>, f32)> {
    let nodes = tree.nodes.iter().enumerate();
    let mut paths: Vec<_> = nodes
        .map(|(index, node)| (tree.path_tokens(index as u32), node.value))
        .collect();
    paths.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    paths
}

/// The same as it was published: the `top_k` best nodes of each level are expanded by as many tokens, and of all
/// candidates the best are kept.
fn published(seed: u64, steps: usize, top_k: usize, nodes: usize) -> Vec<(Vec<u32>, f32)> {
    let mut all: Vec<(Vec<u32>, f32)> = Vec::new();
    let mut beams: Vec<(Vec<u32>, f32)> = vec![(Vec::new(), 1.0)];
    for _ in 0..steps {
        let mut made: Vec<(Vec<u32>, f32)> = Vec::new();
        for (path, value) in &beams {
            for (token, probability) in answer(seed, path).into_iter().take(top_k) {
                made.push(([&path[..], &[token]].concat(), value * probability));
            }
        }
        made.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.extend_from_slice(&made);
        made.truncate(top_k);
        beams = made;
    }
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.truncate(nodes);
    all
}

#[test]
fn eagle2_drafts_the_tree_that_was_published() {
    for seed in 0..40 {
        for (steps, top_k, nodes) in [(5, 8, 16), (3, 4, 60), (6, 2, 8), (1, 8, 5), (4, 8, 1)] {
            let mut drafter = drafter(DraftMode::Eagle2, steps, top_k);
            let (tree, rows) = drafted(&mut drafter, seed, nodes);
            assert_eq!(paths(&tree), published(seed, steps, top_k, nodes), "{seed}");
            assert!(rows.len() <= steps && rows.iter().all(|&rows| rows <= top_k));
            assert_eq!(rows[0], 1);
            assert!(tree.nodes.iter().all(|node| node.source == Source::Head));
        }
    }
}

#[test]
fn nodes_that_cannot_be_drafted_are_not_asked_about() {
    // Of four nodes, no level has more.
    for seed in 0..20 {
        let (_, rows) = drafted(&mut drafter(DraftMode::Eagle2, 5, 8), seed, 4);
        assert!(rows.iter().all(|&rows| rows <= 4), "{rows:?}");
    }
    // With room for all of them, each level has as many as it may.
    let (_, rows) = drafted(&mut drafter(DraftMode::Eagle2, 6, 2), 3, 60);
    assert_eq!(rows, [1, 2, 2, 2, 2, 2]);
}

#[test]
fn a_chain_follows_the_likeliest_token_for_as_many_steps() {
    for (steps, nodes, expected) in [(5, 16, 5), (1, 16, 1), (5, 3, 3)] {
        let mut drafter = drafter(DraftMode::Chain, steps, 8);
        let (tree, rows) = drafted(&mut drafter, 7, nodes);
        let mut path = Vec::new();
        for _ in 0..expected {
            path.push(answer(7, &path)[0].0);
        }
        assert_eq!(tree.path_tokens(expected as u32 - 1), path);
        assert_eq!(tree.nodes.len(), expected);
        assert!(rows.iter().all(|&rows| rows == 1) && rows.len() <= steps);
    }
}

#[test]
fn nothing_is_drafted_without_answers_nor_from_those_of_an_earlier_step() {
    for mode in [DraftMode::Eagle2, DraftMode::Chain] {
        let mut drafter = drafter(mode, 3, 4);
        let (tree, _) = drafted(&mut drafter, 1, 8);
        assert!(!tree.nodes.is_empty());
        drafter.push_output(&tree.path_tokens(0));
        drafter.forget_answers();
        assert_eq!(drafter.draft(8, 0.0), DraftTree::default());
        // Where it answers nothing, no level follows.
        let root = drafter.frontier(1, 0.0).remove(0);
        drafter.answer(&root, &[], Vec::new(), Source::Head);
        assert_eq!(drafter.draft(8, 0.0), DraftTree::default());
        assert_eq!(drafter.frontier(2, 0.0), []);
    }
}
