//! The events of one API request, which may be several requests to the core: one per prompt.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use futures_core::Stream;
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use futures_util::stream::{SelectAll, select_all};
use spectrie_proto::v1;
use spectrie_proto::v1::generate_event::Event;

use crate::app::AppState;
use crate::error::{ErrorKind, RequestError};
use crate::generation::Caller;

use super::error::HttpError;
use super::models::system_fingerprint;
use super::request::{ApiRequest, Endpoint, Names};
use super::response::Identity;
use super::totals::Totals;

/// How long the answer's status waits for the first token. A failure within it (a worker that
/// refuses or dies) is then a status that clients retry, not an event inside a stream that began
/// with 200.
const EARLY_FAILURE_WINDOW: Duration = Duration::from_secs(1);

type Tagged = (u32, Result<v1::GenerateEvent, RequestError>);

/// One thing that happened to a choice of the answer, by its index there.
#[derive(Debug)]
pub(super) enum Happened {
    Delta(u32, v1::Delta),
    Finished(u32, v1::Finished),
}

/// A request that runs. Dropping it cancels every part of it.
pub(super) struct Running {
    events: SelectAll<Pin<Box<dyn Stream<Item = Tagged> + Send>>>,
    early: VecDeque<Happened>,
    choices_per_prompt: u32,
    unfinished: u32,
    names: Names,
    /// Sums over what ended so far.
    pub(super) totals: Totals,
    /// What the objects of the answer repeat.
    pub(super) identity: Identity,
}

impl Running {
    /// Starts every prompt of `api` and waits until one was accepted and has its first token, or
    /// the window is over.
    ///
    /// # Errors
    /// The first failure of any part.
    pub(super) async fn start(
        state: &AppState,
        api: &ApiRequest,
        id: &str,
        caller: Caller,
    ) -> Result<Self, HttpError> {
        let several = api.requests.len() > 1;
        let starts = api.requests.iter().enumerate().map(|(index, request)| {
            let mut request = request.clone();
            request.request_id = Some(if several {
                format!("{id}-{index}")
            } else {
                id.to_owned()
            });
            state.generation.start(request, caller.clone())
        });
        let streams = try_join_all(starts).await;
        let streams = streams.map_err(|error| HttpError::of_core(error, api.names))?;
        let tagged = streams.into_iter().zip(0_u32..).map(|(stream, prompt)| {
            let stream = stream.map(move |event| (prompt, event));
            Box::pin(stream) as Pin<Box<dyn Stream<Item = Tagged> + Send>>
        });
        let prefix = match api.endpoint {
            Endpoint::Chat => "chatcmpl",
            Endpoint::Completions => "cmpl",
        };
        let mut running = Self {
            events: select_all(tagged),
            early: VecDeque::new(),
            choices_per_prompt: api.choices_per_prompt,
            unfinished: api.choices(),
            names: api.names,
            totals: Totals::new(id),
            identity: Identity {
                endpoint: api.endpoint,
                id: format!("{prefix}-{id}"),
                created: 0,
                model: String::new(),
                system_fingerprint: None,
            },
        };
        running.wait_for_first_token().await?;
        let models = state.generation.models();
        let model = models
            .iter()
            .find(|model| model.name == running.identity.model);
        running.identity.system_fingerprint = model.map(system_fingerprint);
        Ok(running)
    }

    async fn wait_for_first_token(&mut self) -> Result<(), HttpError> {
        // `started` comes first and at once; the window is for what follows it.
        while self.identity.model.is_empty() {
            let Some(event) = self.events.next().await else {
                return Err(self.broken_off());
            };
            if let Some(happened) = self.take(event)? {
                self.early.push_back(happened);
            }
        }
        if let Ok(happened) = tokio::time::timeout(EARLY_FAILURE_WINDOW, self.next()).await
            && let Some(happened) = happened?
        {
            self.early.push_back(happened);
        }
        Ok(())
    }

    /// The next thing that happened; `None` once every choice has ended. Losing this future loses
    /// no event.
    ///
    /// # Errors
    /// The failure that ends the whole answer.
    pub(super) async fn next(&mut self) -> Result<Option<Happened>, HttpError> {
        if let Some(happened) = self.early.pop_front() {
            return Ok(Some(happened));
        }
        while self.unfinished > 0 {
            let Some(event) = self.events.next().await else {
                return Err(self.broken_off());
            };
            if let Some(happened) = self.take(event)? {
                return Ok(Some(happened));
            }
        }
        Ok(None)
    }

    fn take(&mut self, (prompt, event): Tagged) -> Result<Option<Happened>, HttpError> {
        let event = event.map_err(|error| HttpError::of_core(error, self.names))?;
        let first = prompt * self.choices_per_prompt;
        Ok(match event.event {
            Some(Event::Started(started)) => {
                self.totals.add_started(&started);
                if self.identity.model.is_empty() {
                    self.identity.created = started.created;
                    self.identity.model = started.model;
                }
                None
            }
            Some(Event::Delta(delta)) => Some(Happened::Delta(first + delta.index, delta)),
            Some(Event::Finished(finished)) => {
                self.totals.add_finished(&finished, finished.index == 0);
                self.unfinished = self.unfinished.saturating_sub(1);
                Some(Happened::Finished(first + finished.index, finished))
            }
            None => None,
        })
    }

    /// The streams ended before the choices did.
    fn broken_off(&self) -> HttpError {
        let message = format!("request {} ended without an answer", self.identity.id);
        HttpError::of_core(RequestError::new(ErrorKind::Internal, message), self.names)
    }
}
