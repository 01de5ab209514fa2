//! The manifest of a snapshot: its namespaces, their blocks and the runs that these are made of.
//!
//! Header, flag, namespaces, the checksum of all; numbers are little-endian.

use std::collections::BTreeSet;

use crate::namespaces::snapshot::run::{Run, Runs};
use crate::namespaces::snapshot::saved::{Rest, SavedBlock, SavedNamespace};
use crate::store::atomic_file::{CHECKSUM_BYTES, FINGERPRINT_BYTES, checked};

/// Version of manifests and parts. Versions 1 and 2 were single files: see `single/`.
pub(super) const VERSION: u32 = 3;

const MAGIC: [u8; 8] = *b"SPMANIFT";

/// Bytes of a header, in manifests and in parts.
pub(super) const HEADER_BYTES: usize = 16 + FINGERPRINT_BYTES;

/// The blocks of a namespace in parts.
pub(super) type PartedNamespace = SavedNamespace<Runs>;

/// What a snapshot holds, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Forgotten text may still be in the parts, where no run lies.
    pub(super) is_erasing: bool,
    /// The one idle longest first.
    pub(super) namespaces: Vec<PartedNamespace>,
}

/// The first bytes of a file: what it is, and whose. The fingerprint was checked.
pub(super) fn header(magic: [u8; 8], fingerprint: &str) -> Vec<u8> {
    let mut header = magic.to_vec();
    header.extend(VERSION.to_le_bytes());
    header.extend((fingerprint.len() as u32).to_le_bytes());
    header.extend(fingerprint.as_bytes());
    header.resize(HEADER_BYTES, 0);
    header
}

/// Whose a file with this header is.
pub(super) fn fingerprint_of(header: &[u8; HEADER_BYTES]) -> Option<String> {
    let mut rest = Rest(header);
    rest.take(MAGIC.len() + size_of::<u32>())?;
    let length = rest.word()? as usize;
    let fingerprint = std::str::from_utf8(rest.take(length)?).ok()?;
    Some(fingerprint.to_owned())
}

impl Manifest {
    /// Its file, for the tokenizer with `fingerprint`.
    pub(super) fn encode(&self, fingerprint: &str) -> Vec<u8> {
        let mut bytes = header(MAGIC, fingerprint);
        bytes.extend(u32::from(self.is_erasing).to_le_bytes());
        bytes.extend((self.namespaces.len() as u32).to_le_bytes());
        for namespace in &self.namespaces {
            bytes.extend((namespace.name.len() as u32).to_le_bytes());
            bytes.extend(namespace.name.as_bytes());
            bytes.extend(namespace.accepted_tokens.to_le_bytes());
            bytes.extend((namespace.blocks.len() as u32).to_le_bytes());
            for SavedBlock { shape, place } in &namespace.blocks {
                let runs = place.all();
                let num_runs = runs.len() as u32;
                let words = [shape.capacity, shape.end, shape.num_tokens, shape.credit];
                bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
                bytes.extend(num_runs.to_le_bytes());
                for run in runs {
                    let words = [run.part, run.offset, run.first, run.cells];
                    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
                    bytes.extend(run.checksum.to_le_bytes());
                }
            }
        }
        let checksum = xxhash_rust::xxh3::xxh3_64(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// What `file` holds for the tokenizer with `fingerprint`; else what was found instead.
    pub(super) fn decode(file: &[u8], fingerprint: &str) -> Result<Self, &'static str> {
        if file.len() < HEADER_BYTES + CHECKSUM_BYTES {
            return Err("a file cut short");
        }
        let body = checked(file).ok_or("a damaged file")?;
        let mut rest = Rest(body);
        if rest.take(HEADER_BYTES) != Some(&header(MAGIC, fingerprint)) {
            return Err("a manifest of another version or tokenizer");
        }
        parse(rest).ok_or("a manifest that contradicts itself")
    }

    /// Parts that hold its text.
    pub(super) fn parts(&self) -> BTreeSet<u32> {
        self.runs().map(|run| run.part).collect()
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        let blocks = self
            .namespaces
            .iter()
            .flat_map(|namespace| &namespace.blocks);
        blocks.flat_map(|block| block.place.all())
    }

    /// Tokens of its text.
    pub(super) fn num_tokens(&self) -> u64 {
        self.namespaces.iter().map(SavedNamespace::num_tokens).sum()
    }
}

fn parse(mut rest: Rest<'_>) -> Option<Manifest> {
    let mut manifest = Manifest {
        is_erasing: match rest.word()? {
            0 => false,
            1 => true,
            _ => return None,
        },
        namespaces: Vec::new(),
    };
    for _ in 0..rest.word()? {
        let (name, accepted_tokens, num_blocks) = rest.namespace()?;
        let mut blocks = Vec::new();
        for _ in 0..num_blocks {
            let shape = rest.shape()?;
            let mut runs = Vec::new();
            for _ in 0..rest.word()? {
                let run = Run {
                    part: rest.word()?,
                    offset: rest.word()?,
                    first: rest.word()?,
                    cells: rest.word()?,
                    checksum: rest.long()?,
                };
                if !run.is_possible(shape.capacity) {
                    return None;
                }
                runs.push(run);
            }
            blocks.push(SavedBlock {
                shape,
                place: Runs::new(runs),
            });
        }
        manifest.namespaces.push(SavedNamespace {
            name,
            accepted_tokens,
            blocks,
        });
    }
    rest.0.is_empty().then_some(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::block_shape::BlockShape;

    fn manifest() -> Manifest {
        let run = Run {
            part: 3,
            offset: 80,
            first: 256,
            cells: 300,
            checksum: 77,
        };
        let shape = BlockShape {
            capacity: 1024,
            end: 556,
            num_tokens: 290,
            credit: 5,
        };
        let empty = SavedBlock {
            shape,
            place: Runs::default(),
        };
        let block = SavedBlock {
            shape,
            place: Runs::new(vec![run]),
        };
        let namespace = |name: &str, blocks: Vec<_>| SavedNamespace {
            name: name.to_owned(),
            accepted_tokens: 9,
            blocks,
        };
        Manifest {
            is_erasing: true,
            namespaces: vec![namespace("ä", vec![block, empty]), namespace("", vec![])],
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let manifest = manifest();
        let file = manifest.encode("abc");
        assert_eq!(Manifest::decode(&file, "abc"), Ok(manifest.clone()));
        assert_eq!((manifest.num_tokens(), manifest.parts()), (580, [3].into()));
        assert!(Manifest::decode(&file, "abd").is_err());
    }

    #[test]
    fn every_damaged_byte_and_every_cut_is_refused() {
        let file = manifest().encode("abc");
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 4;
            assert!(Manifest::decode(&damaged, "abc").is_err(), "byte {at}");
            assert!(Manifest::decode(&file[..at], "abc").is_err(), "cut at {at}");
        }
    }
}
