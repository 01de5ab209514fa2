//! The builder of format 1, all in memory: the slow form that built files are compared with, and
//! the only one that still writes files of format 1.

use crate::sources::corpora::header::{HEADER_BYTES, Header};
use crate::sources::corpora::layout::{Format, num_heads};
use crate::store::chains::{ORDERS, bucket, suffix_hashes};
use crate::testing::corrupt::seal;
use crate::{SEPARATOR, TokenId};

/// The file of a corpus called `a` of `documents`, none of which is shorter than two tokens.
pub(super) fn build(documents: &[Vec<TokenId>]) -> Vec<u8> {
    let cells: Vec<TokenId> = documents
        .iter()
        .flat_map(|document| document.iter().copied().chain([SEPARATOR]))
        .collect();
    let header = Header {
        format: Format::One,
        name: "a".into(),
        fingerprint: "abc".into(),
        num_cells: cells.len() as u32,
        num_documents: documents.len() as u32,
    };
    let mut heads = num_heads(cells.len() as u32).map(|count| vec![0_u32; count]);
    let mut start = 0;
    let mut links = Vec::new();
    for (position, &token) in cells.iter().enumerate() {
        let mut linked = [0; ORDERS.len()];
        if token == SEPARATOR {
            start = position + 1;
        } else {
            let (hashes, count) = suffix_hashes(&cells[start..position]);
            for order in 0..count {
                let index = bucket(hashes[order], heads[order].len());
                linked[order] = std::mem::replace(&mut heads[order][index], position as u32);
            }
        }
        links.extend(linked);
    }
    let mut file = header.encode().to_vec();
    assert_eq!(file.len(), HEADER_BYTES);
    for word in cells
        .into_iter()
        .chain(links)
        .chain(heads.into_iter().flatten())
    {
        file.extend(word.to_le_bytes());
    }
    file.extend([0; 8]);
    seal(&mut file);
    file
}
