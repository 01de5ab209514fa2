//! Whatever the rows, the items of attention's work give each row each of its keys once.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::key_order::{KeyOrder, UNIT};
use super::path_slots::PathSlots;
use super::shape::TileRows;
use super::work::StepWork;
use crate::plan::{Plan, Row, RowKind};

/// Keys in the cache, rows, and for a tree what each node's parent is chosen by.
type RequestCase = (usize, usize, Option<Vec<prop::sample::Index>>);

fn requests() -> impl Strategy<Value = Vec<RequestCase>> {
    let kv_len = || prop_oneof![0_usize..300, 0_usize..40_000];
    let parents = prop::collection::vec(any::<prop::sample::Index>(), 63);
    let tree = (kv_len(), 1_usize..=64, parents.prop_map(Some));
    let chunk = (
        kv_len(),
        prop_oneof![1_usize..=64, 65_usize..700],
        Just(None),
    );
    prop::collection::vec(prop_oneof![tree, chunk], 1..6)
}

fn plan_of(requests: &[RequestCase]) -> Plan {
    let mut plan = Plan::new(1, 0, 0, 0);
    for (kv_len, count, parents) in requests {
        let kind = if parents.is_some() {
            RowKind::Tree
        } else {
            RowKind::Chunk
        };
        plan.open(0, kind, *kv_len);
        let mut depths = vec![0];
        let mut ancestors = vec![1_u64];
        for row in 0..*count {
            if let (Some(parents), 1..) = (parents, row) {
                let parent = parents[row - 1].index(row);
                depths.push(depths[parent] + 1);
                ancestors.push(ancestors[parent] | 1 << row);
            } else if row > 0 {
                depths.push(row);
                ancestors.push(0);
            }
            plan.push_row(Row {
                token: 1,
                position: kv_len + depths[row],
                slot: (plan.num_rows() + 1_000) as i32,
                parent: 0,
                ancestors: if parents.is_some() { ancestors[row] } else { 0 },
                sampled: false,
                top: false,
            });
        }
        plan.close(&[0]);
    }
    plan
}

/// Items of eight words.
fn items<const WORDS: usize>(words: &[i32]) -> Vec<[usize; WORDS]> {
    let (items, rest) = words.as_chunks::<WORDS>();
    assert!(rest.is_empty());
    let items = items.iter();
    items.map(|item| item.map(|word| word as usize)).collect()
}

/// The keys of each part that a row takes part in, by the slot that its sum goes to.
fn parts_of_rows(plan: &Plan, parts: &[[usize; 8]]) -> HashMap<(usize, usize), (usize, usize)> {
    let mut of_rows = HashMap::new();
    for &[nodes, first, begin, end, _, slot, low, high] in parts {
        for node in 0..nodes.max(1) {
            let position = plan.row_position[first + node] as usize;
            if nodes == 0 || (low..high).contains(&position) {
                let before = of_rows.insert((first + node, slot + node), (begin, end));
                assert_eq!(before, None, "two sums in one slot");
            }
        }
    }
    of_rows
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        rng_seed: RngSeed::Fixed(5),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn each_row_gets_each_of_its_keys_once(
        requests in requests(),
        kv_heads in prop::sample::select(vec![1_usize, 3, 8, 132]),
        window in prop::option::of(prop_oneof![1_usize..200, 1_usize..9_000]),
        nodes in (1_usize..70, 1_usize..70),
    ) {
        let plan = plan_of(&requests);
        let mut paths = PathSlots::default();
        paths.find(&plan);
        let nodes = TileRows { part: nodes.0, prompt: nodes.1 };
        let work = StepWork::new(&plan, &paths, kv_heads, window, nodes);
        let (mut parts, mut combined, mut prompts) = (Vec::new(), Vec::new(), Vec::new());
        work.push_parts(&mut parts);
        let most_splits = work.push_combined(&mut combined);
        work.push_prompts(&mut prompts);
        let (combined, prompts) = (items::<4>(&combined), items::<8>(&prompts));
        let mut parts = parts_of_rows(&plan, &items(&parts));
        let order = KeyOrder::new(kv_heads, window);
        let mut seen = vec![0; plan.num_rows()];

        for (index, &[row, slot, splits, _]) in combined.iter().enumerate() {
            seen[row] += 1;
            prop_assert!(splits <= most_splits);
            let position = plan.row_position[row] as usize;
            let spans = order.spans(position);
            let mut next = spans.begin;
            for split in 0..splits {
                let keys = parts.remove(&(row, slot + split * combined.len()));
                // Rows of the other unit may have a unit more; a row does not look at those keys.
                let keys = keys.map(|(begin, end)| (begin.max(spans.begin), end.min(spans.end)));
                prop_assert_eq!(keys.map(|(begin, _)| begin), Some(next));
                next = keys.map_or(0, |(_, end)| end);
            }
            prop_assert_eq!(next, spans.end);
            // The tail is part 0.
            prop_assert_eq!(parts.remove(&(row, index)), Some((spans.end, position + 1)));
        }
        for &[nodes, first, begin, end, _, position, split, _] in &prompts {
            for node in 0..nodes {
                seen[first + node] += 1;
                prop_assert_eq!(plan.row_position[first + node] as usize, position + node);
                let spans = order.spans(position + node);
                prop_assert_eq!((begin, end, split), (spans.begin, spans.end, spans.split));
                prop_assert_eq!((position + node) / UNIT, position / UNIT);
            }
        }
        let lengths: Vec<usize> = prompts.iter().map(|item| item[3] - item[2]).collect();
        prop_assert!(lengths.is_sorted_by(|a, b| a >= b));
        prop_assert!(seen.iter().all(|&count| count == 1));
        // No program computes for nobody but rows of a unit that has another begin.
        for ((row, _), (begin, end)) in parts {
            let spans = order.spans(plan.row_position[row] as usize);
            prop_assert!(end <= spans.begin || begin >= spans.end);
        }
    }
}
