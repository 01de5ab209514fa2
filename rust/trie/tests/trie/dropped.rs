//! Text that draft memory drops, or does not take, is counted by reason; forgotten text is gone for
//! everybody.

use std::sync::Arc;

use crate::drafts::matches_only;
use crate::tenants::{answer, document, memory, name, num_tokens};
use spectrie_trie::{Bigrams, DraftConfig, DraftMemory, Drafter, MemoryConfig, SharedTrie};
use spectrie_types::sizes::TOP_K;
use spectrie_types::{DropReason, Source};

const MIB: usize = 1 << 20;

fn dropped(memory: &DraftMemory, reason: DropReason) -> u64 {
    memory.dropped_tokens()[reason.index()]
}

/// Tokens dropped for any reason.
fn all_dropped(memory: &DraftMemory) -> u64 {
    memory.dropped_tokens().iter().sum()
}

fn bounded(max_namespaces: usize) -> DraftMemory {
    DraftMemory::new(MemoryConfig {
        capacity_bytes: MIB,
        max_namespaces,
    })
    .expect("a valid config")
}

fn drafter(shared: &Arc<SharedTrie>) -> Drafter {
    Drafter::new(matches_only(), Some(Arc::clone(shared)))
}

#[test]
fn a_namespace_that_outgrows_the_memory_drops_for_its_own_share() {
    let memory = memory(MIB);
    let shared = memory.namespace("a");
    for number in 0..20 {
        shared.insert(&document(number, 10_000));
    }
    let own = dropped(&memory, DropReason::Share);
    assert_eq!(
        memory.num_tokens() + own,
        200_000,
        "each token is held or counted"
    );
    assert_eq!((own, own), (memory.evicted_tokens(), all_dropped(&memory)));
    assert!(own > 100_000);
}

#[test]
fn what_one_has_above_its_share_goes_for_fairness() {
    let memory = memory(MIB);
    memory.namespace("greedy").insert(&document(1_000, 30_000));
    memory.namespace(&name(0)).insert(&document(0, 15_000));
    let fair = dropped(&memory, DropReason::Fairness);
    assert_eq!(memory.num_tokens() + fair, 45_000);
    assert!(fair > 0 && fair == all_dropped(&memory));
    assert_eq!(num_tokens(&memory, 0), 15_000);
}

#[test]
fn a_namespace_that_stays_idle_gives_its_room_back() {
    let memory = memory(MIB);
    let idle = memory.namespace(&name(0));
    idle.insert(&document(0, 15_000));
    let active = memory.namespace(&name(1));
    // As much as the memory holds is given out twelve times over.
    for number in 0..60 {
        active.insert(&document(1_000 + number, 8_000));
    }
    assert!(dropped(&memory, DropReason::Idle) > 10_000);
    assert_eq!(dropped(&memory, DropReason::Fairness), 0);
    assert!(num_tokens(&memory, 0) < 5_000, "{}", num_tokens(&memory, 0));
    assert!(
        num_tokens(&memory, 1) > 25_000,
        "{}",
        num_tokens(&memory, 1)
    );
    // Used again, it has its share again.
    memory.namespace(&name(0)).insert(&document(0, 15_000));
    assert!(
        num_tokens(&memory, 0) >= 13_000,
        "{}",
        num_tokens(&memory, 0)
    );
}

#[test]
fn a_namespace_pushed_out_by_others_counts_as_idle() {
    let memory = bounded(2);
    for tenant in 0..3 {
        memory
            .namespace(&name(tenant))
            .insert(&document(tenant, 500));
    }
    assert_eq!(dropped(&memory, DropReason::Idle), 500);
    assert_eq!((memory.num_tokens(), all_dropped(&memory)), (1_000, 500));
}

#[test]
fn forgotten_text_is_counted_and_so_is_what_its_requests_say_later() {
    let memory = memory(MIB);
    let shared = memory.namespace("a");
    shared.insert(&document(1, 500));
    let mut running = shared.begin();
    running.push(&document(2, 100));
    assert!(memory.forget("a").expect("a disk"));
    running.push(&document(3, 40));
    assert_eq!(dropped(&memory, DropReason::Forgotten), 640);
    assert_eq!((memory.num_tokens(), memory.evicted_tokens()), (0, 0));
}

#[test]
fn text_without_room_is_counted() {
    let memory = memory(0);
    memory.namespace("a").insert(&document(1, 500));
    assert_eq!(dropped(&memory, DropReason::NoRoom), 500);
    assert!(memory.refused_grants() > 0);
    assert_eq!((memory.bytes(), memory.evicted_tokens()), (0, 0));
}

#[test]
fn requests_of_a_namespace_pushed_out_read_and_extend_its_text_no_more() {
    let memory = bounded(1);
    let held = memory.namespace("a");
    held.insert(&[1, 2, 3, 4]);
    let mut running = drafter(&held);
    running.push_prompt(&[1, 2]);
    assert!(!running.draft(4, 0.0).is_empty());
    memory.namespace("b");
    assert!(running.draft(4, 0.0).is_empty());
    held.insert(&[1, 2, 3, 4]);
    assert!(
        running.draft(4, 0.0).is_empty(),
        "what it says later is not kept"
    );
    assert!(
        !memory.forget("a").expect("a disk"),
        "there is nothing left to forget"
    );
    assert_eq!(dropped(&memory, DropReason::Idle), 8);
}

#[test]
fn an_answer_after_its_namespace_was_forgotten_makes_no_table() {
    let memory = memory(MIB);
    let shared = memory.namespace("a");
    answer(&shared, 1, 20);
    assert!(memory.bytes() > 0, "its table");
    memory.forget("a").expect("a disk");
    assert_eq!(memory.bytes(), 0);
    answer(&shared, 1, 20);
    assert_eq!(memory.bytes(), 0);
}

#[test]
fn a_table_of_bigrams_reaches_requests_whose_namespace_was_pushed_out() {
    let memory = bounded(1);
    let held = memory.namespace("a");
    memory.namespace("b");
    let mut ids = [0; 9 * TOP_K];
    let mut given = [0.0; 9 * TOP_K];
    (ids[3 * TOP_K], given[3 * TOP_K]) = (4, 0.9);
    let bigrams = Bigrams::from_rows(&ids, &given).expect("whole rows");
    memory.set_bigrams(Some(Arc::new(bigrams)));
    let mut running = Drafter::new(DraftConfig::default(), Some(held));
    running.push_prompt(&[30, 3]);
    let names_four = |running: &mut Drafter| {
        let tree = running.draft(12, 0.0);
        let mut nodes = tree.nodes.iter();
        nodes.any(|node| (node.token, node.source) == (4, Source::Recycled))
    };
    assert!(names_four(&mut running));
    memory.set_bigrams(None);
    assert!(!names_four(&mut running), "removed for it too");
}
