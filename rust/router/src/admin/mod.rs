//! The operators' side: corpora, namespaces, snapshots and totals, on a listener of its own.

mod merge;
mod server;
mod service;
mod workers;

pub(crate) use server::{AdminListener, bind, serve};
pub(crate) use service::AdminService;
