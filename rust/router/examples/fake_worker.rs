//! A worker without a model, to measure the router alone.
//!
//! `fake_worker ROUTER [TOKENS_PER_STEP] [STEP_MICROSECONDS] [MAX_RUNNING] [MAX_CONTEXT]` dials
//! `unix:PATH` and echoes every prompt until it is killed or the router goes.
#![allow(unreachable_pub, dead_code)] // The worker is shared with tests, which use more of it.

#[path = "../tests/support/fake_memory.rs"]
mod fake_memory;
#[path = "../tests/support/fake_worker.rs"]
mod fake_worker;

use std::str::FromStr;
use std::time::Duration;

use fake_worker::FakeWorker;
use tokio::sync::mpsc::unbounded_channel;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(router) = arguments.first() else {
        return Err(
            "usage: fake_worker ROUTER [TOKENS_PER_STEP] [STEP_MICROSECONDS] \
                    [MAX_RUNNING] [MAX_CONTEXT]"
                .into(),
        );
    };
    let worker = FakeWorker {
        tokens_per_step: number(&arguments, 1, 1)?,
        step_time: Duration::from_micros(number(&arguments, 2, 1000)?),
        max_running: number(&arguments, 3, 64)?,
        max_context: number(&arguments, 4, 8192)?,
        ..FakeWorker::default()
    };
    let (sender, mut heard) = unbounded_channel();
    tokio::spawn(async move { while heard.recv().await.is_some() {} });
    Ok(worker.run(router, sender).await?)
}

/// The argument at `index`, or `default` when it is absent.
fn number<T: FromStr>(arguments: &[String], index: usize, default: T) -> Result<T, T::Err> {
    arguments
        .get(index)
        .map_or(Ok(default), |text| text.parse())
}
