//! What each call of a client did: one line of the log when it ends, and the list that operators
//! read. Counts, times and names only: neither holds text of a request or an answer.

mod call;
mod line;
mod noted;
mod recent;
mod report;
mod table;
mod trace;

pub(crate) use call::Call;
pub(crate) use recent::Calls;
pub(crate) use report::Report;
