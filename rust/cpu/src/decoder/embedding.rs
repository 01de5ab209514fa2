//! The embedding: from a token to the start of its residual stream.

use crate::error::CpuError;
use crate::matmul::Linear;
use crate::simd::Dtype;

/// The table of token vectors.
pub enum Embedding<E: Dtype> {
    /// The weights of the LM head, stored once; not for a head in parts.
    Tied,
    /// A table of its own, `[vocabulary, hidden]`.
    Table(Vec<E>),
}

/// What a drafter may read of its target: token vectors and the LM head.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a, E: Dtype> {
    pub(crate) embedding: &'a Embedding<E>,
    pub(crate) head: &'a Linear<E>,
}

impl<E: Dtype> Embedding<E> {
    /// Checks that there is a row for every token.
    pub(crate) fn check(&self, head: &Linear<E>, vocabulary: usize) -> Result<(), CpuError> {
        let (given, expected) = match self {
            Self::Tied => (head.out_features(), vocabulary),
            Self::Table(table) => (table.len(), head.in_features() * vocabulary),
        };
        if given == expected {
            return Ok(());
        }
        Err(CpuError::Length {
            what: "embedding table",
            given,
            expected,
        })
    }

    /// Memory that the table takes, besides the head's.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Tied => 0,
            Self::Table(table) => size_of_val(table.as_slice()),
        }
    }

    /// Writes the vector of a token, `[hidden]`.
    pub(crate) fn look_up(&self, head: &Linear<E>, token: usize, to: &mut [f32]) {
        match self {
            Self::Tied => head.weight_row(token, to),
            Self::Table(table) => {
                let row = &table[token * to.len()..(token + 1) * to.len()];
                for (to, from) in to.iter_mut().zip(row) {
                    *to = from.to_f32();
                }
            }
        }
    }
}
