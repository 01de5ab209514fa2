//! What drafters have of requests that they follow, and of those that they do not.

use super::super::cache::Cache;
use super::super::features::LEFT_OUT;
use super::{PAGE, User, check};

/// A cache that keeps features, and requests that compute their tokens there.
fn with_features() -> Cache {
    let mut cache = Cache::new(16, PAGE);
    cache.keep_features(Some(4));
    cache
}

impl User {
    /// As [`User::compute`], with features where it is not left out.
    fn compute_rows(&mut self, cache: &mut Cache) {
        let (first, count) = (self.table.kv_len(), self.tokens.len() - self.table.kv_len());
        self.table.advance(count);
        cache.keep_rows(&mut self.table, first, 0..count);
        cache.settle(self.key.arrival(), &mut self.table, &self.tokens, false);
    }
}

/// Where a request is followed from; `None` = it is left out.
fn followed_from(cache: &Cache, user: &User) -> Option<usize> {
    let is_followed = cache.feature_row(&user.table) != Some(LEFT_OUT);
    cache.first_entry(&user.table).filter(|_| is_followed)
}

#[test]
fn who_goes_on_from_pages_of_one_that_was_left_out_takes_them_all_and_is_followed_behind_them() {
    let mut cache = with_features();
    let text: Vec<u32> = (1..=13).collect();
    let mut first = User::new(0, &text[..5]);
    first.enter(&mut cache, &[]);
    first.compute_rows(&mut cache);
    cache.leave_out(&mut first.table);
    assert_eq!(followed_from(&cache, &first), None);
    first.tokens = text.clone();
    assert!(cache.grow_for_token(&mut first.table));
    cache.grow_for_drafts(&mut first.table, 7);
    first.compute_rows(&mut cache);
    // All three pages, the last two of which drafters lack. The feature before its first row is lost.
    let mut second = User::new(1, &text);
    second.enter(&mut cache, &[&first]);
    assert_eq!(second.table.kv_len(), 12);
    assert_eq!(followed_from(&cache, &second), Some(13));
    assert_eq!(cache.feature_row(&second.table), Some(-1));
    // Of the first page they have entries.
    let mut third = User::new(2, &[1, 2, 3, 4, 99, 98]);
    third.enter(&mut cache, &[&first, &second]);
    assert_eq!(third.table.kv_len(), 4);
    assert_eq!(followed_from(&cache, &third), Some(0));
    assert!(cache.feature_row(&third.table) >= Some(0));
    check(&cache, &[&first, &second, &third]);
}

#[test]
fn what_drafters_lack_is_not_copied_behind_what_they_have() {
    for is_left_out in [false, true] {
        let mut cache = with_features();
        let mut first = User::new(0, &[1, 2, 3, 4, 5, 6, 7]);
        first.enter(&mut cache, &[]);
        first.compute_rows(&mut cache);
        if is_left_out {
            cache.leave_out(&mut first.table);
        }
        let mut second = User::new(1, &[1, 2, 3, 4, 5, 6, 90, 91]);
        second.enter(&mut cache, &[&first]);
        // Two tokens are copied, and the last of them is computed again for its feature.
        assert_eq!(second.table.kv_len(), if is_left_out { 4 } else { 5 });
        assert_eq!(followed_from(&cache, &second), Some(0));
    }
}

#[test]
fn what_lies_before_the_first_entry_of_one_that_runs_is_not_copied_either() {
    let mut cache = with_features();
    let mut first = User::new(0, &[1, 2, 3, 4, 5]);
    first.enter(&mut cache, &[]);
    first.compute_rows(&mut cache);
    cache.leave_out(&mut first.table);
    first.tokens = (1..=6).collect();
    assert!(cache.grow_for_token(&mut first.table));
    first.compute_rows(&mut cache);
    cache.follow(&mut first.table, 0);
    assert_eq!(followed_from(&cache, &first), Some(7));
    let mut second = User::new(1, &[1, 2, 3, 4, 5, 6, 90, 91]);
    second.enter(&mut cache, &[&first]);
    assert_eq!(second.table.kv_len(), 4);
    assert_eq!(followed_from(&cache, &second), Some(0));
}

#[test]
fn behind_what_drafters_lack_as_much_is_copied_as_without_them() {
    let mut cache = with_features();
    let mut first = User::new(0, &[1, 2, 3, 4, 5, 6, 7]);
    first.enter(&mut cache, &[]);
    cache.leave_out(&mut first.table);
    first.compute_rows(&mut cache);
    let mut second = User::new(
        1,
        &[1, 2, 3, 4, 5, 6, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99],
    );
    second.enter(&mut cache, &[&first]);
    assert_eq!(second.table.kv_len(), 6);
    // Of its second page they have what comes behind the next row alone.
    assert_eq!(followed_from(&cache, &second), Some(7));
    second.compute_rows(&mut cache);
    cache.take_copies();
    let mut third = User::new(2, &second.tokens);
    third.enter(&mut cache, &[&second]);
    // The feature of the last of its pages is there, and all of them but the first two are of use.
    assert_eq!(third.table.kv_len(), 15 - 1);
    assert_eq!(followed_from(&cache, &third), Some(8));
    cache.take_copies();
    check(&cache, &[&first, &second, &third]);
}

