//! A request drafts from its own text, its prediction and its namespace.

use std::collections::BTreeMap;

use crate::drafts::matches_only;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spectrie_trie::{
    DraftConfig, DraftMemory, DraftMode, DraftTree, Drafter, MemoryConfig, SEPARATOR, TokenId,
    Weights,
};
use spectrie_types::Source;

fn drafter(mode: DraftMode) -> Drafter {
    Drafter::new(
        DraftConfig {
            mode,
            ..matches_only()
        },
        None,
    )
}

fn numbers(range: std::ops::Range<TokenId>) -> Vec<TokenId> {
    range.collect()
}

/// The tree's promises, whatever was drafted.
fn assert_well_formed(tree: &DraftTree, max_nodes: usize, max_depth: usize) {
    assert!(tree.len() <= max_nodes);
    for (index, node) in tree.nodes.iter().enumerate() {
        let (depth, value) = node.parent.map_or((0, 1.0), |parent| {
            assert!((parent as usize) < index, "parents come first");
            let parent = &tree.nodes[parent as usize];
            (parent.depth, parent.value)
        });
        assert_eq!(node.depth, depth + 1);
        assert!(usize::from(node.depth) <= max_depth);
        assert!(
            node.value > 0.0 && node.value <= value,
            "{} after {value}",
            node.value
        );
        let siblings = tree
            .nodes
            .iter()
            .filter(|other| other.parent == node.parent);
        let sum: f32 = siblings.map(|sibling| sibling.value).sum();
        assert!(sum <= value + 1e-4, "siblings share their parent's value");
        let before = tree.nodes[..index]
            .iter()
            .rev()
            .find(|other| other.parent == node.parent);
        assert!(
            before.is_none_or(|sibling| sibling.value >= node.value),
            "likeliest child first"
        );
        let twins = tree
            .nodes
            .iter()
            .filter(|o| o.parent == node.parent && o.token == node.token);
        assert_eq!(twins.count(), 1, "no duplicate siblings");
        let node_parent = node.parent;
        // Depth-first: a node follows its parent, or the subtree of its earlier sibling.
        if let Some(previous) = index.checked_sub(1) {
            let mut above = Some(previous as u32);
            while let Some(node) = above
                && above != node_parent
            {
                above = tree.nodes[node as usize].parent;
            }
            assert_eq!(above, node_parent, "depth first");
        }
    }
}

/// The paths of a tree, with the value of each.
fn paths(tree: &DraftTree) -> BTreeMap<Vec<TokenId>, u32> {
    (0..tree.len() as u32)
        .map(|index| {
            let value = tree.nodes[index as usize].value;
            (tree.path_tokens(index), value.to_bits())
        })
        .collect()
}

#[test]
fn fewer_nodes_are_the_likeliest_of_more() {
    // Few tokens, so that many follow each and a small tree cannot hold them all.
    let mut random = StdRng::seed_from_u64(3);
    let text: Vec<TokenId> = (0..4_000).map(|_| random.random_range(1..40)).collect();
    let mut drafter = Drafter::new(DraftConfig::default(), None);
    let mut num_cut = 0;
    for part in text.chunks(40) {
        drafter.push_prompt(part);
        let all = paths(&drafter.draft(400, 0.0));
        for max_nodes in [1, 4, 16, 40] {
            let few = paths(&drafter.draft(max_nodes, 0.0));
            assert_eq!(few.len(), max_nodes.min(all.len()));
            assert!(few.iter().all(|(path, value)| all.get(path) == Some(value)));
            num_cut += usize::from(few.len() < all.len());
        }
    }
    assert!(num_cut > 100, "{num_cut}");
}

