//! Clients that note what their streams bring.

use std::time::Duration;

use futures_util::StreamExt as _;
use spectrie_proto::v1;
use spectrie_proto::v1::generate_event::Event;
use tokio::task::JoinHandle;

use super::model::answer;
use crate::error::ErrorKind;
use crate::generation::{Caller, Generation};
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
    pub(super) reading: JoinHandle<Result<Seen, String>>,
}

/// What a stream brought.
#[derive(Debug)]
pub(super) struct Seen {
    token_ids: Vec<Vec<u32>>,
    finished: Vec<Vec<v1::Finished>>,
    error: Option<ErrorKind>,
}

impl Client {
    pub(super) fn start(generation: &Generation, ask: Ask) -> Self {
        let reading = tokio::spawn(read(generation.clone(), ask.clone()));
        Self { ask, reading }
    }
}

async fn read(generation: Generation, ask: Ask) -> Result<Seen, String> {
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
    let mut stream = generation
        .start(request, Caller::default())
        .await
        .map_err(|error| format!("{} was refused: {error}", ask.name))?;
    let num_choices = ask.num_choices as usize;
    let mut seen = Seen {
        token_ids: vec![Vec::new(); num_choices],
        finished: vec![Vec::new(); num_choices],
        error: None,
    };
    loop {
        if !ask.slowness.is_zero() {
            tokio::time::sleep(ask.slowness).await;
        }
        match stream.next().await {
            None => return Ok(seen),
            Some(Err(error)) => seen.error = Some(error.kind),
            Some(Ok(v1::GenerateEvent { event })) => match event {
                Some(Event::Delta(delta)) => {
                    seen.token_ids[delta.index as usize].extend(delta.token_ids);
                }
                Some(Event::Finished(finished)) => {
                    seen.finished[finished.index as usize].push(finished);
                }
                Some(Event::Started(_)) | None => {}
            },
        }
    }
}

impl Seen {
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
