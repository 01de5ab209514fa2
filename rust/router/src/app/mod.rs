//! The program: wiring, runtime, and the request to end.

mod background;
mod certificates;
mod listeners;
mod log;
mod pupils;
mod runtime;
mod serve;
mod shutdown;

pub use listeners::Bound;
pub use runtime::run;
pub use serve::{Ending, serve};
pub use shutdown::Shutdown;
