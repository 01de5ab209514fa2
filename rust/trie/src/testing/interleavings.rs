//! Every interleaving of a writer and a reader of one segment, within what loom can explore.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p spectrie-trie --lib --target-dir target/loom
//! interleavings`

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::Arc;
use loom::thread;

use crate::store::chains::{Chains, ORDERS, collect, suffix_hashes};
use crate::store::grant::Grant;
use crate::store::segment::Segment;
use crate::{SEPARATOR, TokenId};

/// Switches between threads at other than waiting, per execution.
const PREEMPTIONS: usize = 3;

const CAPACITY: usize = 16;

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let executions = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        model();
    });
    let executions = executions.load(Relaxed);
    println!("{executions} executions");
    assert!(executions > 10, "loom explores little: {executions}");
}

fn segment() -> Arc<Segment> {
    let grant = Grant::unbounded(Segment::bytes_for(CAPACITY));
    Arc::new(Segment::new(0, CAPACITY, grant))
}

/// What a draft reads after `context`: each occurrence followed to the end of its text.
fn read(segment: &Segment, context: &[TokenId]) -> Vec<Vec<TokenId>> {
    let mut occurrences = Vec::new();
    collect(
        segment,
        0,
        context,
        &mut [2; ORDERS.len()],
        &mut occurrences,
    );
    let follow = |position| {
        (position..segment.end())
            .map(|position| segment.token(position))
            .take_while(|&token| token != SEPARATOR)
            .collect()
    };
    occurrences.iter().map(|o| follow(o.position)).collect()
}

/// Runs `read` in another thread while `write` runs in this one. Loom remembers the last access
/// of a word only, so it is the reader that must come second in its first execution.
fn beside(segment: &Arc<Segment>, read: fn(&Segment), write: impl FnOnce()) {
    let reader = {
        let segment = Arc::clone(segment);
        thread::spawn(move || read(&segment))
    };
    write();
    reader.join().unwrap();
}

#[test]
fn a_reader_sees_the_start_of_a_document_that_is_being_written() {
    explore(|| {
        let segment = segment();
        let read_whole = |segment: &Segment| {
            let published = segment.head(0, suffix_hashes(&[1]).0[0]) != 0;
            let texts = read(segment, &[1]);
            assert!(texts.len() == 1 || !published, "what is published is whole");
            for text in texts {
                assert!([&[2][..], &[2, 3]].contains(&&text[..]), "{text:?}");
            }
        };
        beside(&segment, read_whole, || {
            let mut extent = segment.reserve(3);
            segment.write(&mut extent, &[1, 2, 3], 0);
        });
        assert_eq!(read(&segment, &[1]), [[2, 3]]);
    });
}

#[test]
fn documents_written_side_by_side_do_not_mix() {
    explore(|| {
        let segment = segment();
        let mut first = segment.reserve(3);
        let mut second = segment.reserve(3);
        segment.write(&mut first, &[1, 2], 0);
        let read_either = |segment: &Segment| {
            let texts = read(segment, &[1]);
            assert!(!texts.is_empty(), "the first document was there before");
            for text in texts {
                assert!([&[2][..], &[2, 3], &[5]].contains(&&text[..]), "{text:?}");
            }
        };
        beside(&segment, read_either, || {
            segment.write(&mut second, &[1, 5], 0);
            segment.write(&mut first, &[1, 2, 3], 2);
        });
        assert_eq!(read(&segment, &[1]), [&[5][..], &[2, 3]]);
    });
}

#[test]
fn cells_given_back_are_used_again_behind_a_separator() {
    explore(|| {
        let segment = segment();
        let mut first = segment.reserve(8);
        segment.write(&mut first, &[1, 2], 0);
        let read_both = |segment: &Segment| {
            for text in read(segment, &[1]) {
                assert_eq!(text, [2]);
            }
            for text in read(segment, &[3]) {
                assert_eq!(text, [4]);
            }
        };
        beside(&segment, read_both, || {
            segment.release(&first);
            let mut second = segment.reserve(2);
            segment.write(&mut second, &[3, 4], 0);
        });
        assert_eq!(read(&segment, &[1]), [[2]]);
    });
}

#[test]
fn an_extent_grows_past_its_separator() {
    explore(|| {
        let segment = segment();
        let mut extent = segment.reserve(2);
        segment.write(&mut extent, &[1, 2], 0);
        let read_start = |segment: &Segment| {
            for text in read(segment, &[1]) {
                assert!([&[2][..], &[2, 3]].contains(&&text[..]), "{text:?}");
            }
        };
        beside(&segment, read_start, || {
            segment.grow(&mut extent, 1);
            segment.write(&mut extent, &[1, 2, 3], 2);
        });
        assert_eq!(read(&segment, &[1]), [[2, 3]]);
    });
}
