//! Random teaching, answering, drafting and forgetting of many tenants, against the laws of shares
//! at every step.

#![allow(clippy::expect_used, reason = "a failed helper is a failed test")]

#[path = "common/tenants.rs"]
mod tenants;

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use spectrie_trie::{DraftConfig, DraftMemory, Drafter, MemoryConfig};
use spectrie_types::DropReason;
use tenants::{answer, document, name, num_tokens};

const NUM_TENANTS: u32 = 50;
const NUM_RUNNING: usize = 4;
const CAPACITY_BYTES: usize = 8 << 20;
/// Namespaces may have fifteen parts in sixteen, those that only a running request holds too.
const SHARE_BYTES: usize = CAPACITY_BYTES / 16 * 15 / (NUM_TENANTS as usize + NUM_RUNNING);

#[derive(Clone, Copy, Debug)]
enum Operation {
    Teach(u32, u32),
    Answer(u32, u32),
    /// A request that runs on, in place of another of that number.
    Run(usize, u32, u32),
    Forget(u32),
}

fn operation() -> impl Strategy<Value = Operation> {
    let tenant = 0..NUM_TENANTS;
    prop_oneof![
        8 => (tenant.clone(), 2_u32..12_000).prop_map(|(t, n)| Operation::Teach(t, n)),
        4 => (tenant.clone(), 2_u32..200).prop_map(|(t, n)| Operation::Answer(t, n)),
        2 => (0..NUM_RUNNING, tenant.clone(), 2_u32..3_000).prop_map(|(r, t, n)| Operation::Run(r, t, n)),
        1 => tenant.prop_map(Operation::Forget),
    ]
}

struct World {
    memory: DraftMemory,
    running: HashMap<usize, Drafter>,
    taught: u64,
    documents: u32,
}

impl World {
    fn new() -> Self {
        let memory = DraftMemory::new(MemoryConfig {
            capacity_bytes: CAPACITY_BYTES,
            ..MemoryConfig::default()
        });
        let memory = memory.expect("a valid config");
        for tenant in 0..NUM_TENANTS {
            memory.namespace(&name(tenant));
        }
        Self {
            memory,
            running: HashMap::new(),
            taught: 0,
            documents: NUM_TENANTS,
        }
    }

    fn bytes(&self, tenant: u32) -> usize {
        self.memory.namespace(&name(tenant)).bytes()
    }

    /// What each tenant holds: its tokens and bytes.
    fn holdings(&self) -> Vec<(u64, usize)> {
        let namespaces = self.memory.namespaces();
        let by_name: HashMap<_, _> = namespaces
            .iter()
            .map(|info| (info.name.as_str(), (info.num_tokens, info.bytes)))
            .collect();
        (0..NUM_TENANTS)
            .map(|tenant| by_name.get(&*name(tenant)).copied().unwrap_or_default())
            .collect()
    }

    /// Applies an operation and says whose it was.
    fn apply(&mut self, operation: Operation) -> u32 {
        // Nobody is idle: the shares are equal.
        for tenant in 0..NUM_TENANTS {
            self.memory.namespace(&name(tenant));
        }
        match operation {
            Operation::Teach(tenant, tokens) => {
                self.documents += 1;
                let text = document(self.documents, tokens);
                self.memory.namespace(&name(tenant)).insert(&text);
                self.taught += u64::from(tokens);
                tenant
            }
            Operation::Answer(tenant, tokens) => {
                answer(&self.memory.namespace(&name(tenant)), tenant, tokens);
                tenant
            }
            Operation::Run(slot, tenant, tokens) => {
                let shared = self.memory.namespace(&name(tenant));
                let mut drafter = Drafter::new(DraftConfig::default(), Some(Arc::clone(&shared)));
                drafter.push_prompt(&document(tenant, tokens));
                drafter.draft(4, 0.0);
                self.running.insert(slot, drafter);
                tenant
            }
            Operation::Forget(tenant) => {
                assert!(self.memory.forget(&name(tenant)).expect("a disk"));
                self.memory.namespace(&name(tenant));
                tenant
            }
        }
    }

    fn check(&self, operation: &Operation, tenant: u32, before: &[(u64, usize)]) {
        let context = || format!("{operation:?}");
        let after = self.holdings();
        let sum: usize = after.iter().map(|(_, bytes)| bytes).sum();
        assert!(sum <= self.memory.bytes(), "{}", context());
        assert!(self.memory.bytes() <= CAPACITY_BYTES, "{}", context());
        for (other, (before, after)) in before.iter().zip(&after).enumerate() {
            let is_other = other as u32 != tenant;
            let is_within = before.1 <= SHARE_BYTES;
            let takes_text = !matches!(operation, Operation::Run(..));
            if is_other && (is_within || !takes_text) {
                assert_eq!(before.0, after.0, "{} took from {other}", context());
            }
        }
        if let Operation::Teach(_, tokens) = operation {
            let (num_tokens, bytes) = after[tenant as usize];
            // It has its text, or what its share holds of it; a block less at most.
            let held = num_tokens >= u64::from(*tokens) || bytes >= SHARE_BYTES * 3 / 4;
            assert!(held, "{}: {num_tokens} tokens in {bytes} bytes", context());
        }
        let dropped: u64 = self.memory.dropped_tokens().iter().sum();
        assert_eq!(
            self.memory.num_tokens() + dropped,
            self.taught,
            "{}",
            context()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn fifty_tenants_keep_what_their_shares_hold_and_every_token_is_accounted_for(
        operations in prop::collection::vec(operation(), 300),
    ) {
        let mut world = World::new();
        for operation in operations {
            let before = world.holdings();
            let tenant = world.apply(operation);
            world.check(&operation, tenant, &before);
        }
        world.running.clear();
        for tenant in 0..NUM_TENANTS {
            world.memory.forget(&name(tenant)).expect("a disk");
        }
        prop_assert_eq!((world.memory.bytes(), world.memory.num_tokens()), (0, 0));
        let dropped = world.memory.dropped_tokens();
        prop_assert_eq!(dropped[DropReason::Damaged.index()], 0);
    }
}

#[test]
fn a_share_is_what_its_tenant_can_hold() {
    let mut world = World::new();
    for tenant in 0..NUM_TENANTS {
        world.apply(Operation::Teach(tenant, 30_000));
    }
    for tenant in 0..NUM_TENANTS {
        let bytes = world.bytes(tenant);
        assert!(bytes * 4 >= SHARE_BYTES * 3, "{tenant} has {bytes}");
        assert!(num_tokens(&world.memory, tenant) > 0);
    }
}
