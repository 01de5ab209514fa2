//! A Redis in memory on a Unix socket, as far as routers use one, which can be made to misbehave.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::fake_streams;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

type Id = (u64, u64);
pub(super) type Words = Vec<Vec<u8>>;

/// What it does with commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Good,
    /// Takes connections and never answers.
    Silent,
    /// Answers with bytes of another protocol.
    Garbage,
    /// Takes no data.
    Full,
    /// Ends every connection.
    Cut,
}

/// What a key holds.
#[derive(Clone, Debug)]
pub enum Key {
    Stream(Vec<(Id, Words)>, Id),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Text,
    /// The key of a router's life, until then.
    Life(Instant),
    /// Streams that others want of a router.
    List(Words),
}

type Keys = Arc<Mutex<BTreeMap<String, Key>>>;

/// The server, until it is dropped.
pub struct FakeRedis {
    pub keys: Keys,
    mood: watch::Sender<Mood>,
    path: PathBuf,
    serving: JoinHandle<()>,
}

impl FakeRedis {
    pub fn start() -> Self {
        let path = std::env::temp_dir().join(format!("spectrie-redis-{:x}", rand::random::<u64>()));
        let listener = UnixListener::bind(&path).unwrap();
        let keys = Keys::default();
        let mood = watch::Sender::new(Mood::Good);
        let serving = tokio::spawn(serve(listener, keys.clone(), mood.subscribe()));
        Self {
            keys,
            mood,
            path,
            serving,
        }
    }

    /// As `--redis` takes it.
    pub fn address(&self) -> String {
        format!("unix:{}", self.path.display())
    }

    /// Changes what it does; connections end, and those to come meet the new mood.
    pub fn set(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }

    /// Refuses the scripts that begin with this line, or takes them again.
    pub fn refuse(&self, script: &str, refuses: bool) {
        let mut keys = self.keys.lock().unwrap();
        if refuses {
            keys.insert(fake_streams::refusal(script), Key::List(Words::new()));
        } else {
            keys.remove(&fake_streams::refusal(script));
        }
    }

    /// How many of these were refused since.
    pub fn num_refused(&self, script: &str) -> usize {
        match self
            .keys
            .lock()
            .unwrap()
            .get(&fake_streams::refusal(script))
        {
            Some(Key::List(refused)) => refused.len(),
            _ => 0,
        }
    }

    pub fn flush(&self) {
        self.keys.lock().unwrap().clear();
    }

    /// Puts a text where something else is.
    pub fn spoil(&self) {
        for key in self.keys.lock().unwrap().values_mut() {
            *key = Key::Text;
        }
    }

    /// The records of running streams: by their keys, the fields.
    pub fn records(&self) -> BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>> {
        let keys = self.keys.lock().unwrap();
        let records = keys.iter().filter_map(|(name, key)| match key {
            Key::Hash(fields) if name.contains(":stream:") => Some((name.clone(), fields.clone())),
            _ => None,
        });
        records.collect()
    }

    /// Ends the lives of all routers, as if they were silent for longer than their leases, until
    /// they say again that they live.
    pub fn end_lives(&self) {
        let mut keys = self.keys.lock().unwrap();
        keys.retain(|_, key| !matches!(key, Key::Life(_)));
    }

    /// Bytes of all entries of streams.
    pub fn entries(&self) -> Words {
        let keys = self.keys.lock().unwrap();
        let streams = keys.values().filter_map(|key| match key {
            Key::Stream(entries, _) => Some(entries),
            _ => None,
        });
        streams
            .flatten()
            .map(|(_, words)| words[1].clone())
            .collect()
    }

    /// Adds an entry to every stream.
    pub fn add(&self, field: &str, bytes: &[u8]) {
        for key in self.keys.lock().unwrap().values_mut() {
            if let Key::Stream(entries, last) = key {
                last.1 += 1;
                entries.push((*last, vec![field.into(), bytes.into()]));
            }
        }
    }

    /// Puts a field into every hash.
    pub fn put(&self, field: &str, value: &str) {
        for key in self.keys.lock().unwrap().values_mut() {
            if let Key::Hash(fields) = key {
                fields.insert(field.into(), value.into());
            }
        }
    }

    /// Whether any hash has a field.
    pub fn has(&self, field: &str) -> bool {
        let keys = self.keys.lock().unwrap();
        let mut hashes = keys.values();
        hashes.any(|key| matches!(key, Key::Hash(fields) if fields.contains_key(field.as_bytes())))
    }

    /// Fields of all hashes.
    pub fn fields(&self) -> BTreeMap<String, u64> {
        let keys = self.keys.lock().unwrap();
        let hashes = keys.iter().filter_map(|(name, key)| match key {
            Key::Hash(fields) if !name.contains(":stream:") => Some(fields),
            _ => None,
        });
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        hashes
            .flatten()
            .filter_map(|(field, value)| Some((text(field), text(value).parse().ok()?)))
            .collect()
    }
}

