//! Corpora are files: built atomically, verified when opened, added and removed while drafting.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crate::common::Folder;
use spectrie_trie::{
    Corpus, CorpusBuilder, DraftConfig, DraftMemory, Drafter, MemoryConfig, Readers, SEPARATOR,
    TokenId, TrieError,
};

fn path(folder: &Folder, name: &str) -> PathBuf {
    folder.path().join(format!("{name}.corpus"))
}

fn build(folder: &Folder, name: &str, documents: &[&[TokenId]]) -> Arc<Corpus> {
    let mut builder = CorpusBuilder::new(name, "abc").expect("a valid name");
    for document in documents {
        builder.push(document).expect("room");
    }
    let path = path(folder, name);
    builder.finish(&path).expect("a writable folder");
    Corpus::open(&path).expect("a whole file")
}

fn memory() -> DraftMemory {
    DraftMemory::new(MemoryConfig::default()).expect("a valid config")
}

#[test]
fn an_opened_corpus_says_what_was_built() {
    let folder = Folder::new();
    let mut builder = CorpusBuilder::new("code-1.2_x", "0123456789abcdef").expect("a name");
    builder.push(&[1, 2, 3]).expect("room");
    builder
        .push(&[4, 5, SEPARATOR, 6, SEPARATOR, 7, 8])
        .expect("room");
    builder.push(&[9]).expect("room");
    assert_eq!(builder.num_tokens(), 7);
    let path = path(&folder, "code");
    let info = builder.finish(&path).expect("a writable folder");
    assert_eq!(
        (info.name.as_str(), info.num_tokens, info.num_documents),
        ("code-1.2_x", 7, 3)
    );
    let corpus = Corpus::open(&path).expect("a whole file");
    assert_eq!(corpus.name(), "code-1.2_x");
    assert_eq!(corpus.fingerprint(), "0123456789abcdef");
    assert_eq!((corpus.num_tokens(), corpus.num_documents()), (7, 3));
    assert_eq!(corpus.bytes(), info.bytes);
    assert_eq!(
        fs::metadata(&path).expect("the file").len(),
        info.bytes as u64
    );
    assert_eq!(
        fs::read_dir(folder.path()).expect("the folder").count(),
        1,
        "no other file is left"
    );
}

#[test]
fn an_empty_corpus_can_be_opened() {
    let corpus = build(&Folder::new(), "empty", &[]);
    assert_eq!((corpus.num_tokens(), corpus.num_documents()), (0, 0));
}

#[test]
fn names_that_are_no_file_names_are_refused() {
    for name in ["", ".hidden", "-x", "a/b", "..", "a b", &"x".repeat(65)] {
        let error = CorpusBuilder::new(name, "").expect_err("a bad name");
        assert_eq!(
            error,
            TrieError::CorpusName {
                given: name.to_owned()
            }
        );
    }
}

/// Bytes before the words of a file, and those of the table and checksum of one with one block.
const HEADER_BYTES: usize = 160;
const TABLE_BYTES: usize = 16;

#[test]
fn damage_to_header_or_table_and_every_cut_are_refused_with_what_was_found_and_what_to_do() {
    let folder = Folder::new();
    build(&folder, "a", &[&[1, 2, 3, 1, 2, 4]]);
    let whole = fs::read(path(&folder, "a")).expect("the file");
    let damaged = path(&folder, "damaged");
    let open = |bytes: &[u8]| {
        fs::write(&damaged, bytes).expect("a writable folder");
        Corpus::open(&damaged)
    };
    let refused = |bytes: &[u8]| open(bytes).expect_err("damaged").to_string();
    for cut in 0..whole.len() {
        let message = refused(&whole[..cut]);
        assert!(
            message.contains("found") && message.contains("build it again"),
            "{message}"
        );
    }
    let words = HEADER_BYTES..whole.len() - TABLE_BYTES;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        if words.contains(&at) {
            let corpus = open(&bytes).expect("a whole header and table");
            corpus.load();
            let info = corpus.info(Readers::All);
            assert_eq!(info.lost_blocks, 1, "byte {at}");
            let loss = info.first_loss.expect("a loss");
            assert!(loss.starts_with("bytes 160 to "), "{loss}");
        } else {
            assert!(refused(&bytes).contains("expected"), "byte {at}");
        }
    }
    let mut version = whole.clone();
    version[8] = 3;
    let message = refused(&version);
    assert!(
        message.contains("format version 3, expected version 1 or 2"),
        "{message}"
    );
    let missing = Corpus::open(&path(&folder, "missing"))
        .expect_err("no file")
        .to_string();
    assert!(missing.starts_with("cannot open /"), "{missing}");
}

