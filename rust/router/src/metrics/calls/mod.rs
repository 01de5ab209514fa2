//! What each call of a client did: one line of the log when it ends, and the list that operators
//! read. Counts, times and names only: neither holds text of a request or an answer.

mod call;
mod context;
mod line;
mod noted;
mod recent;
mod recording;
mod report;
mod spans;
mod table;

pub(crate) use call::Call;
pub(crate) use recent::Calls;
pub(crate) use recording::AttemptName;
pub(crate) use report::Report;
