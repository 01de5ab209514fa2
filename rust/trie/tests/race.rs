//! The exact structures of the race count what a map counts.
#![allow(dead_code, reason = "what only the race calls")]

#[path = "../benches/race/automaton.rs"]
mod automaton;
#[path = "../benches/race/index.rs"]
mod index;
#[path = "../benches/race/suffix_trie.rs"]
mod suffix_trie;
#[path = "../benches/race/table.rs"]
mod table;

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use spectrie_trie::{SEPARATOR, TokenId};

use automaton::Automaton;
use index::{Counts, Index, LEVELS};
use suffix_trie::SuffixTrie;

/// Followers by level and token.
type Followers = BTreeMap<(usize, TokenId), f32>;

/// What followed the ends of `context` in `text`, up to a match of `longest`.
fn naive(text: &[TokenId], context: &[TokenId], longest: usize) -> Followers {
    let mut followers = Followers::new();
    for (index, level) in LEVELS.into_iter().enumerate() {
        if level > context.len().min(longest) {
            break;
        }
        let end = &context[context.len() - level..];
        for run in text.windows(level + 1) {
            let (before, next) = (&run[..level], run[level]);
            if before == end && next != SEPARATOR {
                *followers.entry((index, next)).or_default() += 1.0;
            }
        }
    }
    followers
}

fn counted<I: Index>(index: &I, places: &[I::Place]) -> Followers {
    let mut counts = Counts::default();
    counts.clear();
    index.count(places, 1.0, &mut counts);
    let mut followers = Followers::new();
    for (&token, levels) in counts.tokens.iter().zip(&counts.by_level) {
        for (level, &count) in levels.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            followers.insert((level, token), count);
        }
    }
    for (level, &total) in counts.totals.iter().enumerate() {
        let sum: f32 = counts.by_level.iter().map(|counts| counts[level]).sum();
        assert!(
            (total - sum).abs() < 1e-3,
            "level {level}: {total}, not {sum}"
        );
    }
    followers
}

/// Compares an index with the map after every token, from its own text and from another, and on
/// the way down a path.
fn equals_the_map<I: Index>(make: impl Fn() -> I, longest: usize) {
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let alphabet = random.random_range(1..5);
        let mut draw = || match random.random_range(0..25) {
            0 => SEPARATOR,
            _ => random.random_range(0..alphabet),
        };
        let (mut index, mut text) = (make(), Vec::new());
        let mut places = Vec::new();
        for _ in 0..120 {
            let token = draw();
            index.push(token);
            text.push(token);
            let document = text.rsplit(|&token| token == SEPARATOR).next();
            let mut context = document.unwrap_or_default().to_vec();
            index.own_places(&context, &mut places);
            for _ in 0..4 {
                let expected = naive(&text, &context, longest);
                assert_eq!(counted(&index, &places), expected, "{text:?} {context:?}");
                let next = draw();
                if next == SEPARATOR {
                    break;
                }
                context.push(next);
                places = (places.iter())
                    .filter_map(|&place| index.advance(place, next))
                    .chain(index.first(next))
                    .collect();
            }
        }
        let (mut context, mut places) = (Vec::new(), Vec::new());
        for _ in 0..60 {
            let fresh = draw();
            if fresh != SEPARATOR {
                context.push(fresh);
                index.follow(&context, 1, &mut places);
                let expected = naive(&text, &context, longest);
                assert_eq!(counted(&index, &places), expected, "{text:?} {context:?}");
            }
        }
    }
}

#[test]
fn the_trie_counts_every_run_up_to_its_depth() {
    equals_the_map(|| SuffixTrie::new(32, usize::MAX), 32);
    equals_the_map(|| SuffixTrie::new(4, usize::MAX), 4);
}

#[test]
fn the_automaton_counts_every_run() {
    equals_the_map(Automaton::new, usize::MAX);
}

#[test]
fn what_a_bounded_trie_does_not_list_is_in_its_totals() {
    let mut trie = SuffixTrie::new(8, 2);
    for token in [
        7, 1, SEPARATOR, 7, 2, SEPARATOR, 7, 3, SEPARATOR, 7, 3, SEPARATOR,
    ] {
        trie.push(token);
    }
    let (mut places, mut counts) = (Vec::new(), Counts::default());
    trie.follow(&[7], 1, &mut places);
    counts.clear();
    trie.count(&places, 1.0, &mut counts);
    assert_eq!(counts.tokens, [3, 2]);
    assert!((counts.totals[0] - 4.0).abs() < 1e-6);
}
