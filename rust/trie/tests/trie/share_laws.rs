//! Random teaching, answering, drafting and forgetting of many tenants, against the laws of shares
//! at every step.

use std::collections::HashMap;
use std::sync::Arc;

use crate::drafts::matches_only;
use crate::tenants::{answer, document, name, num_tokens};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use spectrie_trie::{DraftConfig, DraftMemory, Drafter, MemoryConfig, SharedTrie};
use spectrie_types::DropReason;

const NUM_TENANTS: u32 = 50;
const NUM_RUNNING: usize = 4;
/// Tenants whose drafts are accepted.
const NUM_USERS: u32 = 3;
const CAPACITY_BYTES: usize = 8 << 20;
/// Namespaces may have fifteen parts in sixteen.
const SHARE_BYTES: usize = CAPACITY_BYTES / 16 * 15 / NUM_TENANTS as usize;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Teach(u32, u32),
    Answer(u32, u32),
    /// What follows in a document of the tenant, the older the larger the number, is drafted and
    /// accepted.
    Accept(u32, usize),
    /// A request that runs on, in place of another of that number.
    Run(usize, u32, u32),
    Forget(u32),
}

fn operation() -> impl Strategy<Value = Operation> {
    let tenant = 0..NUM_TENANTS;
    prop_oneof![
        8 => (tenant.clone(), 2_u32..12_000).prop_map(|(t, n)| Operation::Teach(t, n)),
        4 => (tenant.clone(), 2_u32..200).prop_map(|(t, n)| Operation::Answer(t, n)),
        // A few tenants learn little by little, and use what they have.
        8 => (0..NUM_USERS, 100_u32..600).prop_map(|(t, n)| Operation::Teach(t, n)),
        8 => (0..NUM_USERS, 0_usize..40).prop_map(|(t, n)| Operation::Accept(t, n)),
        2 => (0..NUM_RUNNING, tenant.clone(), 2_u32..3_000).prop_map(|(r, t, n)| Operation::Run(r, t, n)),
        1 => tenant.prop_map(Operation::Forget),
    ]
}

/// A request of a tenant, which may have forgotten its namespace since.
struct Running {
    tenant: u32,
    shared: Arc<SharedTrie>,
    _drafter: Drafter,
}

struct World {
    memory: DraftMemory,
    running: HashMap<usize, Running>,
    taught: u64,
    documents: u32,
    /// The documents of each tenant that may be drafted, oldest first.
    known: HashMap<u32, Vec<u32>>,
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
            known: HashMap::new(),
        }
    }

    fn bytes(&self, tenant: u32) -> usize {
        self.memory.namespace(&name(tenant)).bytes()
    }

    /// What each tenant holds: its tokens, and its bytes with those of requests whose namespace it forgot.
    fn holdings(&self) -> Vec<(u64, usize)> {
        let namespaces = self.memory.namespaces();
        let by_name: HashMap<_, _> = namespaces
            .iter()
            .map(|info| (info.name.as_str(), (info.num_tokens, info.bytes)))
            .collect();
        (0..NUM_TENANTS)
            .map(|tenant| {
                let (tokens, bytes) = by_name.get(&*name(tenant)).copied().unwrap_or_default();
                (tokens, bytes + self.forgotten_bytes(tenant))
            })
            .collect()
    }

    /// Bytes in namespaces of a tenant that only running requests hold.
    fn forgotten_bytes(&self, tenant: u32) -> usize {
        let current = self.memory.namespace(&name(tenant));
        let running = self.running.values().filter(|one| one.tenant == tenant);
        let held: HashMap<_, _> = running
            .map(|one| (Arc::as_ptr(&one.shared), one.shared.bytes()))
            .filter(|&(shared, _)| shared != Arc::as_ptr(&current))
            .collect();
        held.values().sum()
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
                if tokens >= 100 {
                    self.known.entry(tenant).or_default().push(self.documents);
                }
                tenant
            }
            Operation::Answer(tenant, tokens) => {
                answer(&self.memory.namespace(&name(tenant)), tenant, tokens);
                tenant
            }
            Operation::Accept(tenant, age) => {
                let known = self.known.get(&tenant).map_or(&[][..], Vec::as_slice);
                if let Some(&number) = known.iter().rev().nth(age) {
                    self.accept(tenant, number);
                }
                tenant
            }
            Operation::Run(slot, tenant, tokens) => {
                let shared = self.memory.namespace(&name(tenant));
                let mut drafter = Drafter::new(DraftConfig::default(), Some(Arc::clone(&shared)));
                drafter.push_prompt(&document(tenant, tokens));
                drafter.draft(4, 0.0);
                let request = Running {
                    tenant,
                    shared,
                    _drafter: drafter,
                };
                self.running.insert(slot, request);
                tenant
            }
            Operation::Forget(tenant) => {
                assert!(self.memory.forget(&name(tenant)).expect("a disk"));
                self.memory.namespace(&name(tenant));
                self.known.remove(&tenant);
                tenant
            }
        }
    }

    /// Drafts what follows in a document and accepts it. Says whether there was anything.
    fn accept(&self, tenant: u32, number: u32) -> bool {
        let shared = self.memory.namespace(&name(tenant));
        let mut drafter = Drafter::new(matches_only(), Some(shared));
        let text = document(number, 100);
        drafter.push_prompt(&text[40..60]);
        let tree = drafter.draft(16, 0.0);
        let accepted = tree.walk(&text[60..80]);
        drafter.observe(&tree, &accepted);
        !accepted.is_empty()
    }

    /// Documents of a tenant that outlived newer ones.
    fn outlived(&self, tenant: u32) -> usize {
        let known = self.known.get(&tenant).map_or(&[][..], Vec::as_slice);
        let found: Vec<_> = known.iter().map(|&one| self.accept(tenant, one)).collect();
        let newest_lost = found.iter().rposition(|is_found| !is_found).unwrap_or(0);
        found[..newest_lost].iter().filter(|found| **found).count()
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
            let takes_text = !matches!(operation, Operation::Run(..) | Operation::Accept(..));
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
fn operations_give_useful_text_its_second_chance() {
    let mut runner = TestRunner::deterministic();
    let mut outlived = 0;
    for _ in 0..4 {
        let mut world = World::new();
        for _ in 0..300 {
            let operation = operation().new_tree(&mut runner).expect("one").current();
            let before = world.holdings();
            let tenant = world.apply(operation);
            world.check(&operation, tenant, &before);
        }
        outlived += (0..NUM_USERS)
            .map(|user| world.outlived(user))
            .sum::<usize>();
    }
    assert!(outlived > 0);
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
