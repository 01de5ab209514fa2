//! Clients that note what their streams bring, and go on where they were when they are cut.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use spectrie_proto::v1;
use spectrie_proto::v1::generate_event::Event;
use tokio::task::JoinHandle;

use super::model::answer;
use crate::error::{ErrorKind, RequestError};
use crate::generation::{Caller, Generation, GenerationStream, Resume};
use crate::sync::lock;
use spectrie_types::seed::choice_seed;

/// What a client asks for.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) name: String,
    pub(super) seed: u64,
    pub(super) num_choices: u32,
    pub(super) max_tokens: usize,
    /// Workers die when they are to compute this place of any of its answers.
    pub(super) poison_at: Option<usize>,
    /// How long it waits before each read.
    pub(super) slowness: Duration,
}

/// A client at work.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) ask: Ask,
    pub(super) reading: JoinHandle<Result<(), String>>,
    seen: Arc<Mutex<Seen>>,
}

/// What a stream brought, over all its connections.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The number of the connection that it listens to.
    pub(super) connection: u64,
    pub(super) token: Option<String>,
    positions: Vec<u32>,
    token_ids: Vec<Vec<u32>>,
    finished: Vec<Vec<v1::Finished>>,
    pub(super) error: Option<ErrorKind>,
}

impl Client {
    pub(super) fn start(generation: &Generation, ask: Ask) -> Self {
        let seen = Arc::new(Mutex::new(Seen::nothing(&ask)));
        let (generation, asked, noted) = (generation.clone(), ask.clone(), seen.clone());
        let reading = tokio::spawn(async move {
            let stream = start(&generation, &asked).await;
            let stream = stream.map_err(|error| format!("{} was refused: {error}", asked.name))?;
            let error = read(stream, asked.slowness, &noted, 0).await;
            lock(&noted).error = error;
            Ok(())
        });
        Self { ask, reading, seen }
    }

    /// Whether it can go on when it is cut.
    pub(super) fn is_resumable(&self) -> bool {
        lock(&self.seen).token.is_some()
    }

    /// Cuts its connection; after a while it goes on at another.
    pub(super) fn cut(&mut self, generation: &Generation, pause: Duration) {
        self.reading.abort();
        let (generation, ask, seen) = (generation.clone(), self.ask.clone(), self.seen.clone());
        self.reading = tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let resume = lock(&seen).resume(&ask.name);
            match generation.resume(&resume, &Caller::default()).await {
                Ok(resumed) => {
                    let error = read(resumed.stream, ask.slowness, &seen, 0).await;
                    lock(&seen).error = error;
                }
                // What failed leaves nothing to go on from.
                Err(error)
                    if matches!(error.kind, ErrorKind::NotFound | ErrorKind::EndsWorkers)
                        && ask.poison_at.is_some() =>
                {
                    lock(&seen).error = Some(ErrorKind::EndsWorkers);
                }
                Err(error) => return Err(format!("{} cannot go on: {error}", ask.name)),
            }
            Ok(())
        });
    }

    /// What it has when it is done.
    pub(super) async fn end(self) -> Result<Seen, String> {
        self.reading.await.map_err(|error| error.to_string())??;
        Ok(lock(&self.seen).clone())
    }
}

/// Begins the stream that a client asks for.
pub(super) async fn start(
    generation: &Generation,
    ask: &Ask,
) -> Result<GenerationStream, RequestError> {
    let request = v1::GenerateRequest {
        request_id: Some(ask.name.clone()),
        prompt: Some(v1::generate_request::Prompt::Text(ask.name.clone())),
        sampling: Some(v1::Sampling {
            seed: Some(ask.seed),
            n: Some(ask.num_choices),
            ..Default::default()
        }),
        stopping: Some(v1::Stopping {
            max_tokens: Some(ask.max_tokens as u32),
            ..Default::default()
        }),
        ..Default::default()
    };
    generation
        .start_resumable(request, Caller::default(), None)
        .await
}

