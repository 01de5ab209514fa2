//! A Redis in memory, as far as routers use one.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::Value;
use tokio::sync::Notify;

use super::super::world::Broken;
use super::scripts;
use crate::fleet::{ModelKey, text_of};
use crate::sync::{lock, now};

pub(super) type Words = Vec<Vec<u8>>;
type Id = (u64, u64);

/// What is at a key.
#[derive(Debug)]
pub(super) enum Kind {
    Text,
    Hash(BTreeMap<String, Vec<u8>>),
    List(Words),
    Stream(Vec<(Id, Vec<u8>)>),
}

#[derive(Debug)]
pub(super) struct Key {
    pub(super) kind: Kind,
    /// When it is gone.
    pub(super) until: Option<Instant>,
}

/// All keys.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) by_name: BTreeMap<String, Key>,
    num_added: u64,
    /// Each entry of a stream that there ever was, with how often all was flushed before it.
    added: Vec<(usize, Vec<u8>)>,
    num_flushes: usize,
    pub(super) broken: Option<Broken>,
}

#[derive(Debug, Default)]
pub(super) struct Redis {
    keys: Mutex<Keys>,
    /// Rings when a stream has another entry.
    added: Notify,
}

/// A word as text.
pub(super) fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

pub(super) fn millis(word: &[u8]) -> Duration {
    Duration::from_millis(text(word).parse().unwrap())
}

pub(super) fn bulk(bytes: impl AsRef<[u8]>) -> Value {
    Value::BulkString(bytes.as_ref().to_vec())
}

impl Redis {
    /// Carries scripts out as a router with this fault would have written them.
    pub(super) fn new(broken: Option<Broken>) -> Self {
        let redis = Self::default();
        lock(&redis.keys).broken = broken;
        redis
    }

    /// Forgets everything.
    pub(super) fn flush(&self) {
        let mut keys = lock(&self.keys);
        keys.by_name.clear();
        keys.num_flushes += 1;
    }

    /// Carries out a command. One that waits for an entry holds its connection meanwhile.
    pub(super) async fn answer(&self, words: &Words) -> Value {
        if words[0] != b"XREAD" {
            return self.run(words);
        }
        let until = now() + millis(&words[4]);
        loop {
            let rings = self.added.notified();
            let found = self.run(words);
            if found != Value::Nil || tokio::time::timeout_at(until.into(), rings).await.is_err() {
                return found;
            }
        }
    }

    fn run(&self, words: &Words) -> Value {
        let mut keys = lock(&self.keys);
        keys.expire();
        let name = words.get(1).map(|word| text(word)).unwrap_or_default();
        match &*text(&words[0]) {
            "PING" | "EXPIRE" => Value::Int(1),
            "EVAL" => {
                let answer = scripts::run(&mut keys, words);
                drop(keys);
                self.added.notify_waiters();
                answer
            }
            "XADD" => {
                keys.add(&name, words.last().unwrap());
                drop(keys);
                self.added.notify_waiters();
                Value::Int(1)
            }
            "XINFO" => {
                let last = format!("{}-0", keys.num_added);
                Value::Array(vec![bulk("last-generated-id"), bulk(last)])
            }
            "XREAD" => keys.read(&words[6..]),
            "HSCAN" => Value::Array(vec![bulk("0"), Value::Array(Vec::new())]),
            "UNLINK" => Value::Int(keys.by_name.remove(&name).is_some().into()),
            other => panic!("routers of this simulation have no use for {other}"),
        }
    }

    /// The names of keys that hold what this begins.
    pub(super) fn names(&self, begin: &str) -> Vec<String> {
        let mut keys = lock(&self.keys);
        keys.expire();
        let names = keys.by_name.keys();
        let names = names.filter(|name| name.starts_with(begin));
        names.cloned().collect()
    }

    /// The texts that were shared of a model, each with how often all was flushed before it.
    pub(super) fn texts(&self, model: &ModelKey) -> Vec<(usize, Vec<u32>)> {
        let keys = lock(&self.keys);
        let texts = keys.added.iter().map(|(num_flushes, bytes)| {
            let text = text_of(bytes, model).expect("of this model");
            (*num_flushes, text)
        });
        texts.collect()
    }
}

impl Keys {
    fn expire(&mut self) {
        let now = now();
        self.by_name
            .retain(|_, key| key.until.is_none_or(|until| until > now));
    }

    /// Adds an entry to a stream.
    pub(super) fn add(&mut self, name: &str, bytes: &[u8]) {
        self.num_added += 1;
        self.added.push((self.num_flushes, bytes.to_vec()));
        let id = (self.num_added, 0);
        let key = self.by_name.entry(name.to_owned()).or_insert(Key {
            kind: Kind::Stream(Vec::new()),
            until: None,
        });
        let Kind::Stream(entries) = &mut key.kind else {
            panic!("{name}")
        };
        entries.push((id, bytes.to_vec()));
    }

    /// The entries of streams behind places: their names, then as many ids.
    fn read(&self, asked: &[Vec<u8>]) -> Value {
        let (names, places) = asked.split_at(asked.len() / 2);
        let found = names.iter().zip(places).filter_map(|(name, place)| {
            let place = text(place);
            let after: u64 = place.split_once('-')?.0.parse().ok()?;
            let Kind::Stream(entries) = &self.by_name.get(&text(name))?.kind else {
                return None;
            };
            let entries = entries.iter().filter(|(id, _)| id.0 > after);
            let entries: Vec<_> = entries
                .map(|(id, bytes)| {
                    let fields = Value::Array(vec![bulk("e"), bulk(bytes)]);
                    Value::Array(vec![bulk(format!("{}-{}", id.0, id.1)), fields])
                })
                .collect();
            let is_some = !entries.is_empty();
            is_some.then(|| Value::Array(vec![bulk(name), Value::Array(entries)]))
        });
        let found: Vec<_> = found.collect();
        if found.is_empty() {
            return Value::Nil;
        }
        Value::Array(found)
    }
}
