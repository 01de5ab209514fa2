//! The life of one worker's stream: artifacts, ready, outputs, end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spectrie_proto::worker_v1::{Heartbeat, WorkerMessage, worker_message::Message};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::artifacts::Artifacts;
use super::broadcast::Broadcast;
use super::model::ServedModel;
use super::registry::Registry;
use super::worker::Worker;
use crate::fleet::{Fleet, ModelKey, Place};
use crate::metrics::Metrics;

/// Longest time from hello to ready: a large model is warmed in it.
const LOADING_TIME: Duration = Duration::from_secs(600);

/// How often a session looks at the clock while its worker is silent, at least.
const LOOK: Duration = Duration::from_secs(1);
/// A look that comes so late says that the router itself was held up, and heard nothing.
const ABSENT: Duration = Duration::from_millis(500);

/// What a session needs beside its stream.
#[derive(Clone, Debug)]
pub(crate) struct SessionContext {
    pub(crate) registry: Arc<Registry>,
    pub(crate) broadcast: Arc<Broadcast>,
    pub(crate) fleet: Fleet,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stall_timeout: Duration,
    pub(crate) shutdown: CancellationToken,
}

/// Serves a worker that was welcomed until its stream ends, however it ends.
pub(crate) async fn run(
    context: SessionContext,
    worker: Arc<Worker>,
    mut inbound: Streaming<WorkerMessage>,
) {
    let loading = context.registry.begin_loading(&worker.hello.model);
    let ended = tokio::select! {
        ended = serve(&context, &worker, &mut inbound, loading) => ended,
        // A good end: the worker has nothing to complain of.
        () = context.shutdown.cancelled() => Status::ok("the router is shutting down"),
    };
    // Leaving first: no request may choose a worker that is about to refuse.
    context.registry.leave(&worker);
    let hello = &worker.hello;
    context
        .metrics
        .worker_left(&hello.model, &worker.id, &hello.instance);
    context.metrics.facts.left(&worker.id, hello);
    if context.shutdown.is_cancelled() {
        tracing::info!(worker = %worker.id, "worker released");
    } else if worker.is_draining() {
        tracing::info!(worker = %worker.id, model = %worker.hello.model,
            choices = worker.num_choices(), "worker drained");
    } else {
        tracing::warn!(worker = %worker.id, model = %worker.hello.model, reason = %ended.message(),
            choices = worker.num_choices(), "worker lost");
    }
    worker.lose(ended);
}

/// Runs the stream; gives why it ended.
async fn serve(
    context: &SessionContext,
    worker: &Arc<Worker>,
    inbound: &mut Streaming<WorkerMessage>,
    loading: super::registry::Loading,
) -> Status {
    let model = match timeout(LOADING_TIME, load(context, worker, inbound)).await {
        Ok(Ok(model)) => model,
        Ok(Err(status)) => return status,
        Err(_) => return Status::deadline_exceeded("no ready within 600 s of the hello"),
    };
    drop(loading);
    let key = model.fleet_key();
    let (broadcast, greeted) = (context.broadcast.clone(), worker.clone());
    let of_model = key.clone();
    tokio::spawn(async move {
        tokio::join!(
            broadcast.catch_up(&of_model, &greeted),
            broadcast.greet(&greeted)
        );
    });
    let mut progress = Progress::new(context.stall_timeout);
    loop {
        match heard(&mut progress, inbound).await {
            Some(Ok(Some(WorkerMessage {
                message: Some(message),
            }))) => {
                progress.note(&message);
                if let Err(status) = take(context, worker, &key, message) {
                    return status;
                }
            }
            // A message of a later protocol.
            Some(Ok(Some(_))) => {}
            Some(Ok(None)) => return Status::unavailable("the worker closed its stream"),
            Some(Err(status)) => return status,
            None => {
                let seconds = progress.limit().as_secs_f64();
                return Status::unavailable(format!("no message for {seconds} s"));
            }
        }
        if progress.is_stalled() {
            let seconds = progress.limit().as_secs_f64();
            return Status::unavailable(format!("no step for {seconds} s with work pending"));
        }
    }
}

