//! What is held of streams for Redis.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use redis::{RedisResult, Value};
use spectrie_proto::worker_v1::Learn;

use super::commands::Written;
use super::sharing::Sharing;
use super::take::Taking;
use super::tend::Pending;
use super::tend::{lose, verify, write};
use crate::config::{FleetConfig, LimitsConfig};
use crate::failover::{Record, ResumeToken};
use crate::fleet::connection::Bus;
use crate::fleet::handle::{Fleet, Link, Shared};
use crate::fleet::keys::ModelKey;
use crate::fleet::pupils::{Gone, Pupils};
use crate::fleet::records::entry::{End, Entry, Names};
use crate::fleet::records::written::tests as written;
use crate::fleet::wire::Wire;
use crate::metrics::Metrics;
use crate::sync::lock;

fn shared() -> Arc<Shared> {
    let config = FleetConfig {
        redis: Some("unix:/nowhere".into()),
        ..FleetConfig::default()
    };
    let metrics = Arc::new(Metrics::new());
    let made = Fleet::new(&config, &LimitsConfig::default(), None, metrics);
    made.unwrap().0.0.unwrap()
}

fn names(id: &str) -> Names {
    Names {
        key: id.into(),
        tenant: None,
        id: id.into(),
    }
}

fn record() -> Record {
    written::record(&ResumeToken::draw().unwrap(), 1)
}

/// What waits for its turn.
fn due(shared: &Shared) -> Vec<Arc<Entry>> {
    shared.streams.due(100)
}

#[test]
fn no_text_waits_for_a_redis_that_is_away() {
    let shared = shared();
    shared.link.send_replace(Link::Down);
    for number in 0..3 {
        Sharing::new(&shared, names(&number.to_string()), false).leave(record());
        drop(Sharing::new(&shared, names(&number.to_string()), false));
    }
    assert!(due(&shared).is_empty());
    assert_eq!(shared.streams.num_bytes(), 0);
    // The names of those that clients may go on with do.
    let unsaid = shared.streams.unsaid(100);
    let ids: Vec<_> = unsaid.iter().map(|entry| &*entry.id).collect();
    assert_eq!(ids, ["0", "1", "2"]);
    // What Redis has is let go later.
    Sharing::new(&shared, names("a"), true).leave(record());
    let waiting = due(&shared);
    let ends: Vec<_> = waiting
        .iter()
        .filter_map(|entry| entry.turn()?.next.end)
        .collect();
    assert!(matches!(ends[..], [End::Free]), "{ends:?}");
}

#[test]
fn text_that_waits_when_redis_goes_is_given_up() {
    let shared = shared();
    let entry = Arc::new(Entry::new(names("a"), "life", true));
    let change = entry.give_end(End::Left(Box::new(record())));
    assert!(shared.streams.changed(&entry, change, true));
    let unwritten = Arc::new(Entry::new(names("b"), "life", false));
    let change = unwritten.give_end(End::Left(Box::new(record())));
    assert!(shared.streams.changed(&unwritten, change, false));
    shared.streams.cut();
    assert_eq!(shared.streams.unsaid(100)[0].id, "b");
    let end = due(&shared)[0].turn().unwrap().next.end;
    assert!(matches!(end, Some(End::Free)), "{end:?}");
}

#[test]
fn what_ends_while_it_is_written_first_is_dropped_there() {
    let entry = Entry::new(names("a"), "life", false);
    entry.give_whole(record());
    assert!(entry.turn().is_some());
    assert!(entry.give_end(End::Dropped).1);
}

#[test]
fn turn_that_is_broken_off_loses_nothing() {
    let shared = shared();
    let entry = Arc::new(Entry::new(names("a"), "life", true));
    entry.give_whole(record());
    assert!(!entry.wants_whole());
    drop(Pending::new(&shared, &entry));
    assert!(entry.wants_whole());
    // Its end is still to be written, and in its turn.
    entry.give_end(End::Dropped);
    drop(Pending::new(&shared, &entry));
    let waiting = due(&shared);
    let end = waiting[0].turn().unwrap().next.end;
    assert!(matches!(end, Some(End::Dropped)), "{end:?}");
}

#[test]
fn each_message_takes_little_more_than_its_tokens() {
    let shared = shared();
    let entry = Arc::new(Entry::new(names("a"), "life", true));
    entry.give_whole(record());
    let (mut more, count) = (0, 200);
    for number in 0..count {
        more += entry.give_piece(written::piece(0, number, &[1])).0;
    }
    assert!(more < 100 * count.cast_signed(), "{more}");
    drop(entry.turn());
    entry.wrote(255);
    assert!(!entry.wants_whole());
    // So many are put together, and counted again.
    entry.wrote(256);
    assert!(entry.wants_whole());
    assert!(due(&shared).is_empty());
}

