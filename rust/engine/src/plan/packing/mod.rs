//! A step as a device reads it: all its integers in one array, which is copied at once.
//!
//! `Packer` writes the sections of [`PackedSection`](spectrie_types::PackedSection), then attention's work
//! for each window. The array begins with a table of where each of them is.

#[cfg(test)]
mod coverage;
mod draw_rows;
mod key_order;
mod packed_words;
mod packer;
mod path_slots;
mod shape;
mod step;
mod work;

pub(crate) use draw_rows::{DrawRows, MAX_DRAWN_VOCABULARY};
pub(crate) use packer::Packer;
pub use shape::{DeviceShape, TileRows};
pub use step::PackedStep;
