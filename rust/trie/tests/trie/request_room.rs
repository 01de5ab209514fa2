//! What a running request drafts from itself has its bytes inside the budget.

use std::sync::Arc;

use crate::drafts::matches_only;
use crate::tenants::{answer_in, document, memory, name, num_tokens};
use spectrie_trie::{DraftMemory, Drafter, SharedTrie, TokenId};

const MIB: usize = 1 << 20;

/// Bytes of the index of a token.
const INDEX_BYTES: usize = 32;

fn drafter(shared: &Arc<SharedTrie>, prompt: &[TokenId]) -> Drafter {
    let mut drafter = Drafter::new(matches_only(), Some(Arc::clone(shared)));
    drafter.push_prompt(prompt);
    drafter
}

/// Whether the drafter finds what followed `text[end - 8..end]` in its own text.
fn finds(drafter: &mut Drafter, text: &[TokenId], end: usize) -> bool {
    drafter.push_prompt(&text[end - 8..end]);
    let tree = drafter.draft(1, 0.0);
    tree.nodes
        .first()
        .is_some_and(|node| node.token == text[end])
}

#[test]
fn a_long_prompt_is_inside_the_budget_until_its_request_ends() {
    let memory = memory(64 * MIB);
    let shared = memory.namespace("a");
    let text = document(1, 128 << 10);
    let mut running = drafter(&shared, &text);
    assert_eq!(memory.bytes(), (128 << 10) * INDEX_BYTES);
    assert_eq!(shared.bytes(), memory.bytes());
    assert!(finds(&mut running, &text, 5_000));
    drop(running);
    assert_eq!(memory.bytes(), 0);
}

#[test]
fn answers_and_predictions_of_a_request_are_inside_the_budget_too() {
    let memory = memory(16 * MIB);
    let shared = memory.namespace("a");
    let mut running = Drafter::new(matches_only(), Some(Arc::clone(&shared))).contributes(false);
    running.set_prediction(&document(1, 1_000));
    assert_eq!(memory.bytes(), 1_024 * INDEX_BYTES);
    let before = memory.bytes();
    answer_in(&mut running, 1, 2);
    let small = memory.bytes() - before;
    answer_in(&mut running, 2, 4_000);
    let large = memory.bytes() - before;
    assert!(small >= 256 * 72 && large > 4_096 * 72, "{small} {large}");
    drop(running);
    assert_eq!(memory.bytes(), 0);
}

#[test]
fn where_there_is_no_room_only_the_newest_text_is_indexed() {
    let memory = memory(2 * MIB);
    let _others: Vec<_> = (0..7).map(|i| memory.namespace(&name(i))).collect();
    let shared = memory.namespace("a");
    let text = document(1, 200_000);
    let mut running = drafter(&shared, &[]);
    text.chunks(256).for_each(|part| running.push_prompt(part));
    assert!(memory.bytes() <= 2 * MIB);
    // Half of its share, and half of what the reserve has left.
    assert!(memory.bytes() >= 4_096 * INDEX_BYTES, "{}", memory.bytes());
    assert!(finds(&mut running, &text, 199_000));
    assert!(!finds(&mut running, &text, 5_000));
}

/// A memory that is full of text of ten tenants, each with more or less than its share.
fn full(capacity_bytes: usize) -> (DraftMemory, Vec<u64>) {
    let memory = memory(capacity_bytes);
    for round in 0..4 {
        for tenant in 0..10 {
            let tokens = 3_000 + 2_000 * tenant;
            memory
                .namespace(&name(tenant))
                .insert(&document(1_000 * round + tenant, tokens));
        }
    }
    let held = (0..10).map(|tenant| num_tokens(&memory, tenant)).collect();
    (memory, held)
}

#[test]
fn requests_take_no_text_of_another_namespace() {
    let (memory, held) = full(4 * MIB);
    let newcomer = memory.namespace("newcomer");
    let text = document(77, 60_000);
    let mut running: Vec<_> = (0..20).map(|_| drafter(&newcomer, &text)).collect();
    assert!(memory.bytes() <= 4 * MIB);
    let after: Vec<_> = (0..10).map(|tenant| num_tokens(&memory, tenant)).collect();
    assert_eq!(held, after);
    // However full the memory is, a newcomer has some room.
    assert!(finds(&mut running[0], &text, 59_900));
}

#[test]
fn requests_take_text_of_their_own_namespace_inside_its_share() {
    let (memory, held) = full(4 * MIB);
    let last = memory.namespace(&name(9));
    let running: Vec<_> = (0..20)
        .map(|_| drafter(&last, &document(78, 2_000)))
        .collect();
    let after: Vec<_> = (0..10).map(|tenant| num_tokens(&memory, tenant)).collect();
    assert_eq!(held[..9], after[..9]);
    assert!(memory.bytes() <= 4 * MIB);
    // What the last tenant lost is what its requests took of its share.
    assert!(after[9] < held[9], "{} of {}", after[9], held[9]);
    drop(running);
    assert!(memory.bytes() < 4 * MIB * 15 / 16, "its room is free again");
}

#[test]
fn the_reserve_is_for_those_who_have_no_text_to_give() {
    let (memory, _) = full(4 * MIB);
    let greedy = memory.namespace(&name(9));
    let text = num_tokens(&memory, 9);
    // Beyond fifteen parts in sixteen is the reserve.
    assert!(memory.bytes() > 4 * MIB * 14 / 16);
    let _running: Vec<_> = (0..4)
        .map(|_| drafter(&greedy, &document(78, 1_000)))
        .collect();
    assert!(num_tokens(&memory, 9) < text);
    assert!(memory.bytes() <= 4 * MIB * 15 / 16, "the reserve stays");
}

#[test]
fn a_request_drafts_from_its_own_text_where_nothing_is_kept() {
    let memory = memory(0);
    let text = document(1, 5_000);
    let mut running = drafter(&memory.namespace("a"), &text);
    assert!(finds(&mut running, &text, 100));
    assert_eq!(memory.bytes(), 0);
}
