//! Draft sources: texts, the prediction, the model's own answers, corpora.

pub(crate) mod all;
pub(crate) mod asked;
pub(crate) mod bigrams;
pub(crate) mod corpora;
pub(crate) mod head_place;
pub(crate) mod hints;
pub(crate) mod prediction;
pub(crate) mod recycled;
pub(crate) mod text;
mod text_index;
