//! The bigram table: the model's likeliest next tokens after each single token.
//!
//! A request's first steps know little: its own text is short and the model has answered nothing
//! yet. The model's answer to a document of one token can be computed once per model, after
//! whatever may stand before any token, and is a draft source from the first step on
//! (the extended bigrams of N-Grammys, arXiv 2411.03786).

use std::io::{self, Write};
use std::path::Path;

use spectrie_types::sizes::TOP_K;

use crate::sources::recycled::answer::Answer;
use crate::store::atomic_file::{self, Checked, FINGERPRINT_BYTES, check_fingerprint, checked};
use crate::{TokenId, TrieError};

/// First bytes of every file of bigrams.
const MAGIC: [u8; 8] = *b"SPBIGRAM";

/// Version of the layout: a header, then per token eight ids, then per token eight probabilities,
/// as 32-bit words in little-endian order, then a checksum of everything.
const VERSION: u32 = 1;

/// Magic, version, tokens, length of the fingerprint, fingerprint.
const HEADER_BYTES: usize = 20 + FINGERPRINT_BYTES;

/// The model's likeliest next tokens after each token of the vocabulary, as far as computed.
///
/// Belongs to a model, not to a namespace: it holds nothing from any request.
///
/// # Example
///
/// ```
/// use spectrie_trie::Bigrams;
///
/// // Two tokens; the model says 1 after 0, nothing is known after 1.
/// let ids = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// let probabilities = [0.5, 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.];
/// let bigrams = Bigrams::from_rows(&ids, &probabilities)?;
/// assert_eq!((bigrams.num_tokens(), bigrams.num_known()), (2, 1));
/// # Ok::<(), spectrie_trie::TrieError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Bigrams {
    rows: Vec<[(TokenId, f32); TOP_K]>,
}

impl Bigrams {
    /// Creates a table from [`TOP_K`] ids and probabilities per token, row by row, the likeliest
    /// first. A row ends at its first probability of 0; a row that starts with 0 is unknown.
    ///
    /// # Errors
    ///
    /// [`TrieError::BigramRows`] if the lengths differ or a row is incomplete,
    /// [`TrieError::NotAProbability`] for a number outside 0 to 1.
    pub fn from_rows(ids: &[TokenId], probabilities: &[f32]) -> Result<Self, TrieError> {
        let ((ids, rest), (given, _)) = (ids.as_chunks(), probabilities.as_chunks());
        if ids.len() * TOP_K != probabilities.len() || !rest.is_empty() {
            return Err(TrieError::BigramRows {
                ids: ids.len() * TOP_K + rest.len(),
                probabilities: probabilities.len(),
            });
        }
        if let Some(wrong) = probabilities.iter().find(|p| !(0.0..=1.0).contains(*p)) {
            return Err(TrieError::NotAProbability {
                name: "a probability of a bigram",
                given: wrong.to_string(),
            });
        }
        let row = |(ids, given): (&[TokenId; TOP_K], &[f32; TOP_K])| {
            std::array::from_fn(|index| (ids[index], given[index]))
        };
        Ok(Self {
            rows: ids.iter().zip(given).map(row).collect(),
        })
    }