#[test]
fn every_mode_copies_from_the_prompt() {
    for mode in [DraftMode::Auto, DraftMode::Bfs, DraftMode::Prob] {
        let mut drafter = drafter(mode);
        drafter.push_prompt(&numbers(100..150));
        drafter.push_output(&numbers(110..118));
        let tree = drafter.draft(16, 0.0);
        assert_well_formed(&tree, 16, 18);
        assert_eq!(tree.walk(&numbers(118..134)).len(), 16, "{mode:?}");
        assert!(tree.nodes.iter().all(|node| node.source == Source::Request));
    }
}

#[test]
fn nothing_is_drafted_without_text_or_without_a_match() {
    for mode in [DraftMode::Auto, DraftMode::Bfs, DraftMode::Prob] {
        let mut drafter = drafter(mode);
        assert!(drafter.draft(16, 0.0).is_empty());
        drafter.push_prompt(&numbers(0..50));
        assert!(drafter.draft(16, 0.0).is_empty());
        drafter.push_prompt(&[SEPARATOR]);
        assert!(drafter.draft(16, 0.0).is_empty());
    }
}

#[test]
fn a_budget_of_zero_gives_an_empty_tree() {
    for mode in [DraftMode::Auto, DraftMode::Bfs, DraftMode::Prob] {
        let mut drafter = drafter(mode);
        drafter.push_prompt(&[1, 2, 3, 1, 2]);
        assert!(drafter.draft(0, 0.0).is_empty());
        assert!(!drafter.draft(1, 0.0).is_empty());
    }
}

#[test]
fn the_price_cuts_unlikely_paths() {
    let mut drafter = drafter(DraftMode::Auto);
    let sentence = numbers(0..30);
    drafter.push_prompt(&[&sentence[..], &[77, 78], &sentence[..12]].concat());
    let all = drafter.draft(60, 0.0);
    let price = all.nodes[all.len() / 2].value;
    let some = drafter.draft(60, price);
    assert!(!some.is_empty() && some.len() < all.len());
    assert!(some.nodes.iter().all(|node| node.value >= price));
    assert!(drafter.draft(60, 1.0).is_empty());
}

#[test]
fn depth_is_bounded() {
    for mode in [DraftMode::Auto, DraftMode::Bfs, DraftMode::Prob] {
        let config = DraftConfig {
            mode,
            max_depth: 5,
            ..matches_only()
        };
        let mut drafter = Drafter::new(config, None);
        drafter.push_prompt(&numbers(0..50));
        drafter.push_output(&numbers(0..20));
        let tree = drafter.draft(16, 0.0);
        assert_well_formed(&tree, 16, 5);
        assert_eq!(tree.len(), 5);
    }
}

#[test]
fn a_prediction_is_drafted_from_the_first_token_and_counted() {
    let mut drafter = drafter(DraftMode::Auto);
    drafter.push_prompt(&[1, 2, 3]);
    drafter.set_prediction(&numbers(100..140));
    let tree = drafter.draft(8, 0.0);
    assert_eq!(
        tree.nodes.iter().map(|n| n.token).collect::<Vec<_>>(),
        numbers(100..108)
    );
    assert!(
        tree.nodes
            .iter()
            .all(|node| node.source == Source::Prediction)
    );
    drafter.push_output(&numbers(100..110));
    assert_eq!(drafter.accepted_prediction_tokens(), 10);
    let tree = drafter.draft(8, 0.5);
    assert_eq!(tree.walk(&numbers(110..118)).len(), 8);
    // An edit: the caller's text goes on after the changed token.
    drafter.push_output(&[999, 111, 112]);
    assert_eq!(drafter.accepted_prediction_tokens(), 12);
    assert_eq!(drafter.draft(8, 0.1).nodes[0].token, 113);
}

