//! Bytes that saves write over a long run, and text that is written beside a saver.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::support::{ROOT, TOKENIZER, memory, pairs, save};
use crate::TokenId;
use crate::namespaces::snapshot::compaction::MAX_SMALL_PARTS;
use crate::namespaces::snapshot::snapshots::Snapshots;
use crate::store::disk::Disk;
use crate::testing::memory_disk::MemoryDisk;

/// Teaches four namespaces at random, saves after so many lessons of so many tokens, restarts and
/// forgets now and then. Gives the bytes written for each byte of the tokens taught.
fn written_per_byte(rounds: u32, capacity_bytes: usize, lessons: u32, most_tokens: u32) -> f64 {
    let disk = Arc::new(MemoryDisk::default());
    let new = || memory(&disk, capacity_bytes);
    let mut memory = new();
    let mut random = StdRng::seed_from_u64(u64::from(rounds));
    let (mut taught, mut written) = (0, 0);
    for round in 0..rounds {
        for _ in 0..lessons {
            let name = ["a", "a", "b", "c", "d"][random.random_range(0..5)];
            let tokens = random.random_range(2..most_tokens);
            let text: Vec<TokenId> = (0..tokens)
                .map(|_| random.random_range(0..50_000))
                .collect();
            let mut insertion = memory.namespace(name).begin();
            for piece in text.chunks(100) {
                insertion.push(piece);
            }
            taught += u64::from(tokens) * size_of::<TokenId>() as u64;
        }
        let info = save(&memory);
        assert!(info.bytes <= disk.all().values().map(Vec::len).sum());
        let parts = disk
            .all()
            .into_keys()
            .filter(|path| path.to_string_lossy().contains("part-"));
        // Those of the manifest before are there too.
        assert!(parts.count() <= 2 * MAX_SMALL_PARTS + 1);
        if round % 50 == 49 {
            memory.forget("d").unwrap();
            let held = save(&memory).num_tokens;
            written += memory.snapshot_written_bytes();
            memory = new();
            let restored = memory.restore(Path::new(ROOT), TOKENIZER).unwrap();
            // Where memory was full, what does not fit beside new tables is left out.
            if restored.num_tokens == held {
                assert_eq!(save(&memory).written_bytes, 0, "nothing is new");
            }
        }
    }
    written += memory.snapshot_written_bytes();
    written as f64 / taught as f64
}

#[test]
fn saves_write_at_most_six_bytes_for_each_byte_learnt_over_a_long_run() {
    // Memory that is far from full; full memory, whose text is evicted; small saves.
    for (rounds, capacity_bytes, lessons, most_tokens) in [
        (150, 64 << 20, 20, 2000),
        (300, 1 << 20, 20, 500),
        (600, 4 << 20, 6, 500),
    ] {
        let ratio = written_per_byte(rounds, capacity_bytes, lessons, most_tokens);
        println!("{ratio:.2} bytes written per byte learnt");
        assert!(ratio <= 6.0, "{ratio}");
        assert!(ratio >= 1.0, "everything was written once: {ratio}");
    }
}

#[test]
fn a_save_that_somebody_waits_for_gives_way_before_the_next_block() {
    let disk = Arc::new(MemoryDisk::default());
    let memory = memory(&disk, 64 << 20);
    let documents: u32 = 40;
    for number in 0..documents {
        let text: Vec<TokenId> = (0..1000).map(|token| number * 1000 + token).collect();
        memory.namespace("a").insert(&text);
    }
    let tries = memory.oldest_first();
    let num_blocks = tries[0].view().blocks().len();
    assert!(num_blocks >= 2);
    let mut snapshots = Snapshots::new(Arc::clone(&disk) as Arc<dyn Disk>);
    // Somebody comes while each of the blocks is written, as `forget` may.
    for written in 0..num_blocks {
        let asked = Cell::new(0);
        let is_awaited = || asked.replace(asked.get() + 1) == written;
        let saved = snapshots.save(Path::new(ROOT), TOKENIZER, &tries, is_awaited);
        assert!(saved.unwrap().is_none());
        assert_eq!(asked.get(), written + 1);
    }
    let saved = snapshots.save(Path::new(ROOT), TOKENIZER, &tries, || false);
    assert_eq!(saved.unwrap().unwrap().num_tokens, memory.num_tokens());
    let again = self::memory(&disk, 64 << 20);
    again.restore(Path::new(ROOT), TOKENIZER).unwrap();
    assert_eq!(again.num_tokens(), memory.num_tokens());
}

/// Tokens in a cycle, so that any other continuation is torn or invented.
const CYCLE: TokenId = 97;

#[test]
fn what_is_written_beside_a_saver_is_saved_then_or_the_next_time() {
    let disk = Arc::new(MemoryDisk::default());
    let memory = memory(&disk, 64 << 20);
    let done = AtomicBool::new(false);
    let documents: u32 = 400;
    let half_written = Barrier::new(4);
    thread::scope(|scope| {
        let (memory, half_written) = (&memory, &half_written);
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let shared = memory.namespace("a");
                scope.spawn(move || {
                    for number in 0..documents {
                        if number == documents / 2 {
                            half_written.wait();
                        }
                        // Of its own tokens, in pieces that fill cells of older groups late.
                        let first = (writer * documents + number) * CYCLE;
                        let mut insertion = shared.begin();
                        for start in (0..200).step_by(7) {
                            let piece = (start..(start + 7).min(200)).map(|i| first + i % CYCLE);
                            insertion.push(&piece.collect::<Vec<_>>());
                        }
                    }
                })
            })
            .collect();
        let saver = scope.spawn(|| {
            save(memory);
            half_written.wait();
            let saved = save(memory);
            while !done.load(Ordering::Acquire) {
                save(memory);
            }
            saved.num_tokens
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Release);
        let half = u64::from(3 * documents / 2 * 200);
        assert!(saver.join().unwrap() >= half);
    });
    save(&memory);
    let again = self::memory(&disk, 64 << 20);
    again.restore(Path::new(ROOT), TOKENIZER).unwrap();
    assert_eq!(again.num_tokens(), u64::from(3 * documents * 200));
    let cells = |memory: &crate::DraftMemory| {
        let view = memory.namespace("a").view();
        let blocks = view.blocks().iter();
        let cells = blocks.flat_map(|block| {
            (0..block.capacity() as u32).map(|cell| (block.token(cell), block.is_context(cell)))
        });
        cells.collect::<Vec<_>>()
    };
    assert!(cells(&again) == cells(&memory), "every cell was saved");
    let shared = again.namespace("a");
    for number in 0..3 * documents {
        let first = number * CYCLE;
        let drafted = pairs(&shared, &[first + 3, first + 4]);
        assert!(drafted.contains(&(first + 4, first + 5)), "{number}");
    }
}