#[test]
fn a_lost_block_drafts_nothing_and_is_counted_once() {
    let folder = Folder::new();
    build(&folder, "a", &[&[1, 2, 3, 4, 5, 6, 7, 8]]);
    let file = path(&folder, "a");
    let mut bytes = fs::read(&file).expect("the file");
    bytes[HEADER_BYTES] ^= 1;
    fs::write(&file, bytes).expect("a writable folder");
    let memory = memory();
    let corpus = memory.open_corpus(&file).expect("a whole header and table");
    memory
        .add_corpus(corpus, Readers::All)
        .expect("a free name");
    let config = DraftConfig {
        hints: false,
        ..DraftConfig::default()
    };
    for _ in 0..3 {
        let mut drafter = Drafter::new(config, Some(memory.namespace("a")));
        drafter.push_prompt(&[2, 3, 4]);
        assert!(drafter.draft(8, 0.0).is_empty());
    }
    memory.wait_for_corpora();
    assert_eq!(memory.corpora()[0].lost_blocks, 1);
    assert_eq!(memory.corpus_memory_bytes(), 0);
}

#[test]
fn corpora_of_a_memory_share_its_bound_and_are_drafted_from() {
    let folder = Folder::new();
    for name in ["a", "b", "c"] {
        build(&folder, name, &[&[1, 2, 3, 4, 5, 6, 7, 8]]);
    }
    let memory = memory().with_corpus_bytes(2 << 16);
    for name in ["a", "b", "c"] {
        let corpus = memory.open_corpus(&path(&folder, name));
        let corpus = corpus.expect("a whole file");
        memory
            .add_corpus(corpus, Readers::All)
            .expect("a free name");
    }
    for _ in 0..10 {
        let mut drafter = Drafter::new(DraftConfig::default(), Some(memory.namespace("a")));
        drafter.push_prompt(&[2, 3, 4]);
        assert_eq!(drafter.draft(8, 0.0).path_tokens(0), [5]);
        assert!(memory.corpus_memory_bytes() <= 2 << 16);
    }
    memory.remove_corpus("a").expect("loaded");
    memory.remove_corpus("b").expect("loaded");
    memory.wait_for_corpora();
    assert!(
        memory.corpus_memory_bytes() <= 1 << 16,
        "the rest came back"
    );
}

#[test]
fn a_rebuilt_corpus_leaves_the_open_one_as_it_was() {
    let folder = Folder::new();
    let old = build(&folder, "a", &[&[1, 2, 3]]);
    let new = build(&folder, "a", &[&[1, 2, 3], &[1, 2, 4]]);
    assert_eq!((old.num_documents(), new.num_documents()), (1, 2));
}

#[test]
fn a_folder_that_does_not_exist_is_named() {
    let folder = Folder::new();
    let builder = CorpusBuilder::new("a", "").expect("a name");
    let error = builder
        .finish(&folder.path().join("no").join("a.corpus"))
        .expect_err("no folder");
    assert!(error.to_string().contains("cannot write"), "{error}");
    assert!(error.to_string().contains("a.corpus"), "{error}");
}

#[test]
fn a_name_is_loaded_once_and_the_others_stay() {
    let folder = Folder::new();
    let memory = memory();
    memory
        .add_corpus(build(&folder, "a", &[&[1, 2]]), Readers::All)
        .expect("a free name");
    let other = build(&folder, "b", &[&[3, 4]]);
    memory
        .add_corpus(other, Readers::Namespaces(vec!["x".into()]))
        .expect("a free name");
    let before = memory.corpora();
    let again = Corpus::open(&path(&folder, "a")).expect("a whole file");
    let error = memory.add_corpus(again, Readers::All).expect_err("taken");
    assert!(
        error.to_string().contains("\"a\" is already loaded"),
        "{error}"
    );
    let error = memory.remove_corpus("c").expect_err("unknown");
    assert_eq!(
        error.to_string(),
        "corpus \"c\" is not loaded; loaded: a, b"
    );
    assert_eq!(memory.corpora(), before);
    memory.remove_corpus("a").expect("loaded");
    assert_eq!(memory.corpora(), before[1..]);
}