/// Reads to the end, which may be an error; what is noted stays when the reading is cut. Nothing is noted
/// once the client listens to another connection.
pub(super) async fn read(
    mut stream: GenerationStream,
    slowness: Duration,
    seen: &Mutex<Seen>,
    connection: u64,
) -> Option<ErrorKind> {
    let mut last = None;
    loop {
        if !slowness.is_zero() {
            tokio::time::sleep(slowness).await;
        }
        let next = stream.next().await;
        let mut seen = lock(seen);
        let is_heard = seen.connection == connection;
        match next {
            None => return last,
            Some(Err(error)) => last = Some(error.kind),
            Some(Ok(_)) if !is_heard => {}
            Some(Ok(v1::GenerateEvent { event })) => match event {
                Some(Event::Delta(delta)) => {
                    seen.positions[delta.index as usize] = delta.position;
                    seen.token_ids[delta.index as usize].extend(delta.token_ids);
                }
                Some(Event::Finished(finished)) => {
                    seen.positions[finished.index as usize] = finished.position;
                    seen.finished[finished.index as usize].push(finished);
                }
                Some(Event::Started(started)) => seen.token = started.resume_token,
                None => {}
            },
        }
    }
}

impl Seen {
    /// What a client has that has just asked.
    pub(super) fn nothing(ask: &Ask) -> Self {
        let num_choices = ask.num_choices as usize;
        Self {
            connection: 0,
            token: None,
            positions: vec![0; num_choices],
            token_ids: vec![Vec::new(); num_choices],
            finished: vec![Vec::new(); num_choices],
            error: None,
        }
    }

    /// Whether each choice has ended.
    pub(super) fn has_all(&self) -> bool {
        self.finished.iter().all(|ends| !ends.is_empty())
    }

    /// Whether this choice has ended.
    pub(super) fn has_ended(&self, index: usize) -> bool {
        self.finished
            .get(index)
            .is_some_and(|ends| !ends.is_empty())
    }

    /// What it asks for when it goes on.
    pub(super) fn resume(&self, name: &str) -> Resume {
        let positions = self.positions.iter().zip(0..);
        Resume {
            request_id: name.to_owned(),
            or_request_id: None,
            token: self.token.clone().unwrap_or_default(),
            starting_after: positions
                .map(|(position, index)| (index, *position))
                .collect(),
            repeats: false,
        }
    }

    /// Whether any choice ended with other numerics than it began with.
    pub(super) fn says_numerics_changed(&self) -> bool {
        let mut ends = self.finished.iter().flatten();
        ends.any(|finished| finished.numerics_changed)
    }

    /// Checks it against the undisturbed run; gives how many tokens count.
    pub(super) fn check(&self, ask: &Ask) -> Result<usize, String> {
        let name = &ask.name;
        for (index, token_ids) in self.token_ids.iter().enumerate() {
            let whole = answer(choice_seed(ask.seed, index as u32), ask.max_tokens);
            if !whole.starts_with(token_ids) {
                return Err(format!(
                    "{name}.{index} has {token_ids:?} instead of {whole:?}"
                ));
            }
            let ends = &self.finished[index];
            if let Some(finished) = ends.first() {
                check_end(finished, token_ids.len(), ask)?;
            }
            let expected = usize::from(self.error.is_none());
            if ends.len() > 1 || ends.len() < expected {
                return Err(format!("{name}.{index} finished {} times", ends.len()));
            }
            if expected == 1 && token_ids.len() != ask.max_tokens {
                return Err(format!("{name}.{index} has {} tokens", token_ids.len()));
            }
        }
        match (self.error, ask.poison_at) {
            (Some(ErrorKind::EndsWorkers), Some(_)) => Ok(0),
            (None, None) => Ok(self.token_ids.iter().map(Vec::len).sum()),
            (error, poison) => Err(format!("{name} ended with {error:?}, poison at {poison:?}")),
        }
    }
}

fn check_end(finished: &v1::Finished, num_tokens: usize, ask: &Ask) -> Result<(), String> {
    let usage = finished.usage.unwrap_or_default();
    let stats = finished.speculation.clone().unwrap_or_default();
    let steps = stats.accepted_tokens + stats.verify_steps;
    let counts = (usage.prompt_tokens, usage.completion_tokens, steps);
    let num_tokens = num_tokens as u32;
    if counts == (ask.name.len() as u32, num_tokens, num_tokens - 1) {
        return Ok(());
    }
    Err(format!(
        "{} counts {counts:?} with {num_tokens} tokens",
        ask.name
    ))
}
