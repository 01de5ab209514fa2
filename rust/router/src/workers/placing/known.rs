//! What one worker probably holds in its prefix cache.

use std::collections::{BTreeMap, HashMap};

use super::prefix::{BLOCK_TOKENS, Prefix};

/// A block that was sent to the worker.
#[derive(Debug)]
struct Block {
    /// When it was last sent; no two blocks share a number.
    used: u64,
    namespace: u64,
    /// Length in tokens of the prompt that ends here, as long as it is one conversation's: `None`
    /// once other prompts end here, or go on from here.
    ends: Option<usize>,
}

/// How much of a prompt a worker probably holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Match {
    /// Tokens from its beginning.
    pub(super) tokens: usize,
    /// Whether it goes on from where the one prompt ended that came this far, as a conversation
    /// does. A prompt that shares only its beginning with others does not.
    pub(super) is_continued: bool,
}

/// Blocks of one worker; those that were not sent for the longest time go first.
#[derive(Debug)]
pub(super) struct Known {
    /// What the worker's cache holds.
    capacity: usize,
    blocks: HashMap<u64, Block>,
    by_use: BTreeMap<u64, u64>,
    uses: u64,
}

impl Known {
    /// Nothing yet of a cache of so many tokens.
    pub(super) fn new(cache_tokens: usize) -> Self {
        Self {
            capacity: cache_tokens / BLOCK_TOKENS,
            blocks: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }

    /// How many blocks are known.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Tokens of the worker's cache.
    pub(super) fn cache_tokens(&self) -> usize {
        self.capacity * BLOCK_TOKENS
    }

    pub(super) fn find(&self, prefix: &Prefix) -> Match {
        let mut found = Match::default();
        for block in prefix.blocks.iter().map_while(|name| self.blocks.get(name)) {
            found.tokens += BLOCK_TOKENS;
            found.is_continued = block.ends.is_some_and(|end| end < prefix.num_tokens);
        }
        found
    }

    /// Notes that a prompt was sent to the worker, in at most `max_blocks` blocks.
    pub(super) fn add(&mut self, prefix: &Prefix, max_blocks: usize) {
        let last = prefix.blocks.len().saturating_sub(1);
        // The beginning is used last: what goes first is the end of a prompt, as in the worker.
        for (place, name) in prefix.blocks.iter().enumerate().rev() {
            let ends = (place == last).then_some(prefix.num_tokens);
            self.use_block(*name, prefix.namespace, ends);
        }
        self.shrink(max_blocks);
    }

    fn use_block(&mut self, name: u64, namespace: u64, ends: Option<usize>) {
        self.uses += 1;
        let used = self.uses;
        self.by_use.insert(used, name);
        let Some(block) = self.blocks.get_mut(&name) else {
            let block = Block {
                used,
                namespace,
                ends,
            };
            self.blocks.insert(name, block);
            return;
        };
        self.by_use.remove(&block.used);
        block.used = used;
        // A longer prompt without another whole block is the same conversation's next turn.
        let is_longer = |before: &usize| ends.is_some_and(|end| *before < end);
        block.ends = block.ends.filter(is_longer).and(ends);
    }

    /// Drops what exceeds the worker's cache, or `max_blocks`.
    pub(super) fn shrink(&mut self, max_blocks: usize) {
        while self.blocks.len() > self.capacity.min(max_blocks) {
            let Some((_, name)) = self.by_use.pop_first() else {
                return;
            };
            self.blocks.remove(&name);
        }
    }

    /// Drops the blocks of a namespace: a pass over all.
    pub(super) fn forget_namespace(&mut self, namespace: u64) {
        let (blocks, by_use) = (&mut self.blocks, &mut self.by_use);
        blocks.retain(|_, block| {
            let stays = block.namespace != namespace;
            if !stays {
                by_use.remove(&block.used);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(ids: impl IntoIterator<Item = u32>) -> Prefix {
        Prefix::new("ann", &ids.into_iter().collect::<Vec<_>>())
    }

    fn known(blocks: usize) -> Known {
        Known::new(blocks * BLOCK_TOKENS)
    }

    #[test]
    fn conversation_is_told_from_prompts_that_share_a_beginning() {
        let mut known = known(100);
        known.add(&prefix(0..300), 100);
        let found = known.find(&prefix(0..400));
        assert_eq!((found.tokens, found.is_continued), (256, true));
        known.add(&prefix(0..400), 100);
        assert!(known.find(&prefix(0..500)).is_continued);
        let other = prefix((0..256).chain(1000..1200));
        assert_eq!(known.find(&other).tokens, 256);
        assert!(!known.find(&other).is_continued);
    }

    #[test]
    fn turns_within_a_block_go_on_and_a_repeated_prompt_does_not() {
        let mut known = known(100);
        for length in [130, 150, 170] {
            known.add(&prefix(0..length), 100);
        }
        assert!(known.find(&prefix(0..180)).is_continued);
        assert!(!known.find(&prefix(0..170)).is_continued);
        known.add(&prefix(0..170), 100);
        assert!(!known.find(&prefix(0..180)).is_continued, "others end here");
    }

    #[test]
    fn ends_of_prompts_go_first_and_the_least_recent_before_others() {
        let mut known = known(5);
        known.add(&prefix(0..192), 5);
        known.add(&prefix(1000..1192), 5);
        let left = |from: u32| known.find(&prefix(from..from + 192)).tokens;
        assert_eq!((left(0), left(1000)), (128, 192));
        known.shrink(2);
        assert_eq!((known.len(), known.by_use.len()), (2, 2));
        assert_eq!(known.find(&prefix(1000..1192)).tokens, 128);
    }

    #[test]
    fn cache_smaller_than_a_prompt_keeps_its_beginning() {
        let mut known = known(2);
        known.add(&prefix(0..640), 100);
        assert_eq!(known.find(&prefix(0..640)).tokens, 128);
    }

    #[test]
    fn forgotten_namespace_leaves_nothing() {
        let mut known = known(100);
        let foreign = Prefix::new("bob", &(0..192).collect::<Vec<_>>());
        known.add(&prefix(0..192), 100);
        known.add(&foreign, 100);
        known.forget_namespace(foreign.namespace);
        assert_eq!((known.find(&foreign).tokens, known.len()), (0, 3));
        assert_eq!(
            (known.find(&prefix(0..192)).tokens, known.by_use.len()),
            (192, 3)
        );
    }
}
