//! One request while the engine holds it: its tokens, and how the next ones are drawn.

mod draw_state;
mod listed_draws;
mod sampled_rows;
#[expect(
    clippy::module_inception,
    reason = "the owner of the room is named by it"
)]
mod sequence;
mod timeline;
mod walk;

pub(crate) use sampled_rows::{NotDrawn, SampledRows};
pub(crate) use sequence::Sequence;
pub(crate) use walk::walk;
