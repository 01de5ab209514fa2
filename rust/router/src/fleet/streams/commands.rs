//! What is asked of Redis about the records of streams.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Value, cmd};

use crate::fleet::keys::{lives, wants};
use crate::fleet::wire::{Trouble, Wire, items, name};

/// How long a router that says nothing more counts as alive. A client that comes from a dead one waits
/// as long at most.
pub(super) const LEASE: Duration = Duration::from_millis(800);
// A key of a life that does not end soon is none that a router wrote.

/// How long a wish for a stream stays in its owner's list.
const WISH_MS: u64 = 5_000;

/// Says that a router lives, and takes what others want of it. Gives whether it was known to live, and that.
const LIVE: &str = "-- live
local was_known = redis.call('EXISTS', KEYS[1])
redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
local wanted = redis.call('LRANGE', KEYS[2], 0, -1)
redis.call('DEL', KEYS[2])
return {was_known, wanted}
";

/// Writes to a record as its owner. A new one takes the place of any whose owner is gone, or was of the same
/// router, which has ended it: its last words may come later, and are then none's. Gives 1; 0 if the
/// record to add to is gone, or is what the same router had before, whose new one never came; -1 if the stream is another's; -2 if another stream has its name.
const WRITE: &str = "-- write
local function lives(life)
  local left = redis.call('PTTL', ARGV[2] .. life)
  return left > 0 and left < 60000
end
local o = redis.call('HGET', KEYS[1], 'o')
local mine, mode = ARGV[1], ARGV[4]
local is_mine = o == mine or o == '-' .. mine
local no = redis.call('HGET', KEYS[1], 't') == ARGV[5] and -1 or -2
if mode == 'new' or mode == 'left' then
  local life = o and string.sub(o, 1, 32)
  if o and not is_mine and string.sub(o, 1, 1) ~= '-' and lives(life)
    and (mode == 'left' or life ~= string.sub(mine, 1, 32)) then return no end
elseif o and not is_mine then
  if mode == 'add' and string.find(o, string.sub(mine, 1, 32), 1, true) then return 0 end
  return no
elseif not o and mode ~= 'again' then return 0 end
if mode ~= 'add' then redis.call('DEL', KEYS[1]) end
if mode == 'drop' then return 1 end
for i = 6, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
";

/// Takes a record over for whom showed its token, if its owner let it go or is dead, or is the stream that
/// the taker itself has the record of; else its owner hears that it is wanted of that owner, and of none who
/// has it later. The taker lives: a lease that was over would leave what it took to the next one that asks. Gives
/// nothing, the owner, or the last owner and the record.
const TAKE: &str = "-- take
local o = redis.call('HGET', KEYS[1], 'o')
if not o or redis.call('HGET', KEYS[1], 't') ~= ARGV[3] then return {} end
local life = string.sub(o, 1, 32)
local left = redis.call('PTTL', ARGV[2] .. life)
if o ~= ARGV[8] and string.sub(o, 1, 1) ~= '-' and left > 0 and left < 60000 then
  local list = ARGV[7] .. life
  local kind = redis.call('TYPE', list)['ok']
  if kind ~= 'list' and kind ~= 'none' then redis.call('DEL', list) end
  if redis.call('LLEN', list) < 1024 then redis.call('RPUSH', list, KEYS[1] .. ' ' .. o) end
  redis.call('PEXPIRE', list, ARGV[6])
  return {o}
end
local all, bytes = redis.call('HGETALL', KEYS[1]), 0
for _, word in ipairs(all) do bytes = bytes + #word end
if bytes > tonumber(ARGV[5]) then return {} end
redis.call('HSET', KEYS[1], 'o', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('SET', ARGV[2] .. string.sub(ARGV[1], 1, 32), '1', 'PX', ARGV[9])
return {o, all}
";

/// Lets go what an owner holds and its router does not know of.
const FREE: &str = "-- free
local o = redis.call('HGET', KEYS[1], 'o')
if o == ARGV[1] then redis.call('HSET', KEYS[1], 'o', '-' .. o) end
return 1
";

/// How a record is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It begins.
    New,
    /// It begins and has ended already.
    Left,
    /// It is written whole again.
    Again,
    /// Fields are added; without any, it only stays.
    Add,
    /// It goes.
    Drop,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Left => "left",
            Self::Again => "again",
            Self::Add => "add",
            Self::Drop => "drop",
        }
    }
}

