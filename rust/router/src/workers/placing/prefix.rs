//! The blocks of a prompt, by names that are equal where all text before and in them is.

use std::hash::{DefaultHasher, Hash, Hasher as _};

/// Tokens of a block: four pages of a worker. What a prompt has beyond its last whole block is not
/// looked for.
pub(super) const BLOCK_TOKENS: usize = 64;

/// What placing knows of a prompt. Holds no text: names are hashes, and those of two namespaces
/// have nothing in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prefix {
    pub(super) namespace: u64,
    pub(super) blocks: Vec<u64>,
    pub(super) num_tokens: usize,
}

impl Prefix {
    /// Names the blocks of a prompt: a pass over its ids, to be made outside locks.
    pub(crate) fn new(namespace: &str, prompt_ids: &[u32]) -> Self {
        let namespace = namespace_name(namespace);
        let mut name = namespace;
        let blocks = prompt_ids.chunks_exact(BLOCK_TOKENS).map(|block| {
            name = hash((name, block));
            name
        });
        Self {
            namespace,
            blocks: blocks.collect(),
            num_tokens: prompt_ids.len(),
        }
    }
}

/// What a namespace is called among the blocks.
pub(super) fn namespace_name(namespace: &str) -> u64 {
    hash(namespace)
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_equal_up_to_the_first_difference_and_only_within_a_namespace() {
        let ids: Vec<u32> = (0..300).collect();
        let mut other = ids.clone();
        other[130] = 0;
        let (one, two) = (Prefix::new("ann", &ids), Prefix::new("ann", &other));
        assert_eq!((one.blocks.len(), one.num_tokens), (4, 300));
        assert_eq!(one.blocks[..2], two.blocks[..2]);
        assert!((2..4).all(|place| one.blocks[place] != two.blocks[place]));
        let foreign = Prefix::new("bob", &ids);
        assert!((0..4).all(|place| one.blocks[place] != foreign.blocks[place]));
    }

    #[test]
    fn block_is_named_by_what_comes_before_it_too() {
        let prompt = [7_u32; 128];
        let prefix = Prefix::new("ann", &prompt);
        assert_ne!(prefix.blocks[0], prefix.blocks[1]);
    }
}
