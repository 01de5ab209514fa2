//! Many namespaces under one budget against a slow model: what each was taught, in order.

use std::collections::{HashMap, HashSet};

use crate::common::Folder;
use crate::drafts::matches_only;
use proptest::prelude::*;
use spectrie_trie::{
    DraftConfig, DraftMemory, Drafter, Insertion, MemoryConfig, SEPARATOR, TokenId,
};

const NUM_NAMESPACES: u32 = 50;
/// Namespaces that are taught without end; the others keep within their share.
const NUM_GREEDY: u32 = 3;
const CAPACITY_BYTES: usize = 4 << 20;
/// Tokens that fit into the share of a namespace, whatever blocks and tables round up to.
const MODEST_TOKENS: usize = 1000;
const MAX_DEPTH: usize = 4;
const TOKENIZER: &str = "abc";

#[derive(Clone, Copy, Debug)]
enum Operation {
    Teach(u32, u32, usize),
    /// A running request gets the next piece of its text; a new one begins where there is none.
    Push(u32, u32, usize),
    End(u32),
    Draft(u32, u32),
    Forget(u32),
    Save,
    Restart,
}

fn operation() -> impl Strategy<Value = Operation> {
    let greedy = 0..NUM_GREEDY;
    let any = 0..NUM_NAMESPACES;
    prop_oneof![
        20 => (greedy.clone(), 0_u32..90, 500_usize..4000).prop_map(|(n, s, c)| Operation::Teach(n, s, c)),
        20 => (any.clone(), 0_u32..90, 2_usize..300).prop_map(|(n, s, c)| Operation::Teach(n, s, c)),
        20 => (any.clone(), 0_u32..90, 1_usize..60).prop_map(|(n, s, c)| Operation::Push(n, s, c)),
        3 => any.clone().prop_map(Operation::End),
        40 => (any.clone(), 0_u32..90).prop_map(|(n, s)| Operation::Draft(n, s)),
        1 => any.prop_map(Operation::Forget),
        1 => Just(Operation::Save),
        1 => Just(Operation::Restart),
    ]
}

/// Text of a namespace: no other has its tokens, and runs repeat.
fn text(namespace: u32, seed: u32, count: usize) -> Vec<TokenId> {
    let mut state = seed;
    let token = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        namespace * 1000 + (state >> 16) % 97
    };
    (0..count).map(token).collect()
}

/// What a namespace was taught since it was last forgotten.
#[derive(Clone, Debug, Default)]
struct Taught {
    runs: HashSet<Vec<TokenId>>,
    num_tokens: usize,
}

impl Taught {
    /// Adds the tokens of a document from `first` on.
    fn add(&mut self, document: &[TokenId], first: usize) {
        for end in first + 1..=document.len() {
            for start in end.saturating_sub(MAX_DEPTH + 1)..end {
                self.runs.insert(document[start..end].to_vec());
            }
        }
        if document.len() > 1 {
            self.num_tokens += document.len() - if first == 1 { 0 } else { first };
        }
    }

    fn is_modest(&self) -> bool {
        self.num_tokens <= MODEST_TOKENS
    }
}

#[derive(Default)]
struct World {
    taught: HashMap<u32, Taught>,
    saved: HashMap<u32, Taught>,
    running: HashMap<u32, (Insertion, Vec<TokenId>)>,
}

fn name(namespace: u32) -> String {
    format!("n{namespace}")
}

fn memory() -> DraftMemory {
    DraftMemory::new(MemoryConfig {
        capacity_bytes: CAPACITY_BYTES,
        max_namespaces: NUM_NAMESPACES as usize,
    })
    .expect("a valid config")
}

impl World {
    fn apply(&mut self, memory: &mut DraftMemory, folder: &Folder, operation: Operation) {
        match operation {
            Operation::Teach(namespace, seed, count) => {
                let text = text(namespace, seed, self.count(namespace, count));
                memory.namespace(&name(namespace)).insert(&text);
                self.taught.entry(namespace).or_default().add(&text, 0);
            }
            Operation::Push(namespace, seed, count) => {
                let piece = text(namespace, seed, self.count(namespace, count));
                let shared = memory.namespace(&name(namespace));
                let begin = || (shared.begin(), Vec::new());
                let (insertion, document) = self.running.entry(namespace).or_insert_with(begin);
                insertion.push(&piece);
                let first = document.len();
                document.extend_from_slice(&piece);
                self.taught
                    .entry(namespace)
                    .or_default()
                    .add(document, first);
            }
            Operation::End(namespace) => drop(self.running.remove(&namespace)),
            Operation::Draft(namespace, seed) => self.draft(memory, namespace, seed),
            Operation::Forget(namespace) => {
                memory.forget(&name(namespace)).expect("a disk");
                self.running.remove(&namespace);
                self.taught.remove(&namespace);
                self.saved.remove(&namespace);
            }
            Operation::Save => {
                memory.save(folder.path(), TOKENIZER).expect("a folder");
                self.saved = self.taught.clone();
            }
            Operation::Restart => {
                self.running.clear();
                *memory = self::memory();
                let restored = memory.restore(folder.path(), TOKENIZER);
                restored.expect("a whole snapshot");
                self.taught = self.saved.clone();
            }
        }
    }

