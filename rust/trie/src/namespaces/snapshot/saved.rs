//! What a snapshot says of namespaces and blocks.

use crate::store::block_shape::BlockShape;

/// One saved block, and where its text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedBlock<Place> {
    pub(super) shape: BlockShape,
    pub(super) place: Place,
}

/// One saved namespace, its blocks oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedNamespace<Place> {
    pub(super) name: String,
    pub(super) accepted_tokens: u64,
    pub(super) blocks: Vec<SavedBlock<Place>>,
}

impl<Place> SavedNamespace<Place> {
    /// Tokens of its text.
    pub(super) fn num_tokens(&self) -> u64 {
        let tokens = self.blocks.iter().map(|block| block.shape.num_tokens);
        tokens.map(u64::from).sum()
    }
}

/// What is left to read of some bytes. Numbers are little-endian.
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

impl<'a> Rest<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn word(&mut self) -> Option<u32> {
        let bytes = self.take(size_of::<u32>())?;
        bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    pub(super) fn long(&mut self) -> Option<u64> {
        let bytes = self.take(size_of::<u64>())?;
        bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// The name and the accepted tokens of a namespace, and the number of its blocks.
    pub(super) fn namespace(&mut self) -> Option<(String, u64, u32)> {
        let length = self.word()? as usize;
        let name = std::str::from_utf8(self.take(length)?).ok()?.to_owned();
        Some((name, self.long()?, self.word()?))
    }

    /// The shape of a block, if there can be such a block.
    pub(super) fn shape(&mut self) -> Option<BlockShape> {
        let [capacity, end, num_tokens, credit] =
            [self.word()?, self.word()?, self.word()?, self.word()?];
        let shape = BlockShape {
            capacity,
            end,
            // Builds before counted tokens that were written beside a save and lie behind `end`.
            num_tokens: num_tokens.min(end),
            credit,
        };
        shape.is_possible().then_some(shape)
    }
}
