//! What one entry of a stream says, and its bytes: mark, version, checksum, message.

use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::keys::ModelKey;

const MARK: &[u8; 4] = b"spxt";
/// Form of what follows; entries of another one are counted and left alone.
const VERSION: u8 = 1;
const CHECKSUM_BYTES: usize = 8;
const HEAD_BYTES: usize = MARK.len() + 1 + CHECKSUM_BYTES;
/// Most tokens of one entry; of a longer text the last ones are shared.
pub(super) const MAX_TOKENS: usize = 16_384;
/// Largest entry that is read, in bytes: all its token ids need five, and the names.
const MAX_BYTES: usize = 5 * MAX_TOKENS + 4096;
/// Longest name of a namespace with its parts, in bytes.
pub(super) const MAX_NAMESPACE_BYTES: usize = 1024;

/// What a router tells the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The router's life that wrote it.
    pub(super) origin: u128,
    pub(super) namespace: String,
    /// Of the namespace, when the text was learned or forgotten.
    pub(super) generation: u64,
    pub(super) said: Said,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Tokens to learn, 1 to [`MAX_TOKENS`].
    Text(Vec<u32>),
    /// The namespace's earlier generations are to be forgotten.
    Forgotten,
}

/// Why an entry cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Its bytes are not what was written, or nothing of ours.
    Damaged,
    /// A router of another version wrote it.
    Version,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Body {
    #[prost(bytes = "vec", tag = "1")]
    origin: Vec<u8>,
    #[prost(string, tag = "2")]
    model: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(uint64, tag = "4")]
    generation: u64,
    #[prost(uint32, repeated, tag = "5")]
    token_ids: Vec<u32>,
    #[prost(bool, tag = "6")]
    is_forgotten: bool,
}

impl Entry {
    /// Its bytes, for the stream of `model`.
    pub(super) fn encode(&self, model: &ModelKey) -> Vec<u8> {
        let token_ids = match &self.said {
            Said::Text(token_ids) => token_ids.clone(),
            Said::Forgotten => Vec::new(),
        };
        let body = Body {
            origin: self.origin.to_be_bytes().into(),
            model: model.as_str().to_owned(),
            namespace: self.namespace.clone(),
            generation: self.generation,
            token_ids,
            is_forgotten: self.said == Said::Forgotten,
        };
        seal(*MARK, &body.encode_to_vec())
    }

    /// Reads what was found in the stream of `model`.
    ///
    /// # Errors
    /// Bytes that no router of this version wrote for that stream.
    pub(super) fn decode(bytes: &[u8], model: &ModelKey) -> Result<Self, Unreadable> {
        if bytes.len() > MAX_BYTES {
            return Err(Unreadable::Damaged);
        }
        let body = open(*MARK, bytes)?;
        let body = Body::decode(body).map_err(|_| Unreadable::Damaged)?;
        let origin = body.origin.try_into().map_err(|_| Unreadable::Damaged)?;
        let is_named = (1..=MAX_NAMESPACE_BYTES).contains(&body.namespace.len());
        let is_filled = (1..=MAX_TOKENS).contains(&body.token_ids.len());
        if !is_named || body.model != model.as_str() || is_filled == body.is_forgotten {
            return Err(Unreadable::Damaged);
        }
        Ok(Self {
            origin: u128::from_be_bytes(origin),
            namespace: body.namespace,
            generation: body.generation,
            said: if body.is_forgotten {
                Said::Forgotten
            } else {
                Said::Text(body.token_ids)
            },
        })
    }
}

/// The end of a text that fits an entry.
pub(super) fn cut(mut token_ids: Vec<u32>) -> Vec<u32> {
    let surplus = token_ids.len().saturating_sub(MAX_TOKENS);
    token_ids.drain(..surplus);
    token_ids
}

/// The bytes of a message: `mark`, version, checksum, `body`.
pub(super) fn seal(mark: [u8; 4], body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + body.len());
    bytes.extend(mark);
    bytes.push(VERSION);
    bytes.extend(checksum(body));
    bytes.extend(body);
    bytes
}

