//! What this router knows of the streams that it shares, and the bytes that records of them have.

pub(super) mod entry;
pub(super) mod origin;
pub(super) mod pulse;
pub(super) mod table;
pub(super) mod written;
