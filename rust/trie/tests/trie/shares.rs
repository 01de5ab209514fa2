//! No namespace takes from another what its share has room for, whatever the memory holds.

use crate::tenants::{answer, document, memory, name, num_tokens};
use spectrie_trie::{DraftMemory, MemoryConfig};

const MIB: usize = 1 << 20;

/// Each of `tenants` is taught `tokens` and answers once. Gives the memory.
fn taught(capacity_bytes: usize, tenants: u32, tokens: u32) -> DraftMemory {
    let memory = memory(capacity_bytes);
    for tenant in 0..tenants {
        let shared = memory.namespace(&name(tenant));
        shared.insert(&document(tenant, tokens));
        answer(&shared, tenant, 40);
        assert!(memory.bytes() <= capacity_bytes, "after tenant {tenant}");
    }
    memory
}

/// How many of `tenants` hold at least nine tenths of the `tokens` they were taught.
fn kept(memory: &DraftMemory, tenants: u32, tokens: u32) -> usize {
    let whole = |&tenant: &u32| num_tokens(memory, tenant) * 10 >= u64::from(tokens) * 9;
    (0..tenants).filter(whole).count()
}

#[test]
fn text_of_every_namespace_stays_while_its_share_has_room() {
    // Of 100 namespaces two used to keep their text at 256 MiB, and of ten three at 64 MiB.
    for (capacity_bytes, tenants, tokens) in [
        (256 * MIB, 28, 50_000),
        (256 * MIB, 40, 50_000),
        (256 * MIB, 100, 50_000),
        (64 * MIB, 10, 50_000),
        (16 * MIB, 100, 3_000),
    ] {
        let memory = taught(capacity_bytes, tenants, tokens);
        let kept = kept(&memory, tenants, tokens);
        assert_eq!(
            kept, tenants as usize,
            "{tenants} at {capacity_bytes} bytes"
        );
    }
}

#[test]
fn a_thousand_namespaces_that_answer_keep_what_they_were_taught() {
    let memory = taught(256 * MIB, 1_000, 5_000);
    let held = memory.num_tokens();
    // The floor is 90 %, the goal 97 %.
    assert!(held >= 5_000_000 * 97 / 100, "{held} of 5,000,000");
    assert!(kept(&memory, 1_000, 5_000) >= 970);
}

#[test]
fn a_namespace_that_works_alone_after_many_others_learns_again() {
    let memory = taught(256 * MIB, 30, 50_000);
    let first = memory.namespace(&name(0));
    for round in 0..3 {
        first.insert(&document(1_000 + round, 200_000));
        answer(&first, 1_000 + round, 40);
    }
    let held = num_tokens(&memory, 0);
    assert!(held >= 500_000, "{held} of the 600,000 taught last");
    for tenant in 1..30 {
        assert_eq!(num_tokens(&memory, tenant), 50_000, "tenant {tenant}");
    }
}

/// Tokens that a namespace holds.
fn held(memory: &DraftMemory, name: &str) -> u64 {
    let namespaces = memory.namespaces();
    let found = namespaces.iter().find(|info| info.name == name);
    found.map_or(0, |info| info.num_tokens)
}

#[test]
fn dividing_a_namespace_gives_no_second_share() {
    let memory = memory(8 * MIB);
    memory.namespace("one").insert(&document(0, 100_000));
    for number in 1..50 {
        let shared = memory.namespace(&format!("many/{number}"));
        shared.insert(&document(number, 20_000));
        drop(memory.namespace("one"));
    }
    assert_eq!(held(&memory, "one"), 100_000);
    let of_many: u64 = (1..50).map(|n| held(&memory, &format!("many/{n}"))).sum();
    assert!(of_many > 80_000, "{of_many} in its own half");
}

#[test]
fn namespaces_of_a_named_tenant_share_its_part() {
    let memory = memory(8 * MIB);
    memory.namespace("one").insert(&document(0, 100_000));
    for number in 1..50 {
        let shared = memory.namespace_of(Some("default"), &format!("invented {number}"));
        shared.insert(&document(number, 20_000));
        drop(memory.namespace("one"));
    }
    assert_eq!(held(&memory, "one"), 100_000);
}

#[test]
fn namespaces_beyond_the_most_push_out_those_of_the_tenant_that_has_most() {
    let memory = DraftMemory::new(MemoryConfig {
        capacity_bytes: 8 * MIB,
        max_namespaces: 4,
    })
    .expect("a valid config");
    for name in ["one", "two"] {
        memory.namespace(name).insert(&document(1, 100));
    }
    for number in 0..20 {
        let shared = memory.namespace(&format!("many/{number}"));
        shared.insert(&document(number, 100));
    }
    let names: Vec<String> = memory
        .namespaces()
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(names, ["many/18", "many/19", "one", "two"]);
}

#[test]
fn nobody_within_its_share_loses_text_to_another() {
    let memory = memory(8 * MIB);
    // A share of ten is 0.8 MiB; the small ones take a third of that.
    let greedy = memory.namespace("greedy");
    for tenant in 0..9 {
        memory
            .namespace(&name(tenant))
            .insert(&document(tenant, 9_000));
    }
    for number in 0..200 {
        greedy.insert(&document(1_000 + number, 5_000));
        answer(&greedy, 1_000 + number, 200);
        for tenant in 0..9 {
            assert_eq!(num_tokens(&memory, tenant), 9_000, "tenant {tenant}");
        }
        assert!(memory.bytes() <= 8 * MIB);
    }
    let share = memory.bytes() / 2;
    assert!(greedy.bytes() > share, "what others do not use is used");
}

#[test]
fn a_large_namespace_that_shrinks_keeps_the_text_its_share_has_room_for() {
    let memory = memory(16 * MIB);
    memory.namespace(&name(0)).insert(&document(0, 500_000));
    for tenant in 1..64 {
        let shared = memory.namespace(&name(tenant));
        shared.insert(&document(tenant, 4_000));
        assert!(num_tokens(&memory, tenant) >= 4_000, "tenant {tenant}");
        // It is in use, and so not idle.
        memory.namespace(&name(0));
    }
    // A share is 246 KB; what the large one has beyond it nobody needs.
    let held = num_tokens(&memory, 0);
    assert!(held >= 100_000, "{held}");
    for tenant in 1..64 {
        memory
            .namespace(&name(tenant))
            .insert(&document(100 + tenant, 20_000));
        memory.namespace(&name(0));
    }
    let held = num_tokens(&memory, 0);
    assert!(held >= 6_000, "{held}");
}

#[test]
fn what_one_took_while_nobody_needed_it_goes_to_those_below_their_share() {
    let memory = memory(8 * MIB);
    let greedy = memory.namespace("greedy");
    greedy.insert(&document(1_000, 400_000));
    for tenant in 0..9 {
        memory
            .namespace(&name(tenant))
            .insert(&document(tenant, 15_000));
    }
    for tenant in 0..9 {
        let held = num_tokens(&memory, tenant);
        assert!(held >= 14_000, "tenant {tenant} holds {held}");
    }
}