/// The body of what [`seal`] gave.
///
/// # Errors
/// Anything else.
pub(super) fn open(mark: [u8; 4], bytes: &[u8]) -> Result<&[u8], Unreadable> {
    let rest = bytes.strip_prefix(&mark).ok_or(Unreadable::Damaged)?;
    let (version, rest) = rest.split_first().ok_or(Unreadable::Damaged)?;
    if *version != VERSION {
        return Err(Unreadable::Version);
    }
    let (sum, body) = rest
        .split_at_checked(CHECKSUM_BYTES)
        .ok_or(Unreadable::Damaged)?;
    if sum == checksum(body) {
        Ok(body)
    } else {
        Err(Unreadable::Damaged)
    }
}

fn checksum(body: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let digest: [u8; 32] = Sha256::digest(body).into();
    let mut sum = [0; CHECKSUM_BYTES];
    sum.copy_from_slice(&digest[..CHECKSUM_BYTES]);
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn model() -> ModelKey {
        ModelKey::new("weights", "files")
    }

    fn entry(said: Said) -> Entry {
        Entry {
            origin: 7,
            namespace: "ann/salt:1".into(),
            generation: 3,
            said,
        }
    }

    #[test]
    fn what_was_written_is_read_and_only_at_its_model() {
        for said in [Said::Text(vec![0, 5, u32::MAX]), Said::Forgotten] {
            let written = entry(said);
            let bytes = written.encode(&model());
            assert_eq!(Entry::decode(&bytes, &model()), Ok(written));
            let other = ModelKey::new("other", "files");
            assert_eq!(Entry::decode(&bytes, &other), Err(Unreadable::Damaged));
        }
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let bytes = entry(Said::Text((0..50).collect())).encode(&model());
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 4;
            let expected = if place == MARK.len() {
                Unreadable::Version
            } else {
                Unreadable::Damaged
            };
            assert_eq!(Entry::decode(&changed, &model()), Err(expected), "{place}");
            let cut = Entry::decode(&bytes[..place], &model());
            assert_eq!(cut, Err(Unreadable::Damaged), "{place}");
        }
    }

    #[test]
    fn texts_and_names_out_of_bounds_are_refused() {
        let text = |len: usize| Said::Text(vec![1; len]);
        let read = |entry: Entry| Entry::decode(&entry.encode(&model()), &model());
        assert!(read(entry(text(MAX_TOKENS))).is_ok());
        for len in [0, MAX_TOKENS + 1] {
            assert_eq!(read(entry(text(len))), Err(Unreadable::Damaged), "{len}");
        }
        for len in [0, MAX_NAMESPACE_BYTES + 1] {
            let named = Entry {
                namespace: "n".repeat(len),
                ..entry(text(1))
            };
            assert_eq!(read(named), Err(Unreadable::Damaged), "{len}");
        }
        assert_eq!(cut((0..MAX_TOKENS as u32 + 2).collect())[0], 2);
    }

    fn reads_what_it_writes(bytes: &[u8], token_ids: Vec<u32>) {
        let _ = Entry::decode(bytes, &model());
        let mut ours = entry(Said::Forgotten).encode(&model());
        ours.truncate(HEAD_BYTES);
        let sum = checksum(bytes);
        ours[HEAD_BYTES - CHECKSUM_BYTES..].copy_from_slice(&sum);
        ours.extend(bytes);
        if let Ok(read) = Entry::decode(&ours, &model()) {
            assert_eq!(Entry::decode(&read.encode(&model()), &model()), Ok(read));
        }
        let written = entry(Said::Text(token_ids));
        let bytes = written.encode(&model());
        assert_eq!(Entry::decode(&bytes, &model()), Ok(written));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            token_ids in proptest::collection::vec(any::<u32>(), 1..100),
        ) {
            reads_what_it_writes(&bytes, token_ids);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_000_000, ..ProptestConfig::default() })]

        #[test]
        #[ignore = "deep: a million inputs"]
        fn any_of_a_million_inputs_is_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            token_ids in proptest::collection::vec(any::<u32>(), 1..8),
        ) {
            reads_what_it_writes(&bytes, token_ids);
        }
    }
}