/// What a router hears that says that it lives.
#[derive(Debug)]
pub(super) struct Lease {
    /// Whether Redis knew that it lives. If not, others may have taken what was its own, or Redis was emptied.
    pub(super) was_known: bool,
    /// What others want of it: the keys of streams, each with its owner as it was asked for.
    pub(super) wanted: Vec<String>,
}

/// What came of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Done,
    /// There is no such record.
    Gone,
    /// Another owns it.
    Foreign,
    /// Another stream has its name.
    Namesake,
}

/// What came of taking.
#[derive(Debug)]
pub(super) enum Found {
    /// There is none, or it is another client's.
    Nothing,
    /// Its owner lives, and hears that it is wanted.
    Owned,
    /// It is the taker's now: the last owner's name, and its fields.
    Taken(String, BTreeMap<String, Vec<u8>>),
}

/// A record's owner and key, and how long it stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) key: &'a str,
    pub(super) owner: &'a str,
    /// Digest of the stream's token.
    pub(super) token_digest: &'a str,
    pub(super) lifetime: Duration,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

impl Wire {
    /// Says that the router of this life lives.
    pub(super) async fn live(&mut self, life: &str) -> Result<Lease, Trouble> {
        let (key, list) = (lives() + life, wants() + life);
        let mut eval = cmd("EVAL");
        eval.arg(LIVE)
            .arg(2)
            .arg(&key)
            .arg(&list)
            .arg(millis(LEASE));
        let answer = match self.ask(&eval, &key, "string").await {
            Err(trouble @ Trouble::Refused(_)) => {
                self.repair(&list, "list").await?;
                return Err(trouble);
            }
            answer => answer?,
        };
        let mut answer = items(answer).into_iter();
        let was_known = answer.next() == Some(Value::Int(1));
        let wanted = answer.next().map(items).unwrap_or_default();
        Ok(Lease {
            was_known,
            wanted: wanted.iter().map(name).collect(),
        })
    }

    /// Says that the router of this life is no more.
    pub(super) async fn end_life(&mut self, life: &str) -> Result<(), Trouble> {
        self.remove(&(lives() + life)).await
    }

    /// Writes fields of a record.
    pub(super) async fn write_stream(
        &mut self,
        place: Place<'_>,
        mode: Mode,
        fields: &[(String, Vec<u8>)],
    ) -> Result<Written, Trouble> {
        let mut eval = cmd("EVAL");
        eval.arg(WRITE).arg(1).arg(place.key);
        eval.arg(place.owner)
            .arg(lives())
            .arg(millis(place.lifetime));
        eval.arg(mode.name()).arg(place.token_digest);
        for (field, value) in fields {
            eval.arg(field).arg(value);
        }
        match self.ask(&eval, place.key, "hash").await? {
            Value::Int(1) => Ok(Written::Done),
            Value::Int(0) => Ok(Written::Gone),
            Value::Int(-1) => Ok(Written::Foreign),
            Value::Int(-2) => Ok(Written::Namesake),
            _ => Err(Trouble::Refused("Redis gives no number".into())),
        }
    }

    /// Takes a record over for whom showed the stream's token, unless it has more than `limit` bytes.
    /// What the owner `own` had is the taker's already.
    pub(super) async fn take_stream(
        &mut self,
        place: Place<'_>,
        limit: usize,
        own: Option<&str>,
    ) -> Result<Found, Trouble> {
        let mut eval = cmd("EVAL");
        eval.arg(TAKE).arg(1).arg(place.key);
        eval.arg(place.owner).arg(lives()).arg(place.token_digest);
        eval.arg(millis(place.lifetime)).arg(limit);
        eval.arg(WISH_MS).arg(wants()).arg(own.unwrap_or_default());
        eval.arg(millis(LEASE));
        let mut answer = items(self.ask(&eval, place.key, "hash").await?).into_iter();
        let (owner, fields) = match (answer.next(), answer.next()) {
            (None, _) => return Ok(Found::Nothing),
            (Some(_), None) => return Ok(Found::Owned),
            (Some(owner), Some(fields)) => (name(&owner), items(fields)),
        };
        let mut fields = fields.into_iter();
        let mut found = BTreeMap::new();
        while let (Some(field), Some(Value::BulkString(value))) = (fields.next(), fields.next()) {
            found.insert(name(&field), value);
        }
        Ok(Found::Taken(owner, found))
    }

    /// Lets a record go that this owner holds.
    pub(super) async fn free_stream(&mut self, key: &str, owner: &str) -> Result<(), Trouble> {
        let mut eval = cmd("EVAL");
        eval.arg(FREE).arg(1).arg(key).arg(owner);
        self.ask(&eval, key, "hash").await?;
        Ok(())
    }
}
