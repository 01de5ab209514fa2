//! Every interleaving of a writer and a reader of one view, within what loom can explore: `make test-loom`.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::Arc;
use loom::thread;

use crate::store::block::Block;
use crate::store::chains::{Chains, ORDERS, collect, suffix_hashes};
use crate::store::grant::Grant;
use crate::store::heads::Table;
use crate::store::resize::Moving;
use crate::store::view::View;
use crate::{SEPARATOR, TokenId};

/// Switches between threads at other than waiting, per execution.
const PREEMPTIONS: usize = 4;

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

fn add_block(view: &mut View) -> u64 {
    let id = view.next_id();
    let grant = Grant::unbounded(Block::bytes_for(CAPACITY));
    view.push(std::sync::Arc::new(Block::new(id, CAPACITY, grant)));
    for order in 0..ORDERS.len() {
        while let Some(buckets) = view.heads()[order].missing_level(order, view.capacity()) {
            let grant = Grant::unbounded(Table::level_bytes(buckets));
            view.add_level(order, buckets, grant);
        }
    }
    id
}

/// A view of one empty block, and its number.
fn view() -> (View, u64) {
    let mut view = View::default();
    let id = add_block(&mut view);
    (view, id)
}

/// Writes a document of its own.
fn insert(view: &View, id: u64, text: &[TokenId]) {
    let Some(block) = view.block(id) else { return };
    let mut extent = block.reserve(text.len());
    view.write(id, &mut extent, text, 0);
}

/// What a draft reads after `context`: each occurrence followed to the end of its text.
fn read(view: &View, context: &[TokenId]) -> Vec<Vec<TokenId>> {
    let mut occurrences = Vec::new();
    collect(view, 0, context, &mut [2; ORDERS.len()], &mut occurrences);
    let follow = |position| {
        (position..view.end())
            .map(|position| view.token(position))
            .take_while(|&token| token != SEPARATOR)
            .collect()
    };
    occurrences.iter().map(|o| follow(o.position)).collect()
}

/// Runs `read` in another thread while `write` runs in this one. Loom remembers the last access
/// of a word only, so it is the reader that must come second in its first execution.
fn beside(view: &Arc<View>, read: fn(&View), write: impl FnOnce()) {
    let reader = {
        let view = Arc::clone(view);
        thread::spawn(move || read(&view))
    };
    write();
    reader.join().unwrap();
}

#[test]
fn a_reader_sees_the_start_of_a_document_that_is_being_written() {
    explore(|| {
        let (view, id) = view();
        let view = Arc::new(view);
        let read_whole = |view: &View| {
            let published = view.head(0, suffix_hashes(&[1]).0[0]) != 0;
            let texts = read(view, &[1]);
            assert!(texts.len() == 1 || !published, "what is published is whole");
            for text in texts {
                assert!([&[2][..], &[2, 3]].contains(&&text[..]), "{text:?}");
            }
        };
        beside(&view, read_whole, || insert(&view, id, &[1, 2, 3]));
        assert_eq!(read(&view, &[1]), [[2, 3]]);
    });
}

#[test]
fn what_is_written_beside_a_save_is_in_it_or_counts_as_unsaved() {
    explore(|| {
        let (view, id) = view();
        let view = Arc::new(view);
        let save = |view: &View, id| {
            let block = view.block(id).unwrap();
            let counted = block.num_tokens();
            let taken = block.dirty().take();
            let end = block.end();
            assert!(counted <= end, "what is counted lies before the end");
            let mut cells = Vec::new();
            block.copy(0..end, &mut cells);
            (counted, taken, cells)
        };
        let saver = {
            let view = Arc::clone(&view);
            thread::spawn(move || save(&view, id))
        };
        insert(&view, id, &[1, 2]);
        let (counted, taken, saved) = saver.join().unwrap();
        assert!(counted == 0 || !taken.is_empty(), "it is saved");
        let (_, later, now) = save(&view, id);
        assert!(!taken.is_empty() || !later.is_empty());
        if later.is_empty() {
            assert_eq!(saved, now, "nothing is left for the next save");
        }
    });
}

#[test]
fn documents_written_side_by_side_do_not_mix() {
    explore(|| {
        let (view, id) = view();
        let view = Arc::new(view);
        let block = view.block(id).unwrap();
        let mut first = block.reserve(3);
        let mut second = block.reserve(3);
        view.write(id, &mut first, &[1, 2], 0);
        let read_either = |view: &View| {
            let texts = read(view, &[1]);
            assert!(!texts.is_empty(), "the first document was there before");
            for text in texts {
                assert!([&[2][..], &[2, 3], &[5]].contains(&&text[..]), "{text:?}");
            }
        };
        beside(&view, read_either, || {
            view.write(id, &mut second, &[1, 5], 0);
            view.write(id, &mut first, &[1, 2, 3], 2);
        });
        assert_eq!(read(&view, &[1]), [&[5][..], &[2, 3]]);
    });
}

