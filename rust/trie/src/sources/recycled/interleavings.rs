//! Every interleaving of writers and a reader of one bucket, within what loom can explore: `make test-loom`.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::Arc;
use loom::thread;

use super::slots::{SLOT_BYTES, Slots, WAYS};
use crate::TokenId;
use crate::store::grant::Grant;

/// Switches between threads at other than waiting, per execution.
const PREEMPTIONS: usize = 3;

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
    assert!(executions > 10, "loom explores little: {executions}");
}

/// A key whose slot, where all are taken, is number `way`.
fn key(number: u64, way: u64) -> u64 {
    way << 16 | number
}

/// Two answers to a key, which no other key has.
fn tokens(key: u64) -> [TokenId; 2] {
    let number = key as TokenId & 0xFFFF;
    [10 * number, 10 * number + 1]
}

fn write(slots: &Slots, key: u64) {
    slots.write(0, key, &tokens(key).map(|token| (token, 0.5)));
}

/// What is found; every token must be one of the key's.
fn read(slots: &Slots, key: u64) -> Option<Vec<TokenId>> {
    let answer = slots.read(0, key)?;
    let found: Vec<_> = answer.tokens().iter().map(|&(token, _)| token).collect();
    assert!(
        tokens(key).starts_with(&found),
        "{found:?} is no answer to {key:x}"
    );
    Some(found)
}

/// One bucket with answers to `keys`.
fn bucket(keys: &[u64]) -> Arc<Slots> {
    let slots = Slots::new(Grant::unbounded(WAYS * SLOT_BYTES));
    keys.iter().for_each(|&key| write(&slots, key));
    Arc::new(slots)
}

#[test]
fn a_reader_sees_no_answer_to_a_key_that_takes_the_place_of_another() {
    explore(|| {
        let (old, new) = (key(3, 0), key(9, 2));
        let slots = bucket(&[key(1, 0), key(2, 0), old, key(4, 0)]);
        let reader = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || {
                read(&slots, old);
                read(&slots, new);
            })
        };
        write(&slots, new);
        reader.join().unwrap();
        assert_eq!(read(&slots, new), Some(tokens(new).to_vec()));
        assert_eq!(read(&slots, old), None);
    });
}

#[test]
fn writers_who_take_one_slot_leave_no_mixed_answer() {
    explore(|| {
        let (one, other) = (key(3, 0), key(9, 0));
        let slots = bucket(&[]);
        let writer = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || write(&slots, one))
        };
        write(&slots, other);
        read(&slots, one);
        writer.join().unwrap();
        read(&slots, one);
        read(&slots, other);
    });
}

#[test]
fn keys_that_are_taken_out_beside_a_reader_come_whole_or_cut_off() {
    explore(|| {
        let moved = key(3, 0);
        let slots = bucket(&[key(1, 0), moved]);
        let reader = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || read(&slots, moved))
        };
        let taken: Vec<_> = slots.take(0, |key| key == moved).collect();
        assert_eq!(taken.len(), 1);
        write(&slots, key(5, 0));
        let seen = reader.join().unwrap();
        assert!(seen.is_none_or(|found| tokens(moved).starts_with(&found)));
    });
}