    /// Returns the number of tokens in the vocabulary, known or not.
    pub fn num_tokens(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of tokens whose successors are known.
    pub fn num_known(&self) -> usize {
        self.rows.iter().filter(|row| row[0].1 > 0.0).count()
    }

    /// Returns the bytes of the table. The vocabulary bounds them, so they do not count against
    /// [`crate::MemoryConfig::capacity_bytes`].
    pub fn bytes(&self) -> usize {
        size_of_val(self.rows.as_slice())
    }

    /// Returns ids and probabilities as [`Bigrams::from_rows`] takes them.
    pub fn to_rows(&self) -> (Vec<TokenId>, Vec<f32>) {
        self.rows.iter().flatten().copied().unzip()
    }

    /// Returns every successor, row by row.
    pub fn successors(&self) -> impl Iterator<Item = TokenId> {
        self.rows.iter().flatten().map(|&(token, _)| token)
    }

    /// What the model gives after `last`, if that is known.
    pub(crate) fn after(&self, last: TokenId) -> Option<Answer> {
        let row = self.rows.get(last as usize)?;
        (row[0].1 > 0.0).then(|| Answer::of(row))
    }

    /// Writes the table to a file atomically. `fingerprint` names the model.
    ///
    /// # Errors
    ///
    /// [`TrieError::Fingerprint`] if it is longer than 64 bytes; [`TrieError::Io`].
    pub fn save(&self, path: &Path, fingerprint: &str) -> Result<(), TrieError> {
        check_fingerprint(fingerprint)?;
        atomic_file::replace(path, |file| self.encode(file, fingerprint))?;
        Ok(())
    }

    fn encode<W: Write>(&self, file: &mut Checked<W>, fingerprint: &str) -> io::Result<()> {
        file.write_all(&MAGIC)?;
        let numbers = [VERSION, self.rows.len() as u32, fingerprint.len() as u32];
        file.write_words(numbers.into_iter())?;
        file.write_fingerprint(fingerprint)?;
        file.write_words(self.successors())?;
        let entries = self.rows.iter().flatten();
        file.write_words(entries.map(|&(_, probability)| probability.to_bits()))?;
        file.end_block()
    }

    /// Reads a table that [`Bigrams::save`] wrote for the model named by `fingerprint`.
    ///
    /// # Errors
    ///
    /// [`TrieError::Io`]; [`TrieError::Refused`] if the file is not a bigram table, is damaged, or
    /// belongs to another version or model.
    pub fn open(path: &Path, fingerprint: &str) -> Result<Self, TrieError> {
        let bytes = std::fs::read(path).map_err(|error| TrieError::io("read", path, &error))?;
        Self::decode(&bytes, fingerprint).map_err(|(found, expected)| TrieError::Refused {
            kind: "table of bigrams",
            path: path.to_owned(),
            found,
            expected,
            remedy: "remove it, and it is computed again",
        })
    }

    /// The table in `bytes`, or what was found and what was expected.
    fn decode(bytes: &[u8], fingerprint: &str) -> Result<Self, (String, String)> {
        let wrong = |found: &str, expected: &str| (found.to_owned(), expected.to_owned());
        if !bytes.starts_with(&MAGIC) {
            return Err(wrong(
                "another kind of file",
                "one that begins with SPBIGRAM",
            ));
        }
        let damaged = || wrong("damaged bytes", "an undamaged file");
        let body = checked(bytes).ok_or_else(damaged)?;
        let (header, rows) = body.split_at_checked(HEADER_BYTES).ok_or_else(damaged)?;
        let (words, _) = header[MAGIC.len()..].as_chunks();
        let number = |index: usize| u32::from_le_bytes(words[index]);
        if number(0) != VERSION {
            let found = format!("version {}", number(0));
            return Err((found, format!("version {VERSION}")));
        }
        let name = header[HEADER_BYTES - FINGERPRINT_BYTES..].get(..number(2) as usize);
        if name != Some(fingerprint.as_bytes()) {
            let found = String::from_utf8_lossy(name.unwrap_or_default());
            return Err((format!("model {found}"), format!("model {fingerprint}")));
        }
        let (words, _) = rows.as_chunks();
        if words.len() != 2 * TOP_K * number(1) as usize {
            return Err(damaged());
        }
        let (ids, given) = words.split_at(words.len() / 2);
        let ids: Vec<_> = ids.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let given: Vec<_> = given.iter().map(|word| f32::from_le_bytes(*word)).collect();
        Self::from_rows(&ids, &given).map_err(|_| damaged())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Bigrams {
        let mut ids = [0; 3 * TOP_K];
        let mut given = [0.0; 3 * TOP_K];
        (ids[0], ids[1], given[0], given[1]) = (2, 1, 0.5, 0.25);
        (ids[16], given[16]) = (0, 1.0);
        Bigrams::from_rows(&ids, &given).unwrap()
    }

    #[test]
    fn successors_are_found_and_unknown_rows_are_not() {
        let bigrams = some();
        assert_eq!(bigrams.after(0).unwrap().tokens(), [(2, 0.5), (1, 0.25)]);
        assert!(bigrams.after(1).is_none() && bigrams.after(3).is_none());
        assert_eq!((bigrams.num_tokens(), bigrams.num_known()), (3, 2));
        let (ids, given) = bigrams.to_rows();
        assert_eq!(Bigrams::from_rows(&ids, &given), Ok(bigrams));
    }

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        let refused = Bigrams::from_rows(&[0; 12], &[0.0; 12]).unwrap_err();
        assert!(refused.to_string().contains("12 ids and 12"), "{refused}");
        assert!(Bigrams::from_rows(&[0; 8], &[0.0; 16]).is_err());
        assert!(Bigrams::from_rows(&[0; 8], &[f32::NAN; 8]).is_err());
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let mut file = Checked::new(Vec::new());
        some().encode(&mut file, "abc").unwrap();
        let bytes = file.into_inner();
        assert_eq!(Bigrams::decode(&bytes, "abc"), Ok(some()));
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[index] ^= 0x10;
            assert!(Bigrams::decode(&damaged, "abc").is_err(), "byte {index}");
            assert!(Bigrams::decode(&bytes[..index], "abc").is_err());
        }
    }
}
