//! How many connections the process has file descriptors for.

use std::time::Duration;

use super::places::Places;
use crate::config::LimitsConfig;

/// Connections of clients where the system sets no lower limit.
const MOST_CLIENTS: usize = 16_384;
/// Connections of workers, or of operators and probes, where the system sets no lower limit.
const MOST_OTHERS: usize = 1024;
/// Places for health alone, beside those of clients, workers and operators.
const RESERVE: usize = 16;
/// Descriptors kept for files that are read while serving, and connections that are closing.
const SPARE: usize = 48;
/// What a process has open where that cannot be counted.
const USUAL_OPEN: usize = 32;
/// Fewest places of a kind, however low the limit.
const FEWEST: usize = 4;

/// The places of every kind of listener: no kind takes those of another.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// Of clients: HTTP and gRPC.
    pub(crate) clients: Places,
    /// Of workers.
    pub(crate) workers: Places,
    /// Of operators, and of probes and metrics on an address of their own.
    pub(crate) operators: Places,
}

impl Budget {
    /// What the limit of open files of this process allows: three quarters for clients.
    pub(crate) fn of_process(limits: &LimitsConfig) -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        let open = std::fs::read_dir("/dev/fd").map_or(USUAL_OPEN, Iterator::count);
        let free = limit.map_or(usize::MAX, |limit| {
            limit.saturating_sub(open + SPARE + RESERVE)
        });
        let clients = (free / 4 * 3).min(limits.max_connections.unwrap_or(MOST_CLIENTS));
        let others = (free / 8).clamp(FEWEST, MOST_OTHERS);
        tracing::debug!(clients, others, "places for connections");
        let silence = Duration::from_secs_f64(limits.hello_timeout_s);
        Self {
            clients: Places::new(clients.max(FEWEST), RESERVE / 2, silence),
            workers: Places::prompt(
                limits.max_worker_connections.unwrap_or(others),
                RESERVE / 4,
                silence,
            ),
            operators: Places::prompt(others, RESERVE / 4, silence),
        }
    }
}
