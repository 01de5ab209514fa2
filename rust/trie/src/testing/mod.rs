//! What tests of several rooms need: a slow model, damage to files, every interleaving.

pub(crate) mod corrupt;
#[cfg(loom)]
mod interleavings;
pub(crate) mod memory_disk;
mod reference;
#[cfg(not(loom))]
mod views;