#[test]
fn withdrawn_stream_is_not_freed_after_all() {
    let shared = shared();
    let sharing = Sharing::new(&shared, names("a"), true);
    let entry = sharing.entry().clone();
    shared.streams.withdraw(&entry);
    drop(sharing.let_go());
    let end = entry.turn().unwrap().next.end;
    assert!(matches!(end, Some(End::Dropped)), "{end:?}");
}

#[test]
fn stream_that_is_being_taken_over_is_not_yet_owned() {
    let shared = shared();
    let own = Sharing::new(&shared, names("a"), false);
    own.entry().turn();
    let taken = Sharing::new(&shared, names("b"), true);
    let owned = || shared.streams.owned().len();
    assert_eq!((owned(), shared.streams.running().len()), (1, 2));
    taken.entry().note_taken();
    assert_eq!(owned(), 2);
}

#[test]
fn stream_of_which_nothing_was_written_is_not_asked_for() {
    let shared = shared();
    // Its name may be that of another stream that was left.
    let begun = Sharing::new(&shared, names("a"), false);
    assert!(shared.streams.owned().is_empty());
    begun.entry().turn();
    assert_eq!(shared.streams.owned().len(), 1);
}

#[test]
fn no_number_of_an_attempt_is_given_to_two_streams_that_come_from_elsewhere() {
    let streams = &shared().streams;
    assert_eq!(streams.behind_all(0), 63);
    // The same record again, and one that is ahead.
    assert_eq!(streams.behind_all(0), 127);
    assert_eq!(streams.behind_all(1_000), 1_023);
    assert_eq!(streams.behind_all(0), 1_087);
    assert!(streams.behind_all(u32::MAX) < u32::MAX);
}

/// A Redis that gives this number for each write, and knows of no lease.
struct Says(i64);

impl Bus for Says {
    fn answer(&self, words: Vec<Vec<u8>>) -> BoxFuture<'static, RedisResult<Value>> {
        let number = Value::Int(self.0);
        let answer = if words[1].starts_with(b"-- live") {
            Value::Array(vec![Value::Int(0), Value::Array(Vec::new())])
        } else {
            number
        };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

/// What a router does with a stream whose first words are lost on their way to such a Redis.
async fn ask_for_a_stream_that_begins(number: i64) -> (bool, bool) {
    let (shared, ended) = (shared(), Ended::default());
    let sharing = Sharing::new(&shared, names("a"), false);
    sharing.entry().give_whole(record());
    drop(Pending::new(&shared, sharing.entry()));
    let wire = Wire::simulated(Arc::new(Says(number)));
    sharing.entry().give_whole(record());
    verify(&shared, &ended, &wire).await.unwrap();
    (
        !lock(&ended.0).is_empty(),
        sharing.entry().wants_whole() && !sharing.is_lost(),
    )
}

#[tokio::test]
async fn stream_that_begins_is_not_ended_by_another_of_its_name() {
    assert_eq!(ask_for_a_stream_that_begins(-2).await, (false, true));
    // Its words did come, and another router has gone on with it since.
    assert_eq!(ask_for_a_stream_that_begins(-1).await, (true, false));
}

#[tokio::test]
async fn whole_record_that_comes_while_redis_says_that_it_has_nothing_is_written() {
    let shared = shared();
    let sharing = Sharing::new(&shared, names("a"), true);
    let entry = sharing.entry();
    entry.give_whole(record());
    let wire = Wire::simulated(Arc::new(Says(0)));
    drop(entry.turn());
    let turn = Pending::new(&shared, entry);
    assert_eq!(write(turn, wire.clone()).await.unwrap(), Written::Gone);
    assert!(entry.wants_whole());
    let turn = Pending::new(&shared, entry);
    entry.give_whole(record());
    assert_eq!(write(turn, wire).await.unwrap(), Written::Gone);
    assert!(!entry.wants_whole() && entry.turn().unwrap().next.whole.is_some());
}

#[tokio::test]
async fn name_that_is_anothers_is_shared_no_more() {
    let shared = shared();
    let sharing = Sharing::new(&shared, names("a"), false);
    sharing.whole(record());
    let wire = Wire::simulated(Arc::new(Says(-2)));
    let written = write(Pending::new(&shared, sharing.entry()), wire).await;
    assert_eq!(written.unwrap(), Written::Namesake);
    assert!(!sharing.is_lost());
    assert_eq!(shared.streams.num_bytes(), 0);
}

#[tokio::test]
async fn stream_that_redis_has_not_is_rung_for_and_no_other() {
    let shared = shared();
    let sharing = Sharing::new(&shared, names("a"), true);
    sharing.entry().give_whole(record());
    assert!(shared.streams.unwritten().is_empty());
    sharing.entry().want_whole();
    shared.streams.unwritten()[0].ring();
    let is_rung = || sharing.rung().now_or_never().is_some();
    assert!(is_rung() && !is_rung());
}

#[test]
fn text_of_a_stream_that_was_let_go_is_left_to_who_goes_on_with_it() {
    let shared = shared();
    let fleet = Fleet(Some(shared.clone()));
    let sharing = Sharing::new(&shared, names("a"), false);
    let origin = sharing.origin();
    assert!(!fleet.may_have_lost(Some(&origin)));
    drop(sharing.let_go());
    assert!(origin.is_lost() && fleet.may_have_lost(Some(&origin)));
}

/// A Redis whose one record was left, and from which it is taken in this time.
struct Left(Duration);

impl Bus for Left {
    fn answer(&self, words: Vec<Vec<u8>>) -> BoxFuture<'static, RedisResult<Value>> {
        assert!(words[1].starts_with(b"-- take"));
        let time = self.0;
        let owner = Value::BulkString(b"-life:1".to_vec());
        Box::pin(async move {
            tokio::time::advance(time).await;
            Ok(Value::Array(vec![owner, Value::Array(Vec::new())]))
        })
    }
}

