//! Shared memory against a slow model: a set of every run of tokens that was inserted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::common::Folder;
use crate::drafts::matches_only;
use proptest::prelude::*;
use spectrie_trie::{
    Corpus, CorpusBuilder, DraftConfig, DraftMemory, Drafter, Insertion, MemoryConfig, Readers,
    TokenId,
};

const NUM_NAMESPACES: u32 = 3;
const NUM_LESSONS: usize = 4;
const MAX_DEPTH: usize = 4;
const TOKENIZER: &str = "abc";

#[derive(Clone, Debug)]
enum Operation {
    Insert(u32, Vec<u32>),
    /// Begins an insertion in place of another, which ends.
    Begin(usize, u32),
    Push(usize, Vec<u32>),
    Draft(u32, Vec<u32>),
    Forget(u32),
    Save,
    /// A new process that restores the last snapshot.
    Restart,
    AddCorpus(u32),
    RemoveCorpus(u32),
}

fn operation() -> impl Strategy<Value = Operation> {
    let namespace = 0..NUM_NAMESPACES;
    let text = |most| prop::collection::vec(0_u32..6, 1..most);
    prop_oneof![
        60 => (namespace.clone(), text(40)).prop_map(|(n, text)| Operation::Insert(n, text)),
        12 => (0..NUM_LESSONS, namespace.clone()).prop_map(|(l, n)| Operation::Begin(l, n)),
        60 => (0..NUM_LESSONS, text(12)).prop_map(|(l, text)| Operation::Push(l, text)),
        80 => (namespace.clone(), text(6)).prop_map(|(n, text)| Operation::Draft(n, text)),
        1 => namespace.clone().prop_map(Operation::Forget),
        1 => Just(Operation::Save),
        1 => Just(Operation::Restart),
        1 => namespace.clone().prop_map(Operation::AddCorpus),
        1 => namespace.prop_map(Operation::RemoveCorpus),
    ]
}

/// Every other token is one that all namespaces share, so that contexts of one lead into the text
/// of another if anything leaks; the tokens between are the namespace's own.
fn own(namespace: u32, text: &[u32]) -> Vec<TokenId> {
    let tokens = text.iter().enumerate();
    tokens
        .map(|(index, &token)| {
            let owner = if index % 2 == 0 { 0 } else { namespace + 1 };
            token + 100 * owner
        })
        .collect()
}

/// What one namespace was taught.
#[derive(Clone, Debug, Default)]
struct Taught {
    runs: HashSet<Vec<TokenId>>,
    num_tokens: u64,
}

impl Taught {
    /// Adds the tokens of a document from `first` on.
    fn add(&mut self, document: &[TokenId], first: usize) {
        for end in first + 1..=document.len() {
            for start in end.saturating_sub(MAX_DEPTH + 1)..end {
                self.runs.insert(document[start..end].to_vec());
            }
        }
        // One token alone is taught when the second one comes.
        if document.len() > 1 {
            let first = if first == 1 { 0 } else { first };
            self.num_tokens += (document.len() - first) as u64;
        }
    }
}

struct Running {
    namespace: u32,
    insertion: Insertion,
    text: Vec<TokenId>,
    forgotten: bool,
}

struct World {
    folder: Folder,
    config: MemoryConfig,
    memory: DraftMemory,
    taught: HashMap<u32, Taught>,
    saved: HashMap<u32, Taught>,
    running: HashMap<usize, Running>,
    corpora: Vec<(Arc<Corpus>, Taught)>,
    loaded: HashSet<u32>,
    /// Whether any text ever made room for other text.
    evicted: bool,
}

