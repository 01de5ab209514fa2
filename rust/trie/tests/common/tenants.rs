//! Tenants of one memory, each with text of its own.

#![allow(dead_code, reason = "not every test needs every helper")]

use std::sync::Arc;

use spectrie_trie::{DraftConfig, DraftMemory, Drafter, MemoryConfig, SharedTrie, TokenId};

/// A memory of so many bytes.
pub(crate) fn memory(capacity_bytes: usize) -> DraftMemory {
    DraftMemory::new(MemoryConfig {
        capacity_bytes,
        ..MemoryConfig::default()
    })
    .expect("a valid config")
}

/// The namespace of a tenant.
pub(crate) fn name(tenant: u32) -> String {
    format!("tenant{tenant}")
}

/// Text of a tenant: numbers that look random and repeat no run of eight.
pub(crate) fn document(tenant: u32, tokens: u32) -> Vec<TokenId> {
    let mut state = u64::from(tenant) << 32 | 1;
    let random = (0..tokens).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 48) as TokenId
    });
    random.collect()
}

/// One answer of `tokens` in a namespace: the model names eight tokens after each of them.
pub(crate) fn answer(shared: &Arc<SharedTrie>, tenant: u32, tokens: u32) {
    let mut drafter = Drafter::new(DraftConfig::default(), Some(Arc::clone(shared)));
    answer_in(&mut drafter, tenant, tokens);
}

/// The same in a request.
pub(crate) fn answer_in(drafter: &mut Drafter, tenant: u32, tokens: u32) {
    let text = document(tenant ^ 0x8000, tokens);
    drafter.push_prompt(&text[..1]);
    for pair in text.windows(2) {
        let top: [(TokenId, f32); 8] = std::array::from_fn(|rank| {
            let token = pair[1].wrapping_add(rank as TokenId);
            (token, 0.5 / (rank + 1) as f32)
        });
        drafter.recycle(Some(pair[0]), pair[1], &top);
        drafter.push_output(&pair[1..]);
    }
}

/// Tokens that the namespace of a tenant holds.
pub(crate) fn num_tokens(memory: &DraftMemory, tenant: u32) -> u64 {
    let name = name(tenant);
    let namespaces = memory.namespaces();
    let found = namespaces.iter().find(|info| info.name == name);
    found.map_or(0, |info| info.num_tokens)
}
