//! One index over blocks that come and go, against a list of what they hold.

use std::sync::Arc;

use proptest::prelude::*;

use crate::store::block::Block;
use crate::store::chains::{Chains, LIMITS, ORDERS, collect, suffix_hashes};
use crate::store::extent::Extent;
use crate::store::grant::Grant;
use crate::store::heads::Table;
use crate::store::resize::Moving;
use crate::store::view::View;
use crate::{SEPARATOR, TokenId};

/// Adds an empty block, and levels for it.
fn add_block(view: &mut View, capacity: usize) -> u64 {
    let id = view.next_id();
    let grant = Grant::unbounded(Block::bytes_for(capacity));
    view.push(Arc::new(Block::new(id, capacity, grant)));
    add_levels(view);
    id
}

fn add_levels(view: &mut View) {
    for order in 0..ORDERS.len() {
        while let Some(buckets) = view.heads()[order].missing_level(order, view.capacity()) {
            let grant = Grant::unbounded(Table::level_bytes(buckets));
            view.add_level(order, buckets, grant);
        }
    }
}

fn insert(view: &View, id: u64, text: &[TokenId]) -> Extent {
    let block = view.block(id).unwrap();
    let mut extent = block.reserve(text.len());
    view.write(id, &mut extent, text, 0);
    extent
}

/// What follows `context` and how much of it matched, in the order found.
fn followers(view: &View, context: &[TokenId]) -> Vec<(TokenId, u16)> {
    let mut found = Vec::new();
    let mut limits = [1 << 20; ORDERS.len()];
    collect(view, 0, context, &mut limits, &mut found);
    found.iter().map(|o| (o.next, o.matched)).collect()
}

