//! From an engine's tokens to an answer: text, stops, usage and the reason to finish.

mod assembly;
mod end;
mod logprobs;

pub use assembly::{Answer, AnswerDelta};
pub use end::{Ending, finished, usage};
pub use logprobs::with_text;
