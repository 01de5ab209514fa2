//! How wide a row is in each buffer of a decoder.

/// Widths of a row in each buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Widths {
    pub(crate) hidden: usize,
    pub(crate) qkv: usize,
    pub(crate) attended: usize,
    /// Of the gated activation of a dense layer; 0 where there is none.
    pub(crate) gated: usize,
    /// Of one expert's gated activation; 0 where there are no mixtures.
    pub(crate) expert: usize,
    /// Experts that a row takes.
    pub(crate) chosen: usize,
    /// Experts of a mixture.
    pub(crate) experts: usize,
}

impl Widths {
    /// Those of a decoder without layers; each layer then adds what it needs.
    pub(crate) fn new(hidden: usize, qkv: usize, attended: usize) -> Self {
        Self {
            hidden,
            qkv,
            attended,
            gated: 0,
            expert: 0,
            chosen: 0,
            experts: 0,
        }
    }

    /// Of all gated activations that a row has at one time.
    pub(crate) fn activated(self) -> usize {
        self.gated.max(self.chosen * self.expert)
    }
}
