//! Generated protobuf messages of Spectrie.
//!
//! `src/generated/` is written by `cargo run --release -p spectrie-codegen`; do not edit it.

/// Messages and services of the public API, package `spectrie.v1`.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic
)]
pub mod v1 {
    include!("generated/spectrie.v1.rs");
}

/// Messages and services between router and workers, package `spectrie.worker.v1`.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic
)]
pub mod worker_v1 {
    include!("generated/spectrie.worker.v1.rs");
}

/// Encoded `google.protobuf.FileDescriptorSet` of the public API, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/spectrie.v1.bin");

/// The same of the operators' API, which has a listener of its own.
pub const ADMIN_FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/spectrie.v1.admin.bin");

/// Number of the worker protocol that this build speaks; it also accepts the previous one.
pub const WORKER_PROTOCOL: u32 = 1;

/// Full name of the public service, as health checks ask for it.
pub const SERVICE_NAME: &str = "spectrie.v1.Inference";

/// Full name of the operators' service.
pub const ADMIN_SERVICE_NAME: &str = "spectrie.v1.Admin";
