//! The scripts about records of streams, as Redis carries them out.

use std::collections::BTreeMap;

use redis::Value;

use super::super::world::Broken;
use super::redis::{Key, Keys, Kind, Words, bulk, millis, text};
use crate::sync::now;

/// Digits of a router's life.
const LIFE: usize = 32;

/// Carries out the script that its first line names.
pub(super) fn run(keys: &mut Keys, words: &Words) -> Value {
    let num_keys: usize = text(&words[2]).parse().unwrap();
    let (names, values) = words[3..].split_at(num_keys);
    let names: Vec<_> = names.iter().map(|name| text(name)).collect();
    match text(&words[1]).lines().next().unwrap() {
        "-- live" => live(keys, &names, values),
        "-- write" => Value::Int(write(keys, &names[0], values)),
        "-- take" => take(keys, &names[0], values),
        "-- free" => free(keys, &names[0], &text(&values[0])),
        "-- add once" => add_once(keys, &names, values),
        other => panic!("{other}"),
    }
}

fn live(keys: &mut Keys, names: &[String], values: &[Vec<u8>]) -> Value {
    let was_known = keys.by_name.contains_key(&names[0]);
    keys.begin_life(names[0].clone(), &values[0]);
    let wanted = match keys.by_name.remove(&names[1]).map(|key| key.kind) {
        Some(Kind::List(wanted)) => wanted,
        _ => Words::new(),
    };
    let wanted = Value::Array(wanted.iter().map(bulk).collect());
    Value::Array(vec![Value::Int(was_known.into()), wanted])
}

fn write(keys: &mut Keys, name: &str, values: &[Vec<u8>]) -> i64 {
    let (mine, prefix, mode) = (text(&values[0]), text(&values[1]), text(&values[3]));
    let owner = keys.owner(name);
    let other = owner.as_deref().filter(|owner| is_other(owner, &mine));
    let other = other.filter(|_| keys.broken != Some(Broken::WritesWhatIsAnothers));
    let is_same = keys.token_digest(name) == Some(&values[4]);
    let no = if is_same { -1 } else { -2 };
    match &*mode {
        "new" | "left" => {
            let is_held = |other: &str| {
                let is_same_router = life(other) == life(&mine);
                !other.starts_with('-')
                    && keys.lives(&prefix, other)
                    && (mode == "left" || !is_same_router)
            };
            if other.is_some_and(is_held) {
                return no;
            }
        }
        "add" if other.is_some_and(|other| is_same_life(other, &mine)) => return 0,
        _ if other.is_some() => return no,
        "again" => {}
        _ if owner.is_none() => return 0,
        _ => {}
    }
    if mode != "add" {
        keys.by_name.remove(name);
    }
    if mode == "drop" {
        return 1;
    }
    let until = Some(now() + millis(&values[2]));
    let key = keys.by_name.entry(name.to_owned()).or_insert(Key {
        kind: Kind::Hash(BTreeMap::new()),
        until,
    });
    key.until = until;
    if let Kind::Hash(fields) = &mut key.kind {
        for pair in values[5..].chunks_exact(2) {
            fields.insert(text(&pair[0]), pair[1].clone());
        }
    }
    1
}

fn take(keys: &mut Keys, name: &str, values: &[Vec<u8>]) -> Value {
    let [
        mine,
        prefix,
        digest,
        lifetime,
        limit,
        wish,
        wants,
        own,
        lease,
    ] = values
    else {
        panic!("{values:?}")
    };
    let (mine, prefix) = (text(mine), text(prefix));
    let nothing = Value::Array(Vec::new());
    let Some(owner) = keys.owner(name) else {
        return nothing;
    };
    if keys.token_digest(name) != Some(digest) {
        return nothing;
    }
    if keys.broken != Some(Broken::TakesFromTheLiving)
        && owner != text(own)
        && !owner.starts_with('-')
        && keys.lives(&prefix, &owner)
    {
        let list = text(wants) + life(&owner);
        let key = keys.by_name.entry(list).or_insert(Key {
            kind: Kind::List(Words::new()),
            until: None,
        });
        key.until = Some(now() + millis(wish));
        if let Kind::List(wanted) = &mut key.kind {
            wanted.push(format!("{name} {owner}").into_bytes());
        }
        return Value::Array(vec![bulk(&owner)]);
    }
    let fields = keys.fields(name).into_iter().flatten();
    let all: Vec<_> = fields
        .flat_map(|(field, value)| [bulk(field), bulk(value)])
        .collect();
    let sizes = all.iter().map(|value| match value {
        Value::BulkString(bytes) => bytes.len(),
        _ => 0,
    });
    if sizes.sum::<usize>() > text(limit).parse().unwrap() {
        return nothing;
    }
    if let Some(key) = keys.by_name.get_mut(name) {
        key.until = Some(now() + millis(lifetime));
        if let Kind::Hash(fields) = &mut key.kind {
            fields.insert("o".into(), mine.clone().into());
        }
    }
    keys.begin_life(prefix + life(&mine), lease);
    Value::Array(vec![bulk(owner), Value::Array(all)])
}

fn free(keys: &mut Keys, name: &str, wanted: &str) -> Value {
    let owner = keys.owner(name);
    if let Some(key) = keys.by_name.get_mut(name)
        && let (Some(owner), Kind::Hash(fields)) = (owner, &mut key.kind)
        && owner == wanted
    {
        fields.insert("o".into(), format!("-{owner}").into());
    }
    Value::Int(1)
}

fn add_once(keys: &mut Keys, names: &[String], values: &[Vec<u8>]) -> Value {
    if keys.by_name.contains_key(&names[1]) && keys.broken != Some(Broken::SharesTwice) {
        return Value::Int(0);
    }
    keys.add(&names[0], &values[2]);
    let key = Key {
        kind: Kind::Text,
        until: Some(now() + millis(&values[3])),
    };
    keys.by_name.insert(names[1].clone(), key);
    Value::Int(1)
}

fn life(owner: &str) -> &str {
    &owner[..LIFE]
}

fn is_same_life(owner: &str, mine: &str) -> bool {
    life(owner.strip_prefix('-').unwrap_or(owner)) == life(mine)
}

fn is_other(owner: &str, mine: &str) -> bool {
    owner.strip_prefix('-').unwrap_or(owner) != mine
}

impl Keys {
    fn fields(&self, name: &str) -> Option<&BTreeMap<String, Vec<u8>>> {
        match &self.by_name.get(name)?.kind {
            Kind::Hash(fields) => Some(fields),
            _ => None,
        }
    }

    fn token_digest(&self, name: &str) -> Option<&Vec<u8>> {
        self.fields(name)?.get("t")
    }

    fn owner(&self, name: &str) -> Option<String> {
        Some(text(self.fields(name)?.get("o")?))
    }

    fn lives(&self, prefix: &str, owner: &str) -> bool {
        self.by_name
            .contains_key(&format!("{prefix}{}", life(owner)))
    }

    fn begin_life(&mut self, name: String, lease: &[u8]) {
        let key = Key {
            kind: Kind::Text,
            until: Some(now() + millis(lease)),
        };
        self.by_name.insert(name, key);
    }
}