/// What comes next; None if nothing comes for as long as the worker may make no progress.
///
/// Only time in which the router itself ran counts: one that was stopped, or got no processor, would
/// lose all its workers at once, each with a message waiting in its socket.
async fn heard(
    progress: &mut Progress,
    inbound: &mut Streaming<WorkerMessage>,
) -> Option<Result<Option<WorkerMessage>, Status>> {
    let mut silent = Duration::ZERO;
    while silent < progress.limit() {
        let part = LOOK.min(progress.limit().saturating_sub(silent));
        let begun = Instant::now();
        let heard = timeout(part, inbound.message()).await;
        let late = begun.elapsed().saturating_sub(part);
        if late > ABSENT {
            progress.last += late;
        } else {
            silent += part;
        }
        if let Ok(message) = heard {
            return Some(message);
        }
    }
    None
}

/// Takes the artifacts up to ready and joins the registry.
async fn load(
    context: &SessionContext,
    worker: &Arc<Worker>,
    inbound: &mut Streaming<WorkerMessage>,
) -> Result<Arc<ServedModel>, Status> {
    let mut artifacts = Artifacts::default();
    loop {
        let message = inbound.message().await?;
        match message.map(|message| message.message) {
            Some(Some(Message::Artifact(chunk))) => artifacts.push(&chunk)?,
            Some(Some(Message::Ready(_))) => break,
            Some(Some(Message::Hello(_))) => {
                return Err(Status::invalid_argument("a second hello on one stream"));
            }
            Some(_) => {}
            None => return Err(Status::unavailable("the worker left before it was ready")),
        }
    }
    artifacts.check_complete()?;
    let digest = artifacts.digest();
    let model = match context.registry.known_model(&worker.hello, &digest) {
        Some(model) => model,
        None => build_model(worker, artifacts, digest).await?,
    };
    let place = warm(context, &model, worker, inbound).await?;
    context.registry.join(model.clone(), worker.clone())?;
    context.broadcast.follow(&model, place);
    context
        .metrics
        .worker_joined(&worker.hello.model, &worker.id, worker.hello.exact);
    context.metrics.facts.joined(&worker.id, &worker.hello);
    tracing::info!(worker = %worker.id, model = %worker.hello.model,
        fingerprint = %worker.hello.numeric_fingerprint, "worker ready");
    Ok(model)
}

/// Brings the worker to what other routers learned and forgot, and hears its answers meanwhile.
async fn warm(
    context: &SessionContext,
    model: &ServedModel,
    worker: &Worker,
    inbound: &mut Streaming<WorkerMessage>,
) -> Result<Option<Place>, Status> {
    let mut warm = std::pin::pin!(context.broadcast.warm(model, worker));
    loop {
        let message = tokio::select! {
            biased;
            place = &mut warm => return Ok(place),
            message = inbound.message() => message?,
        };
        match message.map(|message| message.message) {
            Some(Some(Message::AdminReply(reply))) => worker.answer(reply),
            Some(_) => {}
            None => return Err(Status::unavailable("the worker left before it was ready")),
        }
    }
}

/// Builds tokenizer and template off the serving threads: a large vocabulary takes a second.
async fn build_model(
    worker: &Arc<Worker>,
    artifacts: Artifacts,
    digest: String,
) -> Result<Arc<ServedModel>, Status> {
    let worker = worker.clone();
    let build = move || ServedModel::build(&worker.hello, &artifacts, digest);
    match tokio::task::spawn_blocking(build).await {
        Ok(Ok(model)) => Ok(Arc::new(model)),
        Ok(Err(error)) => Err(Status::invalid_argument(error.to_string())),
        Err(_) => Err(Status::internal("the model's files could not be read")),
    }
}