#[test]
fn a_wandering_output_backs_off_and_a_following_one_returns() {
    let prediction = numbers(100..400);
    let mut drafter = drafter(DraftMode::Auto);
    drafter.set_prediction(&prediction);
    drafter.push_output(&prediction[..20]);
    let sure = drafter.draft(16, 0.2).expected_accepted();
    for step in 0..3 {
        drafter.draft(16, 0.2);
        drafter.push_output(&[9000 + step]);
    }
    let lost = drafter.draft(16, 0.2).expected_accepted();
    assert!(lost < 0.3 * sure, "{lost} after {sure}");
    drafter.push_output(&prediction[200..220]);
    let again = drafter.draft(16, 0.2).expected_accepted();
    assert!(again > 0.5 * sure, "{again} after {sure}");
}

#[test]
fn shared_text_is_drafted_and_own_text_is_credited_first() {
    let memory = DraftMemory::new(MemoryConfig::default()).unwrap();
    let shared = memory.namespace("default");
    shared.insert(&numbers(0..40));
    let mut drafter = Drafter::new(matches_only(), Some(shared));
    drafter.push_prompt(&[500, 5, 6, 7, 8]);
    let tree = drafter.draft(4, 0.0);
    assert_eq!(tree.walk(&[9, 10, 11, 12]).len(), 4);
    assert!(tree.nodes.iter().all(|node| node.source == Source::Shared));
    drafter.push_output(&[9, 10, 600, 5, 6, 7, 8]);
    let tree = drafter.draft(4, 0.0);
    assert_eq!(tree.nodes[0].token, 9);
    assert_eq!(tree.nodes[0].source, Source::Request);
}

#[test]
fn text_taught_later_is_found_by_a_running_request() {
    for mode in [DraftMode::Auto, DraftMode::Bfs, DraftMode::Prob] {
        let memory = DraftMemory::new(MemoryConfig::default()).unwrap();
        let shared = memory.namespace("default");
        let config = DraftConfig {
            mode,
            ..matches_only()
        };
        let mut drafter = Drafter::new(config, Some(memory.namespace("default")));
        drafter.push_prompt(&[1, 2, 3, 4]);
        assert!(drafter.draft(8, 0.0).is_empty());
        shared.insert(&[9, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(drafter.draft(8, 0.0).walk(&[5, 6, 7]).len(), 3, "{mode:?}");
        shared.insert(&[8, 3, 4, 77]);
        assert_eq!(drafter.draft(8, 0.0).walk(&[77]).len(), 1, "{mode:?}");
    }
}

#[test]
fn prompt_pieces_draft_as_the_whole_prompt() {
    let text: Vec<TokenId> = (0..600).map(|i| (i * i) % 37).collect();
    let mut whole = drafter(DraftMode::Auto);
    whole.push_prompt(&text);
    let mut pieces = drafter(DraftMode::Auto);
    for piece in text.chunks(7) {
        pieces.push_prompt(piece);
    }
    let tree = whole.draft(16, 0.0);
    assert!(!tree.is_empty());
    assert_eq!(tree, pieces.draft(16, 0.0));
}

#[test]
fn random_text_gives_well_formed_trees_in_every_mode() {
    for mode in [DraftMode::Auto, DraftMode::Bfs, DraftMode::Prob] {
        let memory = DraftMemory::new(MemoryConfig::default()).unwrap();
        let shared = memory.namespace("default");
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) % 6
        };
        let mut drafter = Drafter::new(
            DraftConfig {
                mode,
                ..matches_only()
            },
            Some(shared.clone()),
        );
        let predicted: Vec<_> = (0..400).map(|_| next()).collect();
        drafter.set_prediction(&predicted);
        for step in 0..300 {
            let document: Vec<_> = (0..20).map(|_| next()).collect();
            shared.insert(&document);
            let tree = drafter.draft(step % 64, 0.0);
            assert_well_formed(&tree, step % 64, 18);
            let emitted = match step % 7 {
                0 => [next(), next()],
                _ => [predicted[step], predicted[step + 1]],
            };
            let accepted = tree.walk(&emitted);
            drafter.observe(&tree, &accepted);
            drafter.push_output(&emitted);
        }
    }
}