    /// At most `count`, and for a modest namespace no more than its share holds.
    fn count(&self, namespace: u32, count: usize) -> usize {
        let held = self
            .taught
            .get(&namespace)
            .map_or(0, |taught| taught.num_tokens);
        let left = MODEST_TOKENS.saturating_sub(held);
        if namespace < NUM_GREEDY {
            count
        } else {
            count.min(left)
        }
    }

    fn draft(&self, memory: &DraftMemory, namespace: u32, seed: u32) {
        let context = text(namespace, seed, 12);
        let config = DraftConfig {
            max_depth: MAX_DEPTH,
            ..matches_only()
        };
        // The prompt alone is no source: only its last token is the request's own.
        let last = context[context.len() - 1];
        let mut drafter = Drafter::new(config, Some(memory.namespace(&name(namespace))));
        drafter.push_prompt(&[SEPARATOR]);
        drafter.push_prompt(&[last]);
        let tree = drafter.draft(16, 0.0);
        let empty = Taught::default();
        let taught = self.taught.get(&namespace).unwrap_or(&empty);
        for index in 0..tree.nodes.len() as u32 {
            let mut run = vec![last];
            run.extend(tree.path_tokens(index));
            assert!(
                taught.runs.contains(&run),
                "{namespace} was not taught {run:?}"
            );
        }
        let follows = |run: &Vec<TokenId>| run.len() == 2 && run[0] == last;
        if taught.is_modest() && taught.runs.iter().any(follows) {
            assert!(
                !tree.is_empty(),
                "{namespace} was taught what follows {last}"
            );
            assert_eq!(drafter.visits().parts, 1);
        }
    }

    fn check(&self, memory: &DraftMemory) {
        let (mut sum, empty) = (0, Taught::default());
        for info in memory.namespaces() {
            sum += info.bytes;
            let namespace = info.name[1..].parse().expect("a number");
            let taught = self.taught.get(&namespace).unwrap_or(&empty);
            assert!(info.num_tokens <= taught.num_tokens as u64, "{info:?}");
            if taught.is_modest() {
                let held = info.num_tokens as usize;
                assert_eq!(held, taught.num_tokens, "{info:?} has room in its share");
            }
        }
        assert_eq!(memory.bytes(), sum);
        assert!(sum <= CAPACITY_BYTES, "{sum}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_fits_its_share_is_kept_and_nothing_else_is_drafted(
        operations in prop::collection::vec(operation(), 500),
    ) {
        let (mut memory, folder, mut world) = (memory(), Folder::new(), World::default());
        // Every share is that of the whole crowd from the beginning.
        let crowd = |memory: &DraftMemory| (0..NUM_NAMESPACES).for_each(|n| drop(memory.namespace(&name(n))));
        crowd(&memory);
        for operation in operations {
            world.apply(&mut memory, &folder, operation);
            crowd(&memory);
            world.check(&memory);
        }
    }
}

/// Taught as a 4M-token tenant would be, in a smaller memory of the same shape.
fn large_text() -> Vec<TokenId> {
    (0..200_u32)
        .flat_map(|seed| text(7, seed, 1000).into_iter().chain([SEPARATOR]))
        .collect()
}

#[test]
fn a_draft_looks_into_one_index_whoever_else_lives() {
    let memory = || {
        DraftMemory::new(MemoryConfig {
            capacity_bytes: 16 << 20,
            max_namespaces: 1024,
        })
        .expect("a valid config")
    };
    let visits = |memory: &DraftMemory| {
        let mut drafter = Drafter::new(matches_only(), Some(memory.namespace("large")));
        drafter.push_prompt(&text(7, 3, 20));
        assert!(!drafter.draft(16, 0.0).is_empty());
        drafter.visits()
    };
    let alone = memory();
    alone.namespace("large").insert(&large_text());
    let beside = memory();
    for number in 0..100 {
        beside
            .namespace(&format!("small{number}"))
            .insert(&text(100 + number, 1, 100));
    }
    beside.namespace("large").insert(&large_text());
    assert_eq!((visits(&alone).parts, visits(&beside).parts), (1, 1));
    // A fixed number of positions at most, of which the order of links decides.
    assert!(visits(&alone).positions <= 544 && visits(&beside).positions <= 544);
    assert_eq!(
        alone.num_tokens() + 100 * 100,
        beside.num_tokens(),
        "nothing was lost"
    );
    let blocks = |memory: &DraftMemory| {
        let infos = memory.namespaces();
        infos
            .iter()
            .find(|info| info.name == "large")
            .map(|info| info.num_blocks)
    };
    let before = blocks(&alone);
    for number in 0..100 {
        alone
            .namespace(&format!("small{number}"))
            .insert(&text(100 + number, 1, 100));
    }
    assert_eq!(blocks(&alone), before, "others do not cut it up");
}
