//! Choices of a whole step, beside what is known of its costs.

mod choices;
mod speculator;
