//! The cache beside requests of its own.

mod features;

use std::sync::Arc;

use super::cache::Cache;
use super::reuse::Resident;
use super::siblings::count;
use super::table::PageTable;
use crate::request_key::RequestKey;

const PAGE: usize = 4;

/// A request of a cache alone.
struct User {
    key: RequestKey,
    table: PageTable,
    tokens: Vec<u32>,
}

impl User {
    fn new(arrival: u64, tokens: &[u32]) -> Self {
        Self {
            key: RequestKey::new(arrival),
            table: PageTable::new(Arc::from("a"), true),
            tokens: tokens.to_vec(),
        }
    }

    fn resident(&self) -> Resident<'_> {
        Resident {
            key: self.key,
            table: &self.table,
            tokens: &self.tokens,
        }
    }

    fn reusable(&self) -> &[u32] {
        &self.tokens[..self.tokens.len() - 1]
    }

    /// Takes its place beside `others`.
    fn enter(&mut self, cache: &mut Cache, others: &[&User]) {
        let end = self.tokens.len() - 1;
        let prefix = cache.find(&mut self.table, &self.tokens[..end]);
        let running = others.iter().map(|one| one.resident());
        let (owner, count) = (self.key.arrival(), self.tokens.len());
        let reusable = &self.tokens[..end];
        cache.seat(owner, &mut self.table, prefix, count, reusable, running);
    }

    /// Computes the rest of its tokens.
    fn compute(&mut self, cache: &mut Cache) {
        self.table.advance(self.tokens.len() - self.table.kv_len());
        cache.settle(self.key.arrival(), &mut self.table, &self.tokens, false);
    }
}

fn check(cache: &Cache, users: &[&User]) {
    cache.check(users.iter().map(|one| one.resident()), std::iter::empty());
}

#[test]
fn a_second_request_takes_full_pages_and_copies_the_beginning_of_the_next() {
    let mut cache = Cache::new(8, PAGE);
    let text: Vec<u32> = (1..=11).collect();
    let mut first = User::new(0, &text);
    first.enter(&mut cache, &[]);
    assert_eq!(first.table.kv_len(), 0);
    first.compute(&mut cache);
    let mut second = User::new(1, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 77]);
    second.enter(&mut cache, &[&first]);
    // Two pages are shared; two tokens of the third are copied.
    assert_eq!(second.table.kv_len(), 10);
    assert_eq!(second.table.pages()[..2], first.table.pages()[..2]);
    let (from, to) = cache.take_copies();
    assert_eq!(
        from,
        [cache.slot(&first.table, 8), cache.slot(&first.table, 9)]
    );
    assert_eq!(
        to,
        [cache.slot(&second.table, 8), cache.slot(&second.table, 9)]
    );
    check(&cache, &[&first, &second]);
    assert_eq!(cache.occupancy().held, 4);
}

#[test]
fn texts_behind_one_system_prompt_are_not_searched_one_by_one() {
    // Pages that are compared to seat one more text behind a page with so many others.
    let compared = |num_texts: u32| {
        let mut cache = Cache::new(2 * num_texts as usize, PAGE);
        let text = |index: u32| {
            let own = [index / 128, index % 128, 5, 6, 7].map(|token| token + 10);
            [vec![1, 2, 3, 4], own.to_vec()].concat()
        };
        for index in 0..num_texts {
            let mut user = User::new(u64::from(index), &text(index));
            user.enter(&mut cache, &[]);
            user.compute(&mut cache);
            cache.take_copies();
            cache.close(u64::from(index), &mut user.table, &user.tokens);
        }
        let mut other = text(num_texts / 2);
        other[7] = 9;
        let mut user = User::new(u64::from(num_texts), &other);
        count::take();
        user.enter(&mut cache, &[]);
        assert_eq!(user.table.kv_len(), PAGE + 3, "it copies what it can");
        count::take()
    };
    let (few, many) = (compared(100), compared(16_000));
    assert!(few <= 50 && many <= 100, "{few} {many}");
}

#[test]
fn what_a_running_request_computes_next_is_waited_for_and_little_is_not() {
    let mut cache = Cache::new(8, PAGE);
    let mut first = User::new(0, &[1, 2, 3, 4, 5, 6]);
    first.enter(&mut cache, &[]);
    let awaited = |tokens: &[u32]| {
        let mut second = User::new(1, tokens);
        let end = tokens.len() - 1;
        let prefix = cache.find(&mut second.table, &tokens[..end]);
        let prefilling = std::iter::once(first.resident());
        cache.computing(&second.table, second.reusable(), &prefix, prefilling)
    };
    assert_eq!(awaited(&[1, 8, 9, 9]), None);
    assert_eq!(awaited(&[1, 2, 9]), Some(first.key));
    // One token is less than half a page.
    assert_eq!(awaited(&[1, 9]), None);
    assert_eq!(awaited(&[1, 2, 3, 4, 9]), Some(first.key));
}

#[test]
fn copies_of_a_request_go_with_its_pages() {
    let mut cache = Cache::new(6, PAGE);
    let mut user = User::new(0, &[1, 2, 3, 4, 5]);
    user.enter(&mut cache, &[]);
    user.compute(&mut cache);
    assert_eq!(cache.grow_for_drafts(&mut user.table, 3), 3);
    user.table.accept(&[2]);
    user.tokens.extend([6, 7]);
    user.table.advance(2);
    cache.settle(0, &mut user.table, &user.tokens, true);
    cache.vacate(0, &mut user.table);
    assert_eq!(cache.take_copies(), (Vec::new(), Vec::new()));
    assert_eq!((user.table.kv_len(), user.table.pages().len()), (0, 0));
    check(&cache, &[]);
}

#[test]
fn drafts_get_what_is_left_and_give_it_back() {
    let mut cache = Cache::new(2, PAGE);
    let mut user = User::new(0, &[1, 2, 3, 4, 5]);
    user.enter(&mut cache, &[]);
    user.compute(&mut cache);
    assert!(cache.grow_for_token(&mut user.table));
    assert_eq!(cache.grow_for_drafts(&mut user.table, 9), 2);
    cache.settle(0, &mut user.table, &user.tokens, true);
    assert_eq!(cache.num_available(), 0);
    cache.close(0, &mut user.table, &user.tokens);
    assert_eq!((cache.num_available(), cache.occupancy().idle), (2, 1));
    cache.forget("a");
    assert_eq!(cache.occupancy().idle, 0);
    assert_eq!(cache.scratch(9).len(), 2);
}
