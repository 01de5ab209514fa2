//! Generated protobuf messages and checked conversions.
