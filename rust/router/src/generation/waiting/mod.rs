//! Requests that wait for a worker: their places, and how long each may take.

mod line;
mod search;
mod wait;

pub(super) use line::Waiting;
