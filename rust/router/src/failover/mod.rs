//! What follows when a worker's part in a choice ends early: who is to blame, where the choice goes
//! next, which workers get nothing for a while and which requests are refused, and what is kept of
//! streams whose client is gone.
//!
//! Decisions only: no sockets, no clock (time is passed in), no locks.

mod blame;
mod convicts;
mod health;
mod held;
mod outline;
mod placement;
mod record;
mod records;
mod resume_token;

pub(crate) use blame::{Blame, End, Verdict};
pub(crate) use convicts::{Convicts, Digest};
pub(crate) use health::Health;
pub(crate) use held::{Held, Part};
pub(crate) use outline::{Outline, num_counted};
pub(crate) use placement::{Candidate, Need, Queue, choose};
pub(crate) use record::{Record, RecordedChoice, end_bytes, logprob_bytes};
#[cfg(test)]
pub(crate) use records::tests::record as example;
pub(crate) use records::{Records, Taken};
pub(crate) use resume_token::ResumeToken;
