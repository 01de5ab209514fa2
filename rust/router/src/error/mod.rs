//! What can go wrong: with a request, and with the router itself.

mod kind;
mod request;
mod router;
mod shown;

pub use kind::ErrorKind;
pub use request::RequestError;
pub use router::RouterError;
pub(crate) use shown::{MAX_ECHO_BYTES, cut, escaped, shown};
