//! The embedding: from a token to the start of its residual stream.

use crate::error::CpuError;
use crate::matmul::Linear;
use crate::simd::Dtype;

/// The table of token vectors.
pub enum Embedding<E: Dtype> {
    /// The weights of the whole LM head, stored once.
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

impl<'a, E: Dtype> Target<'a, E> {
    /// `whole` is the head of all tokens, where `head` has some of them alone.
    pub(crate) fn new(
        embedding: &'a Embedding<E>,
        head: &'a Linear<E>,
        whole: Option<&'a Linear<E>>,
    ) -> Self {
        let head = whole.unwrap_or(head);
        Self { embedding, head }
    }

    /// Checks that there is a vector for every token.
    pub(crate) fn check(&self, vocabulary: usize) -> Result<(), CpuError> {
        let (given, expected) = match self.embedding {
            Embedding::Tied => (self.head.out_features(), vocabulary),
            Embedding::Table(table) => (table.len(), self.head.in_features() * vocabulary),
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

    /// Writes the vector of a token, `[hidden]`.
    pub(crate) fn look_up(&self, token: usize, to: &mut [f32]) {
        match self.embedding {
            Embedding::Tied => self.head.weight_row(token, to),
            Embedding::Table(table) => {
                let row = &table[token * to.len()..(token + 1) * to.len()];
                for (to, from) in to.iter_mut().zip(row) {
                    *to = from.to_f32();
                }
            }
        }
    }
}

impl<E: Dtype> Embedding<E> {
    /// Memory that the table takes, besides the head's.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Tied => 0,
            Self::Table(table) => size_of_val(table.as_slice()),
        }
    }
}
