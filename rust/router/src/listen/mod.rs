//! Addresses, their sockets, and how many connections they hold.

mod answer;
mod answers;
mod connection;
mod descriptors;
mod held_body;
mod incoming;
mod places;
mod socket;
mod tls;
mod turn;

pub(crate) use answer::{Answer, Client};
pub(crate) use answers::Answers;
pub(crate) use connection::Speaks;
pub(crate) use descriptors::Budget;
pub(crate) use held_body::HeldBody;
pub(crate) use incoming::{ALPN_HTTP1, ALPN_HTTP2, Incoming};
pub(crate) use places::{Kept, Place, Running};
pub(crate) use socket::{Listener, unix_path};
pub(crate) use tls::{Audience, Tls};
