//! Workers as operators see them: their loads, and the end of one.

use std::time::{Duration, Instant};

use spectrie_proto::v1;

use crate::error::{ErrorKind, RequestError};
use crate::workers::{Broadcast, Undrained};

/// What the workers of a model have to do now, or all workers.
pub(super) fn loads(broadcast: &Broadcast, model: Option<&str>) -> Vec<v1::WorkerLoad> {
    let workers = broadcast.all_workers();
    let asked = workers
        .iter()
        .filter(|worker| model.is_none_or(|model| worker.hello.model == model));
    let load = asked.map(|worker| {
        let load = worker.load();
        v1::WorkerLoad {
            worker: worker.id.clone(),
            process_id: worker.hello.process_id,
            model: worker.hello.model.clone(),
            is_draining: worker.is_draining(),
            choices: count(worker.num_choices()),
            max_running: count(worker.max_running()),
            waiting: load.waiting,
            pages_used: load.pages_used,
            pages_total: load.pages_total,
            steps: load.steps,
        }
    });
    load.collect()
}

/// Has a worker drain, and answers once it has ended.
///
/// # Errors
/// There is no such worker, or it has not ended by `deadline`.
pub(super) async fn drain(
    broadcast: &Broadcast,
    request: &v1::DrainRequest,
    deadline: Instant,
) -> Result<v1::DrainResponse, RequestError> {
    let grace = request.grace_ms.map(Duration::from_millis);
    match broadcast.drain(&request.worker, grace, deadline).await {
        Ok(drained) => Ok(v1::DrainResponse {
            worker: drained.worker,
            handed_over: count(drained.handed_over),
        }),
        Err(Undrained::Unknown(workers)) => {
            let there_are = match workers.as_slice() {
                [] => "there is none".to_owned(),
                _ => format!("there are: {}", workers.join(", ")),
            };
            let message = format!("no worker {:?}; {there_are}", request.worker);
            Err(RequestError::new(ErrorKind::NotFound, message))
        }
        Err(Undrained::Still { worker, choices }) => {
            let message = format!(
                "{worker} still drains: it runs {choices} completions, gets no new ones, and ends by itself"
            );
            Err(RequestError::new(ErrorKind::DeadlineExceeded, message))
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
