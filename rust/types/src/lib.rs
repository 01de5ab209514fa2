//! Names, numbers, limits and seeds that several crates share. It depends on nothing.

mod drop_reason;
mod finish_kind;
pub mod histogram;
mod holdings;
pub mod limits;
mod named;
pub mod options;
mod packed_section;
mod recycle;
pub mod seed;
pub mod sizes;
mod source;
mod speculation_mode;
mod unknown_name;

pub use drop_reason::{DropReason, NUM_DROP_REASONS};
pub use finish_kind::FinishKind;
pub use histogram::Histogram;
pub use holdings::{Holdings, Standing};
pub use packed_section::{PackedSection, PackedWork};
pub use recycle::Recycle;
pub use source::{NUM_SOURCES, Source};
pub use speculation_mode::SpeculationMode;
pub use unknown_name::UnknownName;
