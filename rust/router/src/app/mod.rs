//! The program: wiring, runtime, and the request to end.

mod runtime;
mod serve;
mod shutdown;

pub use runtime::run;
pub use serve::{AppState, Bound, Ending, serve};
pub use shutdown::Shutdown;