/// The same by looking at every cell, in no order.
fn naive(view: &View, context: &[TokenId]) -> Vec<(TokenId, u16)> {
    let mut found = Vec::new();
    for block in view.blocks() {
        for cell in 0..block.end() {
            let next = block.token(cell);
            let before = block.tokens_before(cell).zip(context.iter().rev());
            let matched = before
                .take_while(|(a, b)| a == *b && *a != SEPARATOR)
                .count();
            if matched > 0 && next != SEPARATOR && !block.is_context(cell) {
                found.push((next, matched as u16));
            }
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn repeated_context_is_not_indexed_twice() {
    let mut view = View::default();
    let id = add_block(&mut view, 64);
    let block = view.block(id).unwrap();
    let mut extent = block.reserve(5);
    // The first three tokens were indexed where they were first inserted.
    block.write_context(&mut extent, &[1, 2, 3]);
    view.write(id, &mut extent, &[1, 2, 3, 4, 5], 3);
    assert_eq!(followers(&view, &[1, 2]), []);
    assert_eq!(followers(&view, &[1, 2, 3]), [(4, 3)]);
    assert_eq!(followers(&view, &[3, 4]), [(5, 2)]);
    assert_eq!(block.num_tokens(), 2);
}

#[test]
fn text_ends_where_an_extent_is_not_filled_yet() {
    let mut view = View::default();
    let id = add_block(&mut view, 64);
    let block = view.block(id).unwrap();
    let mut first = block.reserve(8);
    let mut second = block.reserve(8);
    view.write(id, &mut second, &[5, 6, 7], 0);
    view.write(id, &mut first, &[5, 6], 0);
    assert_eq!(followers(&view, &[5]), [(6, 1), (6, 1)]);
    assert_eq!(followers(&view, &[5, 6]), [(7, 2)]);
    view.write(id, &mut first, &[5, 6, 8], 2);
    assert_eq!(followers(&view, &[5, 6]), [(8, 2), (7, 2)]);
}

#[test]
fn text_of_one_block_does_not_run_into_the_next() {
    let mut view = View::default();
    let first = add_block(&mut view, 8);
    insert(&view, first, &[1, 2, 3, 4, 5, 6, 7]);
    let second = add_block(&mut view, 8);
    insert(&view, second, &[8, 9]);
    assert_eq!(followers(&view, &[6]), [(7, 1)]);
    assert_eq!(followers(&view, &[7]), []);
    assert_eq!(followers(&view, &[7, 8]), [(9, 1)]);
    assert_eq!(view.token(8), SEPARATOR, "past a small block");
}

#[test]
fn a_slot_that_is_used_again_leads_nowhere_else() {
    let (mut view, mut moving) = (View::default(), Moving::default());
    for round in 0..9000 {
        let id = add_block(&mut view, 8);
        // One context in every block, one in each hundredth.
        insert(&view, id, &[1, 2, round]);
        insert(&view, id, &[if round % 100 == 0 { 3 } else { 4 }, round]);
        if view.blocks().len() > 5 {
            view.drop_oldest();
        }
        view.settle(8, &mut moving);
        for order in 0..ORDERS.len() {
            view.sweep(order, 0, view.heads()[order].size());
        }
        for context in [&[1][..], &[1, 2], &[3], &[4]] {
            let mut found = followers(&view, context);
            found.sort_unstable();
            assert_eq!(found, naive(&view, context), "{context:?} in round {round}");
        }
    }
}

#[test]
fn the_tail_of_a_long_chain_outlives_splits() {
    let (mut view, mut moving) = (View::default(), Moving::default());
    let id = add_block(&mut view, 8192);
    for number in 0..2500 {
        insert(&view, id, &[1, number % 50 + 10]);
    }
    for _ in 0..4 {
        view.settle(1000, &mut moving);
        assert_eq!(followers(&view, &[1]).len(), 2500);
    }
    assert_eq!(view.heads()[0].size(), 2048);
    // Without that text, and merged again.
    let next = add_block(&mut view, 8);
    insert(&view, next, &[1, 7]);
    insert(&view, next, &[5, 6]);
    view.drop_oldest();
    view.settle(4000, &mut moving);
    view.drop_levels();
    assert!(view.heads()[0].size() <= 256 && view.bytes() < 8192);
    assert_eq!(followers(&view, &[1]), [(7, 1)]);
    assert_eq!(followers(&view, &[5]), [(6, 1)]);
}

#[test]
fn restored_blocks_are_older_than_those_that_were_there() {
    let mut view = View::default();
    for round in 0..4 {
        let id = add_block(&mut view, 16);
        insert(&view, id, &[1, 2, round]);
    }
    // What lies before is dropped, so its slots are those of the blocks that come.
    view.drop_oldest();
    view.drop_oldest();
    let (mut other, mut blocks) = (View::default(), Vec::new());
    for round in 10..12 {
        let id = add_block(&mut other, 16);
        insert(&other, id, &[1, 2, round]);
    }
    for block in other.blocks() {
        let tokens = (0..block.end()).map(|cell| block.token(cell));
        let grant = Grant::unbounded(Block::bytes_for(16));
        let mut restored = Block::restored(block.shape(block.num_tokens()), grant);
        restored.fill(0, tokens, std::iter::empty());
        blocks.push(restored);
    }
    view.prepend(blocks);
    add_levels(&mut view);
    view.spread();
    view.relink();
    assert_eq!(
        followers(&view, &[1, 2]),
        [(3, 2), (2, 2), (11, 2), (10, 2)]
    );
}

#[test]
fn text_that_several_threads_link_again_is_all_found() {
    let mut view = View::default();
    for number in 0..3 {
        let id = add_block(&mut view, 1 << 15);
        for start in 0..300 {
            let text = (0..100).map(|i| (number * 31 + start * 7 + i * i) % 5000);
            insert(&view, id, &text.collect::<Vec<_>>());
        }
    }
    // The tables go; the links that there were stay.
    view.prepend(Vec::new());
    assert_eq!(followers(&view, &[7]), []);
    add_levels(&mut view);
    view.spread();
    view.relink();
    for context in [
        &[7, 10][..],
        &[0],
        &[1, 2, 5, 10, 17, 26, 37, 50, 65],
        &[4999],
    ] {
        let mut found = followers(&view, context);
        found.sort_unstable();
        assert_eq!(found, naive(&view, context), "{context:?}");
    }
    let buckets: u32 = view.heads().iter().map(Table::size).sum();
    assert_eq!(u64::from(buckets), view.capacity() * 7 / 4 - 4);
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<TokenId>),
    /// Begins a text that is filled bit by bit.
    Begin,
    Push(Vec<TokenId>),
    Block(u32),
    Drop,
    Settle(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let text = |most| prop::collection::vec(0_u32..40, 2..most);
    prop_oneof![
        8 => text(30).prop_map(Step::Insert),
        2 => Just(Step::Begin),
        4 => text(6).prop_map(Step::Push),
        3 => (5_u32..9).prop_map(Step::Block),
        1 => Just(Step::Drop),
        4 => (1_usize..60).prop_map(Step::Settle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn all_that_blocks_hold_is_found_and_nothing_else(
        steps in prop::collection::vec(step(), 1..120),
        context in prop::collection::vec(0_u32..40, 1..4),
    ) {
        let (mut view, mut moving) = (View::default(), Moving::default());
        let mut newest = add_block(&mut view, 64);
        let mut running: Option<(u64, Extent, Vec<TokenId>)> = None;
        for step in steps {
            let room = view.blocks().last().map_or(0, |block| block.room());
            match step {
                Step::Insert(text) if text.len() <= room => {
                    insert(&view, newest, &text);
                }
                Step::Begin if room > 16 => {
                    let extent = view.block(newest).unwrap().reserve(16);
                    running = Some((newest, extent, Vec::new()));
                }
                Step::Push(piece) => {
                    if let Some((id, extent, text)) = &mut running
                        && piece.len() <= extent.room()
                    {
                        let first = text.len();
                        text.extend_from_slice(&piece);
                        view.write(*id, extent, text, first);
                    }
                }
                Step::Block(bits) => newest = add_block(&mut view, 1 << bits),
                Step::Drop if view.blocks().len() > 1 => drop(view.drop_oldest()),
                Step::Settle(steps) => {
                    view.settle(steps, &mut moving);
                    view.drop_levels();
                }
                _ => {}
            }
        }
        for end in 1..=context.len() {
            let mut found = followers(&view, &context[..end]);
            found.sort_unstable();
            prop_assert_eq!(found, naive(&view, &context[..end]));
        }
        let mut bounded = Vec::new();
        let visited = collect(&view, 0, &context, &mut LIMITS.clone(), &mut bounded);
        prop_assert!(visited <= 4 * LIMITS.iter().sum::<u32>());
        let (hashes, _) = suffix_hashes(&context);
        prop_assert!(bounded.is_empty() || view.head(0, hashes[0]) != 0);
    }
}
