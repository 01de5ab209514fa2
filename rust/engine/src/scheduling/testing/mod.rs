//! The whole of scheduling beside a naive model of it.

mod traffic;
