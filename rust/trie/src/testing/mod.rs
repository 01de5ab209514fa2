//! What tests of several rooms need: a slow model, damage to files, every interleaving.

pub(crate) mod corrupt;
#[cfg(loom)]
mod interleavings;
mod reference;
#[cfg(not(loom))]
mod views;