#[test]
fn observations_of_foreign_trees_are_ignored() {
    let memory = DraftMemory::new(MemoryConfig::default()).unwrap();
    let mut drafter = Drafter::new(matches_only(), Some(memory.namespace("default")));
    drafter.push_prompt(&[1, 2, 1]);
    let tree = drafter.draft(4, 0.0);
    drafter.observe(&DraftTree::default(), &[0, 7]);
    drafter.observe(&tree, &[0, 99]);
    assert_eq!(drafter.draft(4, 0.0), tree);
}

#[test]
fn a_request_that_leaves_known_text_backs_off_within_three_steps_and_comes_back() {
    let mut drafter = drafter(DraftMode::Auto);
    let line = numbers(100..120);
    let mut prompt = Vec::new();
    for number in 0..6 {
        prompt.extend_from_slice(&line);
        prompt.push(200 + number);
    }
    prompt.extend_from_slice(&line[..10]);
    drafter.push_prompt(&prompt);
    let mut next = 10;
    let expected = |drafter: &mut Drafter| drafter.draft(16, 0.0).expected_accepted();
    let mut follow = |drafter: &mut Drafter, is_known: bool| {
        let token = if is_known {
            line[next % 20]
        } else {
            line[(next + 7) % 20]
        };
        drafter.draft(16, 0.0);
        drafter.push_output(&[token]);
        next = if is_known { next + 1 } else { next + 8 };
    };
    for _ in 0..8 {
        follow(&mut drafter, true);
    }
    let sure = expected(&mut drafter);
    for _ in 0..3 {
        follow(&mut drafter, false);
    }
    let unsure = expected(&mut drafter);
    assert!(unsure < 0.5 * sure, "{sure} then {unsure}");
    for _ in 0..8 {
        follow(&mut drafter, true);
    }
    let again = expected(&mut drafter);
    assert!(again > 2.0 * unsure, "{unsure} then {again}");
}

#[test]
fn training_that_waits_teaches_the_same() {
    let text = numbers(0..40);
    let start = |later: bool| {
        let mut drafter = drafter(DraftMode::Auto).trains_later(later);
        drafter.push_prompt(&text);
        drafter.push_output(&text[..4]);
        drafter.draft(8, 0.0);
        drafter.push_output(&[4, 5, 6]);
        drafter
    };
    let untouched = Weights::default();
    let (mut now, mut later) = (start(false), start(true));
    assert!(now.weights() != &untouched);
    assert!(later.weights() == &untouched);
    later.train();
    assert!(later.weights() == now.weights());
    // A draft in between leaves what is to be learned alone.
    let mut late = start(true);
    late.draft(8, 0.0);
    late.train();
    assert!(late.weights() == now.weights());
    // What there was no time for is learned in the end.
    let mut never = start(true);
    for drafter in [&mut now, &mut never] {
        drafter.draft(0, 1.0);
        drafter.push_output(&[7, 99]);
        drafter.draft(0, 1.0);
    }
    never.train();
    assert!(now.weights() != late.weights());
    assert!(never.weights() == now.weights());
}

#[test]
fn a_request_that_does_not_contribute_leaves_no_credit() {
    let memory = DraftMemory::new(MemoryConfig::default()).unwrap();
    let shared = memory.namespace("a");
    let text: Vec<TokenId> = (0..60).collect();
    shared.insert(&text);
    for (contributes, accepted) in [(false, 0), (true, 4)] {
        let drafter = Drafter::new(DraftConfig::default(), Some(shared.clone()));
        let mut drafter = drafter.contributes(contributes);
        drafter.push_prompt(&text[..20]);
        let tree = drafter.draft(16, 0.0);
        let path = tree.walk(&text[20..24]);
        assert_eq!(path.len(), 4);
        drafter.observe(&tree, &path);
        assert_eq!(memory.namespaces()[0].accepted_tokens, accepted);
    }
}
