//! One request while the engine holds it: its tokens, and how the next ones are drawn.

pub(crate) mod sampled_rows;
#[expect(
    clippy::module_inception,
    reason = "the owner of the room is named by it"
)]
pub(crate) mod sequence;
