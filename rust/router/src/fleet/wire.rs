//! The commands that the bus sends, and what it makes of any answer.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, Value, cmd};

use super::address::Address;
use super::connection::Connection;
use super::keys::{Latest, MAX_NAMESPACES, ModelKey};

/// How long Redis may take for a connection or an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a read waits for the next entry.
const BLOCK: Duration = Duration::from_secs(1);
/// Entries that a stream keeps.
pub(super) const MAX_ENTRIES: usize = 1024;
/// A stream that nobody writes to any more is gone after a day.
const TEXT_LIFETIME_S: u64 = 24 * 60 * 60;
/// So are generations after a year.
const FORGOTTEN_LIFETIME_S: u64 = 365 * 24 * 60 * 60;
/// Fields of a hash that are asked for at once.
const SCANNED: usize = 1024;
/// How often, for a hash that something else fills: the rest is looked at when this was deleted.
const MAX_SCANS: usize = 4 * MAX_NAMESPACES / SCANNED;
/// The one field of an entry.
pub(super) const FIELD: &str = "e";

/// Place of an entry in a stream: milliseconds of Redis's clock, and a number.
pub(crate) type StreamId = (u64, u64);

/// An entry as it was found; bytes where there is anything that may be ours.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) id: StreamId,
    pub(super) bytes: Option<Vec<u8>>,
}

/// Why a command was of no use.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The connection is.
    Lost(String),
    /// Redis does not do it now: it is full, read only, or asks for more rights.
    Refused(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Lost(reason) | Self::Refused(reason)) = self;
        formatter.write_str(reason)
    }
}

impl From<RedisError> for Trouble {
    fn from(error: RedisError) -> Self {
        // Only a server's own error has a code; its words may quote what was sent.
        match error.code() {
            Some(code) if !error.is_io_error() => Self::Refused(format!("Redis says {code}")),
            _ if error.is_timeout() => Self::Lost("no answer in time".into()),
            _ if error.is_io_error() => Self::Lost(error.to_string()),
            _ => Self::Lost(format!("no answer of Redis's: {:?}", error.kind())),
        }
    }
}

/// A connection. Cheap to clone; each clone's commands may overtake the others'.
#[derive(Clone)]
pub(super) struct Wire(Connection);

impl fmt::Debug for Wire {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Wire")
    }
}

