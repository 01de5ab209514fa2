//! What forwards cost.

mod curve;
#[cfg(test)]
mod learning;
mod rising;
mod shape;
mod size;

pub(crate) use curve::CostCurve;
pub use shape::CostShape;
pub(crate) use size::ForwardSize;