/// What comes of asking for a stream of which the router has the record itself.
async fn take_own(time: Duration) -> Taking {
    let shared = shared();
    let wire = Wire::simulated(Arc::new(Left(time)));
    shared.link.send_replace(Link::Up(wire));
    let own = Record {
        holder: Some("life:1".into()),
        ..record()
    };
    let fleet = Fleet(Some(shared));
    fleet.take(None, "id", &own.token, Some(&own)).await
}

#[tokio::test(start_paused = true)]
async fn stream_that_was_left_is_taken() {
    let taking = take_own(Duration::from_millis(2)).await;
    assert!(matches!(taking, Taking::Taken(_)), "{taking:?}");
}

#[tokio::test(start_paused = true)]
async fn stream_that_was_taken_before_this_router_stood_still_may_be_anothers() {
    let taking = take_own(Duration::from_secs(1)).await;
    assert!(matches!(taking, Taking::Late(Some(_))), "{taking:?}");
}

/// A Redis that has nothing, and notes what it is asked for.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Bus for Heard {
    fn answer(&self, words: Vec<Vec<u8>>) -> BoxFuture<'static, RedisResult<Value>> {
        let script = String::from_utf8_lossy(&words[1]).into_owned();
        let answer = if script.starts_with("-- take") {
            Value::Array(Vec::new())
        } else {
            Value::Int(1)
        };
        lock(&self.0).extend(script.lines().next().map(str::to_owned));
        Box::pin(std::future::ready(Ok(answer)))
    }
}

#[tokio::test(start_paused = true)]
async fn stream_is_taken_behind_the_last_words_that_this_router_has_of_it() {
    let (shared, heard) = (shared(), Arc::new(Heard::default()));
    let wire = Wire::simulated(heard.clone());
    shared.link.send_replace(Link::Up(wire.clone()));
    let sharing = Sharing::new(&shared, names("a"), true);
    let own = Record {
        holder: Some(sharing.leave(record())),
        ..record()
    };
    let fleet = Fleet(Some(shared.clone()));
    // Its turn has come, and nothing is on its way yet.
    let waiting = due(&shared);
    let taking = fleet.take(None, "a", &own.token, Some(&own));
    let writing = write(Pending::new(&shared, &waiting[0]), wire);
    let (taking, written) = tokio::join!(taking, writing);
    assert!(matches!(taking, Taking::Nothing), "{taking:?}");
    assert_eq!(written.unwrap(), Written::Done);
    assert_eq!(*lock(&heard.0), ["-- write", "-- take"]);
}

/// The streams that were ended.
#[derive(Default)]
struct Ended(Mutex<Vec<String>>);

impl Pupils for Ended {
    fn teach(&self, _: &ModelKey, _: &Learn) -> usize {
        0
    }

    fn forget<'a>(&'a self, _: &'a ModelKey, _: &'a str, _: u64) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }

    fn end_stream(&self, _: Option<&str>, id: &str, _: Gone) {
        lock(&self.0).push(id.to_owned());
    }
}

#[test]
fn stream_that_goes_on_at_its_own_router_is_not_ended_by_what_is_written_late() {
    let (shared, ended) = (shared(), Ended::default());
    let cut = Sharing::new(&shared, names("a"), false);
    let before = cut.entry().clone();
    // A write of it is under way while its client goes on.
    cut.leave(record());
    let again = Sharing::new(&shared, names("a"), true);
    lose(&shared, &ended, &before);
    assert!(lock(&ended.0).is_empty() && !again.is_lost() && !before.is_lost());
    lose(&shared, &ended, again.entry());
    assert_eq!(*lock(&ended.0), ["a"]);
}
