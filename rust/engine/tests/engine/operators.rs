//! What operators do while requests run: corpora, namespaces, snapshots.

use std::path::PathBuf;

use crate::support::driver::{Driver, config, request};
use crate::support::reference;
use spectrie_engine::{EngineConfig, EngineError, Request};
use spectrie_trie::{CorpusBuilder, Readers};
use spectrie_types::SpeculationMode;

/// A corpus file that is removed with its test.
struct CorpusFile(PathBuf);

impl CorpusFile {
    fn new(name: &str, fingerprint: &str, document: &[u32]) -> Self {
        let file = format!("spectrie-engine-{}-{name}.corpus", std::process::id());
        let path = std::env::temp_dir().join(file);
        let mut builder = CorpusBuilder::new(name, fingerprint).unwrap();
        builder.push(document).unwrap();
        builder.finish(&path).unwrap();
        Self(path)
    }
}

impl Drop for CorpusFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Prompt and answer of a request.
fn text_of(request: &Request) -> Vec<u32> {
    [request.prompt_ids.clone(), reference::decode(request).0].concat()
}

fn with_tokenizer(fingerprint: &str) -> EngineConfig {
    EngineConfig {
        tokenizer_fingerprint: Some(fingerprint.into()),
        ..config()
    }
}

/// Steps until a request has `count` tokens.
fn step_until(driver: &mut Driver, handle: u64, count: usize) {
    while driver
        .tokens
        .get(&handle)
        .is_none_or(|tokens| tokens.len() < count)
    {
        driver.step();
    }
}

#[test]
fn a_corpus_drafts_for_requests_that_run_already_until_it_is_removed() {
    let first = request(1, &[3, 4, 5], 60);
    let file = CorpusFile::new("answers", "abc", &text_of(&first));
    let mut driver = Driver::new(with_tokenizer("abc"));
    driver.submit(first);
    step_until(&mut driver, 1, 5);
    let info = driver.engine.add_corpus(&file.0, Readers::All).unwrap();
    assert_eq!((info.name.as_str(), info.num_tokens), ("answers", 63));
    assert_eq!(driver.engine.load().corpus_bytes, info.bytes);
    driver.run();
    let accepted = driver.finishes[&1].stats.accepted_by_source[5];
    assert!(accepted > 10, "{accepted}");
    assert!(driver.engine.corpora()[0].accepted_tokens > 10);

    driver.engine.remove_corpus("answers").unwrap();
    driver.submit(Request {
        learn: false,
        namespace: "other".into(),
        ..request(2, &[3, 4, 5], 60)
    });
    driver.run();
    assert_eq!(driver.finishes[&2].stats.accepted_by_source[5], 0);
    assert!(driver.engine.corpora().is_empty());
}

#[test]
fn a_corpus_is_read_by_its_readers_alone() {
    let file = CorpusFile::new("theirs", "abc", &text_of(&request(1, &[3, 4, 5], 60)));
    let mut driver = Driver::new(with_tokenizer("abc"));
    let readers = Readers::Namespaces(vec!["tenant".into()]);
    driver.engine.add_corpus(&file.0, readers).unwrap();
    let mut accepted = |handle, namespace: &str| {
        driver.submit(Request {
            namespace: namespace.into(),
            ..request(handle, &[3, 4, 5], 60)
        });
        driver.run();
        driver.finishes[&handle].stats.accepted_by_source[5]
    };
    let theirs = accepted(1, "tenant");
    assert!(theirs > 15, "{theirs}");
    assert_eq!(accepted(2, "other"), 0);
}

#[test]
fn foreign_unknown_and_duplicate_corpora_are_refused() {
    let foreign = CorpusFile::new("foreign", "xyz", &[1, 2, 3]);
    let own = CorpusFile::new("own", "abc", &[1, 2, 3]);
    let engine = Driver::new(with_tokenizer("abc")).engine;
    let message = |result: Result<(), EngineError>| result.unwrap_err().to_string();
    let add = |file: &CorpusFile| engine.add_corpus(&file.0, Readers::All).map(|_| ());
    assert!(message(add(&foreign)).contains("was built with tokenizer xyz, the model's is abc"));
    add(&own).unwrap();
    assert!(message(add(&own)).contains("\"own\" is already loaded"));
    assert!(message(engine.remove_corpus("none")).contains("loaded: own"));
    let missing = engine.add_corpus(&PathBuf::from("/nowhere/x.corpus"), Readers::All);
    assert!(
        missing
            .unwrap_err()
            .to_string()
            .contains("/nowhere/x.corpus")
    );
    assert_eq!(engine.corpora().len(), 1);
}

#[test]
fn without_speculation_there_is_no_memory_and_calls_say_so() {
    let file = CorpusFile::new("unused", "abc", &[1, 2, 3]);
    let engine = Driver::new(EngineConfig {
        speculation: SpeculationMode::Off,
        ..config()
    })
    .engine;
    let refused = engine.add_corpus(&file.0, Readers::All);
    assert_eq!(refused, Err(EngineError::SpeculationOff));
    engine.learn("default", &[1, 2, 3]).unwrap();
    assert!(engine.namespaces().is_empty() && !engine.forget("default").unwrap());
}

