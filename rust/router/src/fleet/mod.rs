//! What routers share through Redis: learned text, what was forgotten, limits of API keys and records of streams. `DESIGN.md` beside this
//! file says how it is kept there.
//!
//! No request waits for any of it. Without `--redis` a router is alone, and nothing here runs.

mod address;
mod connection;
mod entry;
mod generations;
mod greeting;
mod handle;
mod keys;
mod limits;
mod pupils;
mod records;
mod run;
mod slices;
mod streams;
mod wire;

#[cfg(test)]
pub(crate) use connection::{Bus, Server};
pub(crate) use handle::Fleet;
pub(crate) use keys::ModelKey;
pub(crate) use pupils::{Gone, Pupils};
pub(crate) use records::origin::Origin;
pub(crate) use run::run;
#[cfg(test)]
pub(crate) use run::text_of;
pub(crate) use slices::{Account, Counted, Verdict};
pub(crate) use streams::{Sharing, TakenOver, Taking};
pub(crate) use wire::StreamId as Place;