impl Drop for FakeRedis {
    fn drop(&mut self) {
        self.serving.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn serve(listener: UnixListener, keys: Keys, mood: watch::Receiver<Mood>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(answer(stream, keys.clone(), mood.clone()));
    }
}

async fn answer(stream: UnixStream, keys: Keys, mut mood: watch::Receiver<Mood>) {
    let now = *mood.borrow_and_update();
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let words = tokio::select! {
            _ = mood.changed() => return,
            words = read(&mut reader) => words,
        };
        let Some(words) = words else { return };
        let answer = match now {
            Mood::Cut => return,
            Mood::Silent => continue,
            Mood::Garbage => b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
            Mood::Full if is_write(&words) => b"-OOM command not allowed\r\n".to_vec(),
            Mood::Good | Mood::Full => tokio::select! {
                _ = mood.changed() => return,
                answer = carry_out(&keys, &words) => answer,
            },
        };
        if writer.write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn is_write(words: &Words) -> bool {
    [&b"XADD"[..], b"HSET", b"EVAL"].contains(&&*words[0])
}

async fn read(reader: &mut (impl AsyncBufRead + Unpin)) -> Option<Words> {
    let mut line = String::new();
    reader.read_line(&mut line).await.ok()?;
    let count: usize = line.strip_prefix('*')?.trim().parse().ok()?;
    let mut words = Vec::new();
    for _ in 0..count {
        line.clear();
        reader.read_line(&mut line).await.ok()?;
        let length: usize = line.strip_prefix('$')?.trim().parse().ok()?;
        let mut word = vec![0; length + 2];
        reader.read_exact(&mut word).await.ok()?;
        word.truncate(length);
        words.push(word);
    }
    Some(words)
}

async fn carry_out(keys: &Keys, words: &Words) -> Vec<u8> {
    let texts: Vec<_> = words
        .iter()
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    if texts[0] == "XREAD" {
        // XREAD COUNT n BLOCK ms STREAMS key… id…
        let deadline = Instant::now() + Duration::from_millis(texts[4].parse().unwrap());
        loop {
            let found = read_streams(
                &keys.lock().unwrap(),
                &texts[6..],
                texts[2].parse().unwrap(),
            );
            match found {
                Some(found) => return found,
                None if Instant::now() >= deadline => return b"*-1\r\n".to_vec(),
                None => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }
    change(&mut keys.lock().unwrap(), &texts, words)
}

/// Carries out any command but a reading that waits.
pub(super) fn change(keys: &mut BTreeMap<String, Key>, texts: &[&str], words: &Words) -> Vec<u8> {
    const WRONG: &[u8] = b"-WRONGTYPE of key\r\n";
    let name = texts
        .get(1)
        .map(|name| (*name).to_owned())
        .unwrap_or_default();
    match texts[0] {
        "TYPE" => match keys.get(&name) {
            None => b"+none\r\n".to_vec(),
            Some(Key::Stream(..)) => b"+stream\r\n".to_vec(),
            Some(Key::Hash(_)) => b"+hash\r\n".to_vec(),
            Some(Key::Text | Key::Life(_)) => b"+string\r\n".to_vec(),
            Some(Key::List(_)) => b"+list\r\n".to_vec(),
        },
        "UNLINK" => {
            keys.remove(&name);
            b":1\r\n".to_vec()
        }
        "EXPIRE" => b":1\r\n".to_vec(),
        "XADD" => {
            // XADD key MAXLEN = n * field value
            let Key::Stream(entries, last) =
                keys.entry(name).or_insert(Key::Stream(vec![], (0, 0)))
            else {
                return WRONG.to_vec();
            };
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_millis() as u64;
            *last = (now, 0).max((last.0, last.1 + 1));
            entries.push((*last, words[6..].to_vec()));
            let surplus = entries.len().saturating_sub(texts[4].parse().unwrap());
            entries.drain(..surplus);
            bulk(&shown(*last))
        }
        "XREVRANGE" => match keys.get(&name) {
            None => b"*0\r\n".to_vec(),
            Some(Key::Stream(entries, _)) => {
                let before = texts[2].strip_prefix('(').map(read_id);
                let entries = entries.iter().rev();
                let entries = entries.filter(|(id, _)| before.is_none_or(|before| *id < before));
                list(entries.take(texts[5].parse().unwrap()).map(entry))
            }
            Some(_) => WRONG.to_vec(),
        },
        "XINFO" => match keys.get(texts[2]) {
            None => b"-ERR no such key\r\n".to_vec(),
            Some(Key::Stream(_, last)) => {
                list([bulk(b"last-generated-id"), bulk(&shown(*last))].into_iter())
            }
            Some(_) => WRONG.to_vec(),
        },
        "XDEL" => {
            if let Some(Key::Stream(entries, _)) = keys.get_mut(&name) {
                let ids: Vec<_> = texts[2..].iter().map(|text| read_id(text)).collect();
                entries.retain(|(id, _)| !ids.contains(id));
            }
            b":1\r\n".to_vec()
        }
        "HSCAN" => {
            // HSCAN key cursor COUNT n, with the place of the next field as cursor.
            let empty = BTreeMap::new();
            let fields = match keys.get(&name) {
                None => &empty,
                Some(Key::Hash(fields)) => fields,
                Some(_) => return WRONG.to_vec(),
            };
            let (from, count): (usize, usize) =
                (texts[2].parse().unwrap(), texts[4].parse().unwrap());
            let next = Some(from + count).filter(|next| *next < fields.len());
            let found = fields.iter().skip(from).take(count);
            let pairs = found.flat_map(|(field, value)| [bulk(field), bulk(value)]);
            let cursor = bulk(next.unwrap_or(0).to_string().as_bytes());
            list([cursor, list(pairs)].into_iter())
        }
        "HDEL" => {
            if let Some(Key::Hash(fields)) = keys.get_mut(&name) {
                fields.retain(|field, _| !words[2..].contains(field));
            }
            b":1\r\n".to_vec()
        }
        "HSET" => match keys.entry(name).or_insert(Key::Hash(BTreeMap::new())) {
            Key::Hash(fields) => {
                fields.insert(words[2].clone(), words[3].clone());
                b":1\r\n".to_vec()
            }
            _ => WRONG.to_vec(),
        },
        "EVAL" if texts[1].starts_with("-- add once") => {
            // EVAL script 2 key mark n field value milliseconds
            if keys.contains_key(texts[4]) {
                return b":0\r\n".to_vec();
            }
            let add = [
                "XADD", texts[3], "MAXLEN", "=", texts[5], "*", texts[6], texts[7],
            ];
            let before = vec![Vec::new(); 6];
            let added = change(keys, &add, &[before, words[6..8].to_vec()].concat());
            if added.starts_with(b"$") {
                keys.insert(texts[4].to_owned(), Key::Text);
                return b":1\r\n".to_vec();
            }
            added
        }
        "EVAL" if texts[1].starts_with("-- ") => fake_streams::run(keys, texts, words),
        "EVAL" => match keys
            .entry(texts[3].to_owned())
            .or_insert(Key::Hash(BTreeMap::new()))
        {
            Key::Hash(fields) => draw(fields, &texts[4..]),
            _ => WRONG.to_vec(),
        },
        _ => b"+OK\r\n".to_vec(),
    }
}

/// The one script that is sent, except that nothing fills up again.
fn draw(fields: &mut BTreeMap<Vec<u8>, Vec<u8>>, numbers: &[&str]) -> Vec<u8> {
    let numbers: Vec<i64> = numbers.iter().map(|text| text.parse().unwrap()).collect();
    let [limit, used, wanted] = numbers[..] else {
        panic!("{numbers:?}")
    };
    let spent = fields.get(&b"s"[..]).map_or(0, |spent| {
        String::from_utf8_lossy(spent).parse::<i64>().unwrap()
    });
    let spent = (spent + used).max(0);
    let granted = wanted.min(limit - spent).max(0);
    let spent = spent + granted;
    fields.insert(b"s".to_vec(), spent.to_string().into_bytes());
    let wait = (spent + 1 - limit).max(0) * 60_000 / limit;
    format!("*2\r\n:{granted}\r\n:{wait}\r\n").into_bytes()
}

fn read_streams(keys: &BTreeMap<String, Key>, texts: &[&str], count: usize) -> Option<Vec<u8>> {
    let (names, after) = texts.split_at(texts.len() / 2);
    let mut found = Vec::new();
    for (name, after) in names.iter().zip(after) {
        let entries = match keys.get(*name) {
            None => continue,
            Some(Key::Stream(entries, _)) => entries,
            Some(_) => return Some(b"-WRONGTYPE of key\r\n".to_vec()),
        };
        let entries = entries.iter().filter(|(id, _)| *id > read_id(after));
        let entries: Vec<_> = entries.take(count).map(entry).collect();
        if !entries.is_empty() {
            found.push(list(
                [bulk(name.as_bytes()), list(entries.into_iter())].into_iter(),
            ));
        }
    }
    (!found.is_empty()).then(|| list(found.into_iter()))
}

fn entry((id, words): &(Id, Words)) -> Vec<u8> {
    let fields = list(words.iter().map(|word| bulk(word)));
    list([bulk(&shown(*id)), fields].into_iter())
}

fn shown(id: Id) -> Vec<u8> {
    format!("{}-{}", id.0, id.1).into_bytes()
}

fn read_id(text: &str) -> Id {
    let (milliseconds, number) = text.split_once('-').unwrap();
    (milliseconds.parse().unwrap(), number.parse().unwrap())
}

pub(super) fn bulk(bytes: &[u8]) -> Vec<u8> {
    let mut answer = format!("${}\r\n", bytes.len()).into_bytes();
    answer.extend(bytes);
    answer.extend(b"\r\n");
    answer
}

pub(super) fn list(items: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let items: Vec<_> = items.collect();
    let mut answer = format!("*{}\r\n", items.len()).into_bytes();
    answer.extend(items.concat());
    answer
}