#[test]
fn one_whose_page_is_replaced_by_one_that_drafters_lack_is_followed_from_there() {
    for is_left_out in [false, true] {
        let mut cache = with_features();
        let text: Vec<u32> = (1..=10).collect();
        let mut users = [0, 1].map(|arrival| User::new(arrival, &text));
        for user in &mut users {
            user.enter(&mut cache, &[]);
        }
        if is_left_out {
            cache.leave_out(&mut users[0].table);
        }
        for user in &mut users {
            user.compute_rows(&mut cache);
        }
        let [first, second] = users;
        assert_eq!(first.table.pages()[..2], second.table.pages()[..2]);
        let from = if is_left_out { 8 } else { 0 };
        assert_eq!(followed_from(&cache, &second), Some(from));
        check(&cache, &[&first, &second]);
    }
}

#[test]
fn one_that_is_followed_again_is_from_the_token_after_the_next_on() {
    let mut cache = with_features();
    let text: Vec<u32> = (1..=24).collect();
    let mut first = User::new(0, &text);
    first.enter(&mut cache, &[]);
    cache.leave_out(&mut first.table);
    for num_tokens in [6, 8, 15] {
        first.tokens = text[..num_tokens].to_vec();
        first.compute_rows(&mut cache);
        cache.follow(&mut first.table, 0);
        // The feature before the next one is gone.
        assert_eq!(followed_from(&cache, &first), Some(num_tokens + 1));
        assert!(!cache.is_in_sight(&first.table));
        cache.leave_out(&mut first.table);
    }
    cache.follow(&mut first.table, 0);
    for num_tokens in [16, 19, 20] {
        first.tokens = text[..num_tokens].to_vec();
        first.compute_rows(&mut cache);
        cache.follow(&mut first.table, 0);
        assert_eq!(followed_from(&cache, &first), Some(16));
        assert_eq!(cache.is_in_sight(&first.table), num_tokens == 20);
    }
    // One that has computed nothing has lost nothing.
    let mut second = User::new(1, &[99; 8]);
    second.enter(&mut cache, &[&first]);
    cache.leave_out(&mut second.table);
    cache.follow(&mut second.table, 0);
    assert_eq!(followed_from(&cache, &second), Some(0));
    assert!(cache.is_in_sight(&second.table));
}

#[test]
fn of_a_prompt_that_is_left_out_the_end_may_be_followed_and_later_more_of_it() {
    let mut cache = with_features();
    let text: Vec<u32> = (1..=24).collect();
    let mut one = User::new(0, &text);
    one.enter(&mut cache, &[]);
    cache.leave_out(&mut one.table);
    one.tokens = text[..6].to_vec();
    one.compute_rows(&mut cache);
    cache.follow(&mut one.table, 18);
    assert_eq!(followed_from(&cache, &one), Some(16));
    one.tokens = text[..9].to_vec();
    one.compute_rows(&mut cache);
    // The feature of its last token is known, and its next row gets an entry.
    for from in [12, 0, 20] {
        cache.follow(&mut one.table, from);
        let expected = if from == 12 { 12 } else { 9 };
        assert_eq!(followed_from(&cache, &one), Some(expected), "{from}");
    }
    one.tokens = text.clone();
    one.compute_rows(&mut cache);
    // The third page lacks an entry of its first token.
    let mut other = User::new(1, &text[..17]);
    other.enter(&mut cache, &[&one]);
    assert_eq!(followed_from(&cache, &other), Some(12));
    assert!(cache.feature_row(&other.table) >= Some(0));
}

#[test]
fn what_lies_behind_a_page_that_drafters_lack_is_of_use_to_them_from_there_on() {
    let mut cache = with_features();
    let text: Vec<u32> = (1..=14).collect();
    let mut first = User::new(0, &text[..5]);
    let mut second = User::new(1, &text[..13]);
    for user in [&mut first, &mut second] {
        user.enter(&mut cache, &[]);
    }
    cache.leave_out(&mut first.table);
    first.compute_rows(&mut cache);
    second.compute_rows(&mut cache);
    assert_eq!(followed_from(&cache, &second), Some(4));
    let mut third = User::new(2, &text);
    third.enter(&mut cache, &[&first, &second]);
    assert_eq!(third.table.kv_len(), 12);
    assert_eq!(followed_from(&cache, &third), Some(4));
    assert!(cache.feature_row(&third.table) >= Some(0));
    cache.take_copies();
    check(&cache, &[&first, &second, &third]);
}

#[test]
fn of_a_prompt_whose_end_is_followed_the_pages_before_that_lack_entries() {
    let mut cache = with_features();
    let text: Vec<u32> = (1..=14).collect();
    let mut first = User::new(0, &text);
    let mut prefix = cache.find(&mut first.table, &text[..13]);
    prefix.followed_from = Some(10);
    let none = std::iter::empty();
    cache.seat(0, &mut first.table, prefix, 14, &text[..13], none);
    assert_eq!(followed_from(&cache, &first), Some(8));
    first.compute_rows(&mut cache);
    for (num_tokens, from) in [(14, 8), (8, 8), (4, 4)] {
        let mut second = User::new(1, &text[..num_tokens]);
        second.tokens.push(99);
        second.enter(&mut cache, &[]);
        assert_eq!(second.table.kv_len(), num_tokens / 4 * 4);
        assert_eq!(followed_from(&cache, &second), Some(from));
        assert!(cache.feature_row(&second.table) >= Some(0));
        cache.close(1, &mut second.table, &[]);
    }
}