impl World {
    fn new(capacity_bytes: usize) -> Self {
        let config = MemoryConfig {
            capacity_bytes,
            max_namespaces: 8,
        };
        let folder = Folder::new();
        let corpora = (0..NUM_NAMESPACES)
            .map(|number| {
                let text = own(50 + number, &[1, 2, 3, 4, 5, 0, 1, 3, 5]);
                let name = format!("corpus{number}");
                let path = folder.path().join(&name);
                let mut builder = CorpusBuilder::new(&name, TOKENIZER).expect("a name");
                builder.push(&text).expect("room");
                builder.finish(&path).expect("a writable folder");
                let mut taught = Taught::default();
                taught.add(&text, 0);
                (Corpus::open(&path).expect("a whole file"), taught)
            })
            .collect();
        Self {
            folder,
            config,
            memory: DraftMemory::new(config).expect("a valid config"),
            taught: HashMap::new(),
            saved: HashMap::new(),
            running: HashMap::new(),
            corpora,
            loaded: HashSet::new(),
            evicted: false,
        }
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Insert(namespace, text) => {
                let text = own(namespace, &text);
                self.namespace(namespace).insert(&text);
                self.taught.entry(namespace).or_default().add(&text, 0);
            }
            Operation::Begin(slot, namespace) => {
                let running = Running {
                    namespace,
                    insertion: self.namespace(namespace).begin(),
                    text: Vec::new(),
                    forgotten: false,
                };
                self.running.insert(slot, running);
            }
            Operation::Push(slot, text) => self.push(slot, &text),
            Operation::Draft(namespace, text) => self.draft(namespace, &text),
            Operation::Forget(namespace) => {
                let name = format!("n{namespace}");
                let is_held = self.memory.namespaces().iter().any(|it| it.name == name);
                let known = self.memory.forget(&name).expect("a disk");
                assert!(known || !is_held);
                // Text that made room for other text is in no snapshot, and neither is a token alone.
                let taught = self.taught.get(&namespace);
                let is_kept = !self.evicted && taught.is_some_and(|taught| taught.num_tokens > 0);
                assert!(known || !is_kept);
                self.taught.remove(&namespace);
                self.saved.remove(&namespace);
                for running in self.running.values_mut() {
                    running.forgotten |= running.namespace == namespace;
                }
            }
            Operation::Save => {
                let saved = self.memory.save(self.folder.path(), TOKENIZER);
                let saved = saved.expect("a writable folder");
                assert_eq!(saved.num_tokens, self.memory.num_tokens());
                self.saved = self.taught.clone();
            }
            Operation::Restart => {
                self.running.clear();
                self.loaded.clear();
                self.memory = DraftMemory::new(self.config).expect("a valid config");
                let restored = self.memory.restore(self.folder.path(), TOKENIZER);
                let restored = restored.expect("a whole snapshot");
                assert_eq!(restored.num_tokens, self.memory.num_tokens());
                self.taught = self.saved.clone();
            }
            Operation::AddCorpus(number) => {
                let corpus = Arc::clone(&self.corpora[number as usize].0);
                // The corpus of a number is for the namespace of that number alone.
                let readers = Readers::Namespaces(vec![format!("n{number}")]);
                let added = self.memory.add_corpus(corpus, readers).is_ok();
                assert_eq!(added, self.loaded.insert(number));
            }
            Operation::RemoveCorpus(number) => {
                let removed = self.memory.remove_corpus(&format!("corpus{number}"));
                assert_eq!(removed.is_ok(), self.loaded.remove(&number));
            }
        }
        self.evicted |= self.memory.evicted_tokens() > 0;
        self.check_bytes();
    }

    fn namespace(&self, namespace: u32) -> Arc<spectrie_trie::SharedTrie> {
        self.memory.namespace(&format!("n{namespace}"))
    }

    fn push(&mut self, slot: usize, text: &[u32]) {
        let Some(running) = self.running.get_mut(&slot) else {
            return;
        };
        let text = own(running.namespace, text);
        let first = running.text.len();
        running.text.extend_from_slice(&text);
        running.insertion.push(&text);
        if !running.forgotten {
            let taught = self.taught.entry(running.namespace).or_default();
            taught.add(&running.text, first);
        }
    }

    fn draft(&self, namespace: u32, text: &[u32]) {
        let context = own(namespace, text);
        let config = DraftConfig {
            max_depth: MAX_DEPTH,
            ..matches_only()
        };
        let mut drafter = Drafter::new(config, Some(self.namespace(namespace)));
        drafter.push_prompt(&context);
        let tree = drafter.draft(16, 0.0);
        let empty = Taught::default();
        let taught = self.taught.get(&namespace).unwrap_or(&empty);
        let mut own_runs = Taught::default();
        own_runs.add(&context, 0);
        let corpus = self.loaded.contains(&namespace);
        let corpus = corpus.then(|| &self.corpora[namespace as usize].1);
        let known = |run: &[TokenId]| {
            let corpus = corpus.is_some_and(|corpus| corpus.runs.contains(run));
            corpus || taught.runs.contains(run) || own_runs.runs.contains(run)
        };
        let last = *context.last().expect("a context");
        for index in 0..tree.nodes.len() as u32 {
            let mut run = vec![last];
            run.extend(tree.path_tokens(index));
            assert!(
                known(&run),
                "drafted {run:?}, which {namespace} was not taught"
            );
        }
        // The request itself may have taken room from its own namespace.
        if !self.evicted && self.memory.evicted_tokens() == 0 {
            let follows = |run: &Vec<TokenId>| run.len() == 2 && run[0] == last;
            let expected = taught.runs.iter().any(follows);
            assert!(
                !expected || !tree.is_empty(),
                "what follows {last} was taught"
            );
        }
    }

    fn check_bytes(&self) {
        let namespaces = self.memory.namespaces();
        let sum: usize = namespaces.iter().map(|info| info.bytes).sum();
        assert_eq!(self.memory.bytes(), sum);
        assert!(sum <= self.config.capacity_bytes);
        if !self.evicted {
            let taught: u64 = self.taught.values().map(|taught| taught.num_tokens).sum();
            assert_eq!(self.memory.num_tokens(), taught);
        }
    }
}

fn run(capacity_bytes: usize, operations: Vec<Operation>) {
    let mut world = World::new(capacity_bytes);
    for operation in operations {
        world.apply(operation);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(85))]

    #[test]
    fn everything_taught_is_found_and_nothing_else(
        operations in prop::collection::vec(operation(), 600),
    ) {
        run(4 << 20, operations);
    }

    #[test]
    fn at_the_bound_nothing_is_invented_or_leaked(
        operations in prop::collection::vec(operation(), 600),
    ) {
        run(64 << 10, operations);
    }
}