impl Wire {
    /// Connects; gives up after two seconds.
    pub(super) async fn connect(address: &Address) -> Result<Self, Trouble> {
        let client = Client::open(address.info())?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE + BLOCK));
        let connecting = async move {
            let connection = client.get_multiplexed_async_connection_with_config(&config);
            // Names are looked up, and a server may take a connection and say nothing.
            match tokio::time::timeout(2 * PATIENCE, connection).await {
                Ok(connection) => Ok(Self(Connection::Redis(connection?))),
                Err(_) => Err(Trouble::Lost("no answer in time".into())),
            }
        };
        // With TLS the certificates of this machine are read from disk first: on no serving thread.
        let runtime = tokio::runtime::Handle::current();
        let connected = tokio::task::spawn_blocking(move || runtime.block_on(connecting)).await;
        connected.unwrap_or_else(|_| Err(Trouble::Lost("the router is shutting down".into())))
    }

    /// One that a test answers.
    #[cfg(test)]
    pub(super) fn simulated(bus: std::sync::Arc<dyn super::connection::Bus>) -> Self {
        Self(Connection::Simulated(bus))
    }

    /// Whether it answers.
    pub(super) async fn ping(&mut self) -> Result<(), Trouble> {
        self.0.send(&cmd("PING")).await?;
        Ok(())
    }

    /// Sends a command about `key`, which must be of `kind`: anything else there is removed, since
    /// nobody but these routers has a use for a key of that name.
    pub(super) async fn ask(
        &mut self,
        command: &Cmd,
        key: &str,
        kind: &str,
    ) -> Result<Value, Trouble> {
        let error = match self.0.send(command).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if error.code() == Some("WRONGTYPE") {
            self.repair(key, kind).await?;
        }
        Err(error.into())
    }

    pub(super) async fn repair(&mut self, key: &str, kind: &str) -> Result<(), Trouble> {
        let found = self.0.send(cmd("TYPE").arg(key)).await?;
        let is_kind =
            matches!(&found, Value::SimpleString(found) if found == kind || found == "none");
        if !is_kind {
            tracing::warn!(
                key,
                "a key of the fleet held something else and was removed"
            );
            self.remove(key).await?;
        }
        Ok(())
    }

    pub(super) async fn remove(&mut self, key: &str) -> Result<(), Trouble> {
        self.0.send(cmd("UNLINK").arg(key)).await?;
        Ok(())
    }

    /// Adds an entry to a model's stream, which drops its oldest ones.
    pub(super) async fn add(&mut self, model: &ModelKey, bytes: &[u8]) -> Result<(), Trouble> {
        let key = model.texts();
        let mut add = cmd("XADD");
        add.arg(&key).arg("MAXLEN").arg("=").arg(MAX_ENTRIES);
        add.arg("*").arg(FIELD).arg(bytes);
        self.send_add(&add, key).await.map(drop)
    }

    /// Sends what adds to the stream at `key`, which is removed where it takes no entries.
    pub(super) async fn send_add(&mut self, add: &Cmd, key: String) -> Result<Value, Trouble> {
        let error = match self.0.send(add).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if error.code() == Some("WRONGTYPE") {
            self.repair(&key, "stream").await?;
        } else if is_at_its_end(&error.to_string()) {
            // Something else wrote there: none of ours could follow.
            tracing::warn!(
                key,
                "a stream of the fleet took no more entries and was removed"
            );
            self.remove(&key).await?;
        }
        Err(error.into())
    }

    /// Says again that a model's keys are in use.
    pub(super) async fn keep(&mut self, model: &ModelKey) -> Result<(), Trouble> {
        for (key, seconds) in [
            (model.texts(), TEXT_LIFETIME_S),
            (model.forgotten(), FORGOTTEN_LIFETIME_S),
        ] {
            let mut expire = cmd("EXPIRE");
            expire.arg(&key).arg(seconds);
            self.0.send(&expire).await?;
        }
        Ok(())
    }

    /// The entries after a place in each of some streams, waiting a second for the first one.
    pub(super) async fn read(
        &mut self,
        places: &BTreeMap<ModelKey, StreamId>,
        count: usize,
    ) -> Result<BTreeMap<ModelKey, Vec<Found>>, Trouble> {
        let keys: BTreeMap<_, _> = places.keys().map(|model| (model.texts(), model)).collect();
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(count);
        read.arg("BLOCK")
            .arg(BLOCK.as_millis() as u64)
            .arg("STREAMS");
        for key in keys.keys() {
            read.arg(key);
        }
        for model in keys.values() {
            read.arg(places.get(*model).map(text_of));
        }
        let answer = match self.0.send(&read).await {
            Ok(answer) => answer,
            Err(error) => {
                if error.code() == Some("WRONGTYPE") {
                    for key in keys.keys() {
                        self.repair(key, "stream").await?;
                    }
                }
                return Err(error.into());
            }
        };
        let mut found = BTreeMap::new();
        for stream in items(answer) {
            let mut stream = items(stream).into_iter();
            let (Some(Value::BulkString(key)), Some(entries)) = (stream.next(), stream.next())
            else {
                continue;
            };
            if let Some(model) = keys.get(&*String::from_utf8_lossy(&key)) {
                found.insert(
                    (*model).clone(),
                    items(entries).into_iter().filter_map(found_in).collect(),
                );
            }
        }
        Ok(found)
    }

    /// The newest entries up to a place in a model's stream, newest first; all when it is absent.
    pub(super) async fn newest(
        &mut self,
        model: &ModelKey,
        before: Option<StreamId>,
        count: usize,
    ) -> Result<Vec<Found>, Trouble> {
        let key = model.texts();
        let end = before.map_or_else(|| "+".to_owned(), |id| format!("({}", text_of(&id)));
        let mut range = cmd("XREVRANGE");
        range.arg(&key).arg(end).arg("-").arg("COUNT").arg(count);
        let answer = self.ask(&range, &key, "stream").await?;
        Ok(items(answer).into_iter().filter_map(found_in).collect())
    }

    /// The highest place that a model's stream gave; none if there is no stream.
    pub(super) async fn last(&mut self, model: &ModelKey) -> Result<Option<StreamId>, Trouble> {
        let key = model.texts();
        let mut info = cmd("XINFO");
        info.arg("STREAM").arg(&key);
        let answer = match self.0.send(&info).await {
            Ok(answer) => items(answer),
            // There is no such key.
            Err(error) if error.code() == Some("ERR") => return Ok(None),
            Err(error) => {
                if error.code() == Some("WRONGTYPE") {
                    self.repair(&key, "stream").await?;
                }
                return Err(error.into());
            }
        };
        let mut pairs = answer.chunks_exact(2);
        let last =
            pairs.find_map(|pair| (name(&pair[0]) == "last-generated-id").then(|| name(&pair[1])));
        Ok(last.as_deref().and_then(read_id))
    }

    /// Deletes entries of a model's stream.
    pub(super) async fn delete(
        &mut self,
        model: &ModelKey,
        ids: &[StreamId],
    ) -> Result<(), Trouble> {
        if ids.is_empty() {
            return Ok(());
        }
        let key = model.texts();
        let mut delete = cmd("XDEL");
        delete.arg(&key);
        for id in ids {
            delete.arg(text_of(id));
        }
        self.ask(&delete, &key, "stream").await?;
        Ok(())
    }

    /// The generations of a model's namespaces, the latest [`MAX_NAMESPACES`] of them. What is more, and
    /// what is no generation, is deleted.
    pub(super) async fn generations(
        &mut self,
        model: &ModelKey,
    ) -> Result<BTreeMap<String, u64>, Trouble> {
        let key = model.forgotten();
        let mut latest = Latest::default();
        let mut cursor = "0".to_owned();
        for _ in 0..MAX_SCANS {
            let mut scan = cmd("HSCAN");
            scan.arg(&key).arg(&cursor).arg("COUNT").arg(SCANNED);
            let mut answer = items(self.ask(&scan, &key, "hash").await?).into_iter();
            cursor = answer.next().as_ref().map(name).unwrap_or_default();
            let fields = answer.next().map(items).unwrap_or_default();
            for pair in fields.chunks_exact(2) {
                latest.add(name(&pair[0]), name(&pair[1]).parse().ok());
            }
            let surplus = latest.take_surplus();
            if !surplus.is_empty() {
                let mut delete = cmd("HDEL");
                delete.arg(&key).arg(surplus);
                // A Redis that takes no more commands of this kind still answers.
                drop(self.ask(&delete, &key, "hash").await);
            }
            if cursor == "0" || cursor.is_empty() {
                break;
            }
        }
        Ok(latest.found)
    }

    /// Writes the generation of a namespace.
    pub(super) async fn set_generation(
        &mut self,
        model: &ModelKey,
        namespace: &str,
        generation: u64,
    ) -> Result<(), Trouble> {
        let key = model.forgotten();
        let mut set = cmd("HSET");
        set.arg(&key).arg(namespace).arg(generation);
        self.ask(&set, &key, "hash").await?;
        Ok(())
    }
}

/// Whether a stream takes no more entries, by its error: the last one's id is of the far future, or the
/// last that there is.
fn is_at_its_end(error: &str) -> bool {
    error.contains("equal or smaller") || error.contains("last possible ID")
}

fn text_of(id: &StreamId) -> String {
    format!("{}-{}", id.0, id.1)
}

fn read_id(text: &str) -> Option<StreamId> {
    let (milliseconds, number) = text.split_once('-')?;
    Some((milliseconds.parse().ok()?, number.parse().ok()?))
}

/// The items of an array; none of anything else.
pub(super) fn items(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

pub(super) fn name(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

/// An entry of a stream, whatever its fields are.
fn found_in(value: Value) -> Option<Found> {
    let mut entry = items(value).into_iter();
    let id = read_id(&name(&entry.next()?))?;
    let mut fields = items(entry.next().unwrap_or(Value::Nil)).into_iter();
    let is_ours = fields.next().is_some_and(|field| name(&field) == FIELD);
    let bytes = match fields.next() {
        Some(Value::BulkString(bytes)) if is_ours => Some(bytes),
        _ => None,
    };
    Some(Found { id, bytes })
}
