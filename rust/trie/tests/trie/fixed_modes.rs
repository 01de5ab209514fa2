//! The fixed modes draw the trees their rules say.

use spectrie_trie::{DraftConfig, DraftMode, DraftTree, Drafter, TokenId};

fn config(mode: DraftMode) -> DraftConfig {
    DraftConfig {
        mode,
        ..DraftConfig::default()
    }
}

fn draft(config: DraftConfig, text: &[TokenId], max_nodes: usize) -> DraftTree {
    let mut drafter = Drafter::new(config, None);
    drafter.push_prompt(text);
    drafter.draft(max_nodes, 0.0)
}

/// Every path from the root to a leaf, sorted.
fn leaves(tree: &DraftTree) -> Vec<Vec<TokenId>> {
    let mut leaves: Vec<_> = (0..tree.len() as u32)
        .filter(|&index| tree.nodes.iter().all(|node| node.parent != Some(index)))
        .map(|index| tree.path_tokens(index))
        .collect();
    leaves.sort();
    leaves
}

/// After `1 2`: `3` twice, long ago, and `4` once, just now. After `2` alone: also `5`.
const TEXT: [TokenId; 20] = [
    1, 2, 3, 6, 90, 1, 2, 3, 7, 91, 8, 2, 5, 92, 1, 2, 4, 93, 1, 2,
];

#[test]
fn bfs_takes_the_newest_continuation_of_the_longest_match_first() {
    let breadth_one = DraftConfig {
        max_breadth: 1,
        ..config(DraftMode::Bfs)
    };
    // One path per match length; the length-2 and the length-1 match agree on the newest.
    assert_eq!(leaves(&draft(breadth_one, &TEXT, 4)), [[4, 93, 1, 2]]);
    assert_eq!(draft(config(DraftMode::Bfs), &TEXT, 1).nodes[0].token, 4);
}

#[test]
fn prob_takes_the_commonest_continuation_first() {
    assert_eq!(draft(config(DraftMode::Prob), &TEXT, 1).nodes[0].token, 3);
    // `3` has two thirds, `4` one third; of the two followers of `3` the newer leads.
    assert_eq!(
        leaves(&draft(config(DraftMode::Prob), &TEXT, 3)),
        [vec![3, 7], vec![4]]
    );
}

#[test]
fn both_take_continuations_of_shorter_matches_when_there_is_room() {
    for mode in [DraftMode::Bfs, DraftMode::Prob] {
        let tree = draft(config(mode), &TEXT, 63);
        let first: Vec<_> = tree
            .nodes
            .iter()
            .filter(|n| n.depth == 1)
            .map(|n| n.token)
            .collect();
        assert_eq!(first.len(), 3, "{mode:?}: {first:?}");
        assert!(first.contains(&5), "only `2` alone is followed by 5");
    }
}

#[test]
fn the_window_excludes_shorter_and_longer_matches() {
    for mode in [DraftMode::Bfs, DraftMode::Prob] {
        let long_only = DraftConfig {
            min_match: 2,
            ..config(mode)
        };
        let tree = draft(long_only, &TEXT, 63);
        assert!(tree.child(None, 3).is_some() && tree.child(None, 5).is_none());
        let none = DraftConfig {
            min_match: 4,
            ..config(mode)
        };
        assert!(draft(none, &TEXT, 63).is_empty());
        // With a window of one token every follower of `2` is equal: 3 leads by count, and the
        // newest by recency.
        let short = DraftConfig {
            max_match: 1,
            ..config(mode)
        };
        let first = if mode == DraftMode::Prob { 3 } else { 4 };
        assert_eq!(draft(short, &TEXT, 1).nodes[0].token, first);
    }
}

#[test]
fn breadth_bounds_the_children_of_a_node() {
    // Twenty different followers of the same token.
    let text: Vec<_> = (0..20).flat_map(|i| [7, 100 + i]).chain([7]).collect();
    for mode in [DraftMode::Bfs, DraftMode::Prob] {
        for max_breadth in [1, 4, 10] {
            let config = DraftConfig {
                max_breadth,
                max_depth: 1,
                ..config(mode)
            };
            // One token of context is the shortest match: nearly the whole breadth in `bfs`.
            let expected = match mode {
                DraftMode::Bfs => (1 + (max_breadth - 1) * 15 / 16).max(1),
                _ => max_breadth,
            };
            assert_eq!(draft(config, &text, 63).len(), expected, "{mode:?}");
        }
    }
    // Newest first: the last followers seen.
    let config = DraftConfig {
        max_breadth: 4,
        max_depth: 1,
        ..config(DraftMode::Bfs)
    };
    assert_eq!(leaves(&draft(config, &text, 63)), [[117], [118], [119]]);
}

#[test]
fn bfs_is_narrow_for_a_long_match_and_broad_for_a_short_one() {
    // `1..=16` is followed by ten different tokens; so is `16` after the match is cut.
    let run: Vec<TokenId> = (1..=16).collect();
    let text: Vec<_> = (0..10)
        .flat_map(|i| run.iter().copied().chain([100 + i]))
        .chain(run.clone())
        .collect();
    let one_level = DraftConfig {
        max_depth: 1,
        ..config(DraftMode::Bfs)
    };
    let long = DraftConfig {
        min_match: 16,
        ..one_level
    };
    assert_eq!(draft(long, &text, 63).len(), 1);
    let middle = DraftConfig {
        min_match: 8,
        max_match: 16,
        ..one_level
    };
    // Breadth 1 + 9 * (16 - 8) / 16, rounded down.
    assert_eq!(draft(middle, &text, 63).len(), 5);
    let short = DraftConfig {
        min_match: 1,
        max_match: 16,
        ..one_level
    };
    assert_eq!(draft(short, &text, 63).len(), 9);
}

#[test]
fn a_window_longer_than_the_text_is_no_problem() {
    for mode in [DraftMode::Bfs, DraftMode::Prob] {
        let wide = DraftConfig {
            max_match: 24,
            max_depth: 63,
            ..config(mode)
        };
        assert_eq!(leaves(&draft(wide, &[1, 2, 1], 63)), [[2, 1]]);
        assert!(draft(wide, &[1], 63).is_empty());
    }
}
