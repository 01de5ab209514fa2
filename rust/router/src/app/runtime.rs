//! Runs the router on threads of its own, until a signal.

use tokio::signal::unix::{SignalKind, signal};

use super::log::start_log;
use super::{Bound, Ending, Shutdown, serve};
use crate::config::RouterConfig;
use crate::error::RouterError;

/// Serves until a signal or `shutdown`, blocking this thread.
///
/// # Errors
/// As [`app::serve`], and a log filter that cannot be read.
pub fn run(
    config: RouterConfig,
    on_ready: impl FnOnce(&Bound) + Send,
    shutdown: Shutdown,
) -> Result<Ending, RouterError> {
    start_log(&config.log)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = config
        .runtime
        .threads
        .unwrap_or(if cores <= 2 { 1 } else { 2 });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        .thread_name("spectrie-router")
        .enable_all()
        .build()?;
    let handle_signals = config.runtime.handle_signals;
    let ending = runtime.block_on(async {
        if handle_signals {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            let shutdown = shutdown.clone();
            tokio::spawn(async move {
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                    shutdown.request();
                }
            });
        }
        serve(config, on_ready, shutdown).await
    });
    // Requests that were cut off must not hold the process.
    runtime.shutdown_background();
    ending
}