/// Handles one message of a ready worker.
fn take(
    context: &SessionContext,
    worker: &Worker,
    model: &ModelKey,
    message: Message,
) -> Result<(), Status> {
    match message {
        Message::StepOutput(step) => context.registry.deliver(worker, step.outputs),
        Message::Learned(learned) => {
            let lagging = context
                .registry
                .learned(worker, model, &context.fleet, learned);
            context.metrics.learn_dropped(lagging);
        }
        Message::Load(load) => {
            let hello = &worker.hello;
            context
                .metrics
                .load(&hello.model, &worker.id, &hello.instance, &load);
            worker.set_load(load);
        }
        Message::AdminReply(reply) => worker.answer(reply),
        Message::Draining(_) => {
            tracing::info!(worker = %worker.id, choices = worker.num_choices(), "worker drains");
            context.registry.begin_drain(worker);
        }
        Message::Heartbeat(_) | Message::Ready(_) => {}
        Message::Hello(_) | Message::Artifact(_) => {
            return Err(Status::invalid_argument(
                "hello and artifacts come before ready",
            ));
        }
    }
    Ok(())
}

/// Steps like the longest one that a worker foresees, in the time that it may take for one at least.
const LONGEST_STEPS: f64 = 5.0;
/// Most that a worker may foresee.
const LONGEST_STEP: Duration = Duration::from_secs(600);

/// Distinguishes a worker that makes progress from one that only reports it.
#[derive(Debug)]
struct Progress {
    steps: u64,
    last: Instant,
    stall_timeout: Duration,
    longest_step: Duration,
}

impl Progress {
    fn new(stall_timeout: Duration) -> Self {
        Self {
            steps: 0,
            last: Instant::now(),
            stall_timeout,
            longest_step: Duration::ZERO,
        }
    }

    fn note(&mut self, message: &Message) {
        match message {
            Message::Heartbeat(beat) => self.note_beat(beat),
            Message::StepOutput(_) => self.last = Instant::now(),
            _ => {}
        }
    }

    fn note_beat(&mut self, beat: &Heartbeat) {
        if beat.steps != self.steps || !beat.busy {
            self.steps = beat.steps;
            self.last = Instant::now();
        }
        let longest = Duration::try_from_secs_f64(beat.longest_step_ms / 1e3);
        self.longest_step = longest.unwrap_or_default().min(LONGEST_STEP);
    }

    /// How long it may make no progress.
    fn limit(&self) -> Duration {
        let foreseen = self.longest_step.mul_f64(LONGEST_STEPS);
        self.stall_timeout.max(foreseen)
    }

    fn is_stalled(&self) -> bool {
        self.last.elapsed() > self.limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(steps: u64, busy: bool, longest_step_ms: f64) -> Message {
        Message::Heartbeat(Heartbeat {
            steps,
            busy,
            longest_step_ms,
        })
    }

    fn long_ago() -> Instant {
        Instant::now().checked_sub(Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn only_busy_heartbeats_without_a_step_are_no_progress() {
        let mut progress = Progress::new(Duration::from_secs(30));
        progress.last = long_ago();
        progress.note(&beat(0, true, 0.0));
        assert!(progress.is_stalled());
        progress.note(&beat(1, true, 0.0));
        assert!(!progress.is_stalled());
        progress.last = long_ago();
        progress.note(&beat(1, false, 0.0));
        assert!(!progress.is_stalled());
    }

    #[test]
    fn a_worker_has_five_times_the_longest_step_that_it_foresees() {
        let mut progress = Progress::new(Duration::from_secs(30));
        for (longest_ms, stalled) in [(11_900.0, true), (12_100.0, false), (f64::NAN, true)] {
            progress.last = long_ago();
            progress.note(&beat(0, true, longest_ms));
            assert_eq!(progress.is_stalled(), stalled, "{longest_ms}");
        }
        progress.note(&beat(0, true, f64::MAX));
        assert_eq!(progress.limit(), Duration::from_secs(30));
        progress.note(&beat(0, true, 1e9));
        assert_eq!(progress.limit(), Duration::from_secs(3000));
    }
}
