//! What can go wrong: with a request, and with the router itself.

mod kind;
mod request;
mod router;

pub use kind::ErrorKind;
pub use request::RequestError;
pub use router::RouterError;