#[test]
fn a_request_drafts_from_the_prompt_of_one_that_still_runs() {
    // The answer of the second request, as a prompt of the first.
    let second = request(2, &[3, 4, 5], 60);
    let mut driver = Driver::new(config());
    driver.submit(request(1, &text_of(&second), 30));
    step_until(&mut driver, 1, 1);
    driver.submit(second);
    driver.run();
    let shared = driver.finishes[&2].stats.accepted_by_source[4];
    assert!(shared > 15, "{shared}");
}

#[test]
fn output_of_a_running_request_is_taught_when_no_stop_text_can_cut_it() {
    let config = EngineConfig {
        max_context: 400,
        num_pages: 200,
        ..config()
    };
    let mut driver = Driver::new(config);
    driver.submit(request(1, &[3, 4, 5], 300));
    step_until(&mut driver, 1, 40);
    assert_eq!(driver.engine.load().memory_tokens, 3);
    let (load, queue) = (driver.engine.load(), driver.engine.queue_load());
    assert_eq!((queue.memory_tokens, queue.memory_bytes), (0, 0));
    assert_eq!((queue.waiting, queue.steps), (load.waiting, load.steps));
    assert!(queue.longest_step_ms > 0.0);
    step_until(&mut driver, 1, 150);
    let emitted = driver.tokens[&1].len() as u64;
    assert_eq!(driver.engine.load().memory_tokens, 3 + emitted - 64);
    driver.engine.cancel(1, Some(120), true);
    driver.run();
    assert_eq!(driver.engine.load().memory_tokens, 123);
}

#[test]
fn requests_that_may_not_teach_leave_no_token() {
    let mut driver = Driver::new(config());
    driver.submit(Request {
        learn: false,
        ..request(1, &[3, 4, 5], 60)
    });
    driver.run();
    assert_eq!(driver.engine.load().memory_tokens, 0);
}

#[test]
fn a_forgotten_namespace_is_empty_and_its_running_requests_teach_no_more() {
    let mut driver = Driver::new(config());
    driver.submit(request(1, &[3, 4, 5], 60));
    step_until(&mut driver, 1, 5);
    assert!(driver.engine.forget("default").unwrap());
    driver.run();
    assert_eq!(driver.engine.load().memory_tokens, 0);
    assert!(!driver.engine.forget("default").unwrap());
    driver.submit(request(2, &[3, 4, 5], 60));
    driver.run();
    assert_eq!(driver.finishes[&2].stats.accepted_by_source[4], 0);
    assert_eq!(driver.engine.namespaces()[0].num_tokens, 63);
}

#[test]
fn resumed_requests_teach_prompt_and_answer_once() {
    let whole = request(1, &[3, 4, 5], 60);
    let mut driver = Driver::new(config());
    driver.submit(Request {
        emitted_token_ids: reference::decode(&whole).0[..20].to_vec(),
        ..whole
    });
    driver.run();
    assert_eq!(driver.engine.load().memory_tokens, 63);
}

#[test]
fn a_long_prompt_that_the_prefix_cache_has_is_taught_in_pieces() {
    let config = EngineConfig {
        max_context: 10_200,
        num_pages: 4_000,
        ..config()
    };
    let mut driver = Driver::new(config);
    let prompt: Vec<u32> = (0..10_000).map(|i| i * i % 37 + 1).collect();
    driver.submit(request(1, &prompt, 1));
    driver.run();
    let held = |driver: &Driver| driver.engine.load().memory_tokens;
    let first = held(&driver);
    assert_eq!(first, 10_001);
    driver.submit(request(2, &prompt, 90));
    let mut taught = Vec::new();
    while driver.step().is_some() {
        taught.push(held(&driver) - first);
    }
    assert_eq!(driver.finishes[&2].stats.cached_tokens, 9_999);
    assert_eq!(taught[..3], [4096, 8192, 10_000], "{taught:?}");
    assert_eq!(held(&driver), first + 10_090);
}

#[test]
fn a_long_prompt_of_a_short_answer_is_taught_in_pieces_beside_others() {
    let config = EngineConfig {
        max_context: 10_200,
        num_pages: 4_000,
        ..config()
    };
    let mut driver = Driver::new(config);
    let prompt: Vec<u32> = (0..10_000).map(|i| i * i % 37 + 1).collect();
    driver.submit(request(1, &prompt, 1));
    driver.run();
    let first = driver.engine.load().memory_tokens;
    driver.submit(Request {
        learn: false,
        ..request(2, &[3, 4, 5], 90)
    });
    driver.submit(request(3, &prompt, 1));
    let mut taught = Vec::new();
    while driver.step().is_some() {
        taught.push(driver.engine.load().memory_tokens - first);
    }
    assert_eq!(driver.finishes[&3].stats.cached_tokens, 9_999);
    let mut steps: Vec<_> = taught.windows(2).map(|two| two[1] - two[0]).collect();
    steps.push(taught[0]);
    assert!(steps.iter().all(|&taught| taught <= 2 * 4096), "{taught:?}");
    assert_eq!(taught.last(), Some(&10_001), "{taught:?}");
}
