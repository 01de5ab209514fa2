//! Access control: API keys of clients, shared secrets of workers and operators, and how tenants share
//! what bodies and waiting requests may hold, and the threads that read them.

mod api_keys;
mod bodies;
mod grant;
mod key_entry;
mod key_fields;
#[cfg(test)]
mod keys_fuzz;
mod keys_text;
mod reload;
mod room;
mod token;
mod turns;
mod usage;

pub use api_keys::{ApiKeys, read_keys};
pub use bodies::Bodies;
pub(crate) use bodies::{BodyShare, MAX_OPEN_BYTES};
pub use grant::Grant;
pub use key_entry::KeyEntry;
pub(crate) use reload::follow;
pub(crate) use room::{Room, RoomShare};
pub(crate) use token::Token;
pub(crate) use turns::Turns;
pub(crate) use usage::Pass;
