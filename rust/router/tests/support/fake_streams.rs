//! The scripts about records of streams, as [`FakeRedis`](super::fake_redis::FakeRedis) runs them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fake_redis::{Key, Words, bulk, list};
use tokio::time::Instant;

type Keys = BTreeMap<String, Key>;

/// The key that has a script refused.
pub(super) fn refusal(script: &str) -> String {
    format!("refused {script}")
}

/// Runs the script that its first line names.
pub(super) fn run(keys: &mut Keys, texts: &[&str], words: &Words) -> Vec<u8> {
    let is_over = |key: &Key| matches!(key, Key::Life(until) if *until <= Instant::now());
    keys.retain(|_, key| !is_over(key));
    // EVAL script number key… argument…
    let num_keys: usize = texts[2].parse().unwrap();
    let (names, values) = (&texts[3..3 + num_keys], &words[3 + num_keys..]);
    let arguments = &texts[3 + num_keys..];
    let script = texts[1].lines().next().unwrap();
    if let Some(Key::List(refused)) = keys.get_mut(&refusal(script)) {
        refused.push(names[0].into());
        return b"-OOM command not allowed\r\n".to_vec();
    }
    if script != "-- live" && matches!(keys.get(names[0]), Some(Key::Text)) {
        return b"-WRONGTYPE of key\r\n".to_vec();
    }
    match script {
        "-- live" => live(keys, names, arguments),
        "-- write" => write(keys, names[0], arguments, values),
        "-- take" => take(keys, names[0], arguments),
        "-- free" => free(keys, names[0], arguments[0]),
        other => panic!("{other}"),
    }
}

fn live(keys: &mut Keys, names: &[&str], arguments: &[&str]) -> Vec<u8> {
    let lease = Duration::from_millis(arguments[0].parse().unwrap());
    let was_known = keys.insert(names[0].into(), Key::Life(Instant::now() + lease));
    let was_known = format!(":{}\r\n", u8::from(was_known.is_some()));
    let wanted = match keys.remove(names[1]) {
        Some(Key::List(wanted)) => list(wanted.iter().map(|name| bulk(name))),
        _ => list(std::iter::empty()),
    };
    list([was_known.into_bytes(), wanted].into_iter())
}

fn field(keys: &Keys, name: &str, field: &[u8]) -> Option<Vec<u8>> {
    match keys.get(name)? {
        Key::Hash(fields) => fields.get(field).cloned(),
        _ => None,
    }
}

fn owner(keys: &Keys, name: &str) -> Option<String> {
    let owner = field(keys, name, b"o")?;
    Some(String::from_utf8_lossy(&owner).into_owned())
}

fn lives(keys: &Keys, prefix: &str, owner: &str) -> bool {
    let life = (!owner.starts_with('-')).then(|| format!("{prefix}{}", &owner[..32]));
    let key = life.and_then(|life| keys.get(&life));
    matches!(key, Some(Key::Life(_)))
}

fn write(keys: &mut Keys, name: &str, arguments: &[&str], values: &[Vec<u8>]) -> Vec<u8> {
    let (mine, prefix, mode) = (arguments[0], arguments[1], arguments[3]);
    let owner = owner(keys, name);
    let other = owner.as_deref();
    let other = other.filter(|owner| owner.strip_prefix('-').unwrap_or(owner) != mine);
    let is_same = field(keys, name, b"t").as_deref() == Some(&*values[4]);
    let no: &[u8] = if is_same { b":-1\r\n" } else { b":-2\r\n" };
    let is_held = |other: &str| {
        let is_own = mode == "new" && other[..32] == mine[..32];
        lives(keys, prefix, other) && !is_own
    };
    match mode {
        "new" | "left" if other.is_some_and(is_held) => return no.to_vec(),
        "new" | "left" => {}
        "add" if other.is_some_and(|other| other.contains(&mine[..32])) => {
            return b":0\r\n".to_vec();
        }
        _ if other.is_some() => return no.to_vec(),
        "again" => {}
        _ if owner.is_none() => return b":0\r\n".to_vec(),
        _ => {}
    }
    if mode != "add" {
        keys.remove(name);
    }
    if mode != "drop" {
        let entry = keys.entry(name.into());
        let Key::Hash(fields) = entry.or_insert(Key::Hash(BTreeMap::new())) else {
            panic!("{name}")
        };
        for pair in values[5..].chunks(2) {
            fields.insert(pair[0].clone(), pair[1].clone());
        }
    }
    b":1\r\n".to_vec()
}

fn take(keys: &mut Keys, name: &str, arguments: &[&str]) -> Vec<u8> {
    let [mine, prefix, digest, _, _, _, wants, own, lease] = arguments[..] else {
        panic!("{arguments:?}")
    };
    let Some(owner) = owner(keys, name) else {
        return list(std::iter::empty());
    };
    let Some(Key::Hash(fields)) = keys.get(name) else {
        panic!("{name}")
    };
    if fields.get(&b"t"[..]).map(Vec::as_slice) != Some(digest.as_bytes()) {
        return list(std::iter::empty());
    }
    if owner != own && lives(keys, prefix, &owner) {
        let wishes = format!("{wants}{}", &owner[..32]);
        let wanted = keys.entry(wishes).or_insert(Key::List(Words::new()));
        if !matches!(wanted, Key::List(_)) {
            *wanted = Key::List(Words::new());
        }
        if let Key::List(wanted) = wanted {
            wanted.push(format!("{name} {owner}").into_bytes());
        }
        return list([bulk(owner.as_bytes())].into_iter());
    }
    let Some(Key::Hash(fields)) = keys.get_mut(name) else {
        panic!("{name}")
    };
    let pairs = fields.iter();
    let pairs = list(pairs.flat_map(|(field, value)| [bulk(field), bulk(value)]));
    fields.insert(b"o".to_vec(), mine.into());
    let lease = Duration::from_millis(lease.parse().unwrap());
    let life = format!("{prefix}{}", &mine[..32]);
    keys.insert(life, Key::Life(Instant::now() + lease));
    list([bulk(owner.as_bytes()), pairs].into_iter())
}

fn free(keys: &mut Keys, name: &str, wanted: &str) -> Vec<u8> {
    let owner = owner(keys, name);
    if let (Some(owner), Some(Key::Hash(fields))) = (owner, keys.get_mut(name))
        && owner == wanted
    {
        fields.insert(b"o".to_vec(), format!("-{owner}").into_bytes());
    }
    b":1\r\n".to_vec()
}