#[test]
fn cells_given_back_are_used_again_behind_a_separator() {
    explore(|| {
        let (view, id) = view();
        let view = Arc::new(view);
        let block = view.block(id).unwrap();
        let mut first = block.reserve(8);
        view.write(id, &mut first, &[1, 2], 0);
        let read_both = |view: &View| {
            for text in read(view, &[1]) {
                assert_eq!(text, [2]);
            }
            for text in read(view, &[3]) {
                assert_eq!(text, [4]);
            }
        };
        beside(&view, read_both, || {
            block.release(&first);
            insert(&view, id, &[3, 4]);
        });
        assert_eq!(read(&view, &[1]), [[2]]);
    });
}

#[test]
fn an_extent_grows_past_its_separator() {
    explore(|| {
        let (view, id) = view();
        let view = Arc::new(view);
        let block = view.block(id).unwrap();
        let mut extent = block.reserve(2);
        view.write(id, &mut extent, &[1, 2], 0);
        let read_start = |view: &View| {
            for text in read(view, &[1]) {
                assert!([&[2][..], &[2, 3]].contains(&&text[..]), "{text:?}");
            }
        };
        beside(&view, read_start, || {
            block.grow(&mut extent, 1);
            view.write(id, &mut extent, &[1, 2, 3], 2);
        });
        assert_eq!(read(&view, &[1]), [[2, 3]]);
    });
}

#[test]
fn late_text_is_linked_behind_newer_blocks() {
    explore(|| {
        let (mut view, old) = view();
        let mut late = view.block(old).unwrap().reserve(5);
        view.write(old, &mut late, &[4], 0);
        let new = add_block(&mut view);
        insert(&view, new, &[1, 5]);
        let view = Arc::new(view);
        let read_newest_first = |view: &View| {
            let texts = read(view, &[1]);
            assert_eq!(texts[0], [5], "what was there is never lost");
            let late = [&[2][..], &[2, 1], &[2, 1, 3], &[3]];
            assert!(
                texts.len() == 1 || late.contains(&&texts[1][..]),
                "{texts:?}"
            );
        };
        beside(&view, read_newest_first, || {
            view.write(old, &mut late, &[4, 1, 2, 1, 3], 1);
        });
        assert_eq!(read(&view, &[1]), [[5], [3]]);
    });
}

#[test]
fn a_bucket_is_split_and_merged_beside_a_reader() {
    explore(|| {
        let (mut view, id) = view();
        insert(&view, id, &[1, 2]);
        insert(&view, id, &[3, 4]);
        insert(&view, id, &[1, 5]);
        let before = view.heads()[0].size();
        // More text, for which the tables are to grow: all buckets are split, those of this text too.
        for _ in 0..3 {
            add_block(&mut view);
        }
        let view = Arc::new(view);
        let read_some = |view: &View| {
            for text in read(view, &[1]) {
                assert!([&[2][..], &[5]].contains(&&text[..]), "{text:?}");
            }
        };
        beside(&view, read_some, || {
            view.settle(before as usize, &mut Moving::default());
        });
        assert_eq!(view.heads()[0].size(), before * 4);
        assert_eq!(read(&view, &[1]), [[5], [2]]);
        assert_eq!(read(&view, &[3]), [[4]]);
    });
}

#[test]
fn the_oldest_block_goes_beside_a_reader() {
    explore(|| {
        let (mut view, old) = view();
        insert(&view, old, &[1, 2]);
        let new = add_block(&mut view);
        insert(&view, new, &[1, 5]);
        let mut after = view.clone();
        let view = Arc::new(view);
        let read_both = |view: &View| {
            let texts = read(view, &[1]);
            // Its links may lead to slots that were used since, but to no text that is not there.
            for text in texts {
                let taught = [&[2][..], &[5], &[6], &[6, 1], &[6, 1, 7], &[7]];
                assert!(taught.contains(&&text[..]), "{text:?}");
            }
        };
        beside(&view, read_both, || {
            after.drop_oldest();
            insert(&after, new, &[1, 6, 1, 7]);
        });
        assert_eq!(read(&after, &[1]), [&[7][..], &[6, 1, 7]]);
    });
}
