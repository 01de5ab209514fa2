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
use spectrie_types::limits::MAX_CHOICES;

use crate::error::{ErrorKind, RequestError};
use crate::generation::Caller;
use crate::state::AppState;

use super::form::Form;
use super::response::Identity;
use super::sse::Encoder;
use super::usage::Totals;
use crate::http::convert::{ApiRequest, Endpoint, Extras, Names};
use crate::http::error::HttpError;
use crate::http::models::system_fingerprint;

/// How long the answer's status waits for the first token. A failure within it (a worker that
/// refuses or dies) is then a status that clients retry, not an event inside a stream that began
/// with 200.
const EARLY_FAILURE_WINDOW: Duration = Duration::from_secs(1);

type Tagged = (u32, Result<v1::GenerateEvent, RequestError>);

/// One thing that happened to a choice of the answer, by its index there.
#[derive(Debug)]
pub(crate) enum Happened {
    Delta(u32, v1::Delta),
    Finished(u32, v1::Finished),
}

/// A request that runs. Dropping it cancels every part of it.
pub(crate) struct Running {
    events: SelectAll<Pin<Box<dyn Stream<Item = Tagged> + Send>>>,
    early: VecDeque<Happened>,
    choices_per_prompt: u32,
    num_choices: u32,
    unfinished: u32,
    names: Names,
    /// What its client may go on with.
    resume_token: Option<String>,
    /// Sums over what ended so far.
    pub(crate) totals: Totals,
    /// What the objects of the answer repeat.
    pub(crate) identity: Identity,
}

/// What is known of an answer before its first event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) endpoint: Endpoint,
    pub(super) choices_per_prompt: u32,
    pub(super) num_choices: u32,
    pub(super) names: Names,
}

impl Shape {
    fn of(api: &ApiRequest) -> Self {
        Self {
            endpoint: api.endpoint,
            choices_per_prompt: api.choices_per_prompt,
            num_choices: api.num_choices,
            names: api.names,
        }
    }
}

impl Endpoint {
    /// What the ids of its answers have before the request's.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Chat => "chatcmpl",
            Self::Completions => "cmpl",
        }
    }
}

impl Running {
    /// Starts every prompt of `api`, whose requests it takes, and waits until one was accepted and
    /// has its first token, or the window is over.
    ///
    /// # Errors
    /// The first failure of any part.
    pub(crate) async fn start(
        state: &AppState,
        api: &mut ApiRequest,
        id: &str,
        caller: Caller,
    ) -> Result<Self, HttpError> {
        let model = api.requests.first().and_then(|one| one.model.as_deref());
        let num_choices = api.choices_per_prompt.min(MAX_CHOICES);
        let fits = state
            .generation
            .check_batch(model, api.requests.len(), num_choices as usize);
        fits.map_err(|error| HttpError::of_core(error, api.names))?;
        let form = Form::of(api).map(Form::to_text);
        let requests = std::mem::take(&mut api.requests);
        let several = requests.len() > 1;
        let starts = requests.into_iter().enumerate().map(|(index, request)| {
            let name = if several {
                format!("{id}-{index}")
            } else {
                id.to_owned()
            };
            let request = v1::GenerateRequest {
                request_id: Some(name),
                ..request
            };
            let (form, caller) = (form.clone(), caller.clone());
            async move {
                let generation = &state.generation;
                match form {
                    Some(_) => generation.start_resumable(request, caller, form).await,
                    None => generation.start(request, caller).await,
                }
            }
        });
        let streams = try_join_all(starts).await;
        let streams = streams.map_err(|error| HttpError::of_core(error, api.names))?;
        let mut running = Self::of_streams(streams, Shape::of(api), id);
        running.begin(state).await?;
        Ok(running)
    }

    /// What writes its events.
    pub(crate) fn encoder(&mut self, extras: Extras) -> Encoder {
        let encoder = Encoder::new(self.identity.clone(), extras);
        match self.resume_token.take() {
            Some(token) => encoder.resumable(token, self.num_choices),
            None => encoder,
        }
    }

    /// Waits for the first token, and learns what the objects of the answer repeat.
    pub(super) async fn begin(&mut self, state: &AppState) -> Result<(), HttpError> {
        self.wait_for_first_token().await?;
        let models = state.generation.models();
        let model = models
            .iter()
            .find(|model| model.name == self.identity.model);
        self.identity.system_fingerprint = model.map(system_fingerprint);
        Ok(())
    }

    /// A request whose prompts are these streams, in order.
    pub(super) fn of_streams<S>(streams: Vec<S>, shape: Shape, id: &str) -> Self
    where
        S: Stream<Item = Result<v1::GenerateEvent, RequestError>> + Send + 'static,
    {
        let tagged = streams.into_iter().zip(0_u32..).map(|(stream, prompt)| {
            let stream = stream.map(move |event| (prompt, event));
            Box::pin(stream) as Pin<Box<dyn Stream<Item = Tagged> + Send>>
        });
        Self {
            events: select_all(tagged),
            early: VecDeque::new(),
            choices_per_prompt: shape.choices_per_prompt,
            num_choices: shape.num_choices,
            unfinished: shape.num_choices,
            names: shape.names,
            resume_token: None,
            totals: Totals::new(id),
            identity: Identity {
                endpoint: shape.endpoint,
                id: format!("{}-{id}", shape.endpoint.prefix()),
                created: 0,
                model: String::new(),
                system_fingerprint: None,
            },
        }
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
            self.early.push_front(happened);
        }
        Ok(())
    }

    /// The next thing that happened; `None` once every choice has ended. Losing this future loses
    /// no event.
    ///
    /// # Errors
    /// The failure that ends the whole answer.
    pub(crate) async fn next(&mut self) -> Result<Option<Happened>, HttpError> {
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
                self.resume_token = started.resume_token;
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

#[cfg(test)]
mod tests {
    use futures_util::stream::iter;
    use serde_json::json;

    use super::*;
    use crate::http::convert::convert;

    fn api(num_prompts: usize, n: u32) -> ApiRequest {
        let body = json!({"prompt": vec!["x"; num_prompts], "n": n});
        convert(Endpoint::Completions, body).unwrap()
    }

    fn started() -> Event {
        Event::Started(v1::Started {
            model: "m".into(),
            prompt_tokens: 3,
            created: 9,
            ..Default::default()
        })
    }

    fn delta(index: u32, text: &str) -> Event {
        Event::Delta(v1::Delta {
            index,
            text: text.into(),
            ..Default::default()
        })
    }

    fn finished(index: u32) -> Event {
        Event::Finished(v1::Finished {
            index,
            usage: Some(v1::Usage {
                completion_tokens: 2,
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    /// Texts by choice, and which choices ended; or the error that ended all. `failure` is the last
    /// item of the last prompt.
    async fn run(
        prompts: Vec<Vec<Event>>,
        n: u32,
        failure: Option<RequestError>,
    ) -> Result<(Vec<String>, Vec<u32>), HttpError> {
        let api = api(prompts.len(), n);
        let mut prompts: Vec<Vec<_>> = prompts
            .into_iter()
            .map(|events| {
                let events = events.into_iter().map(Some);
                events
                    .map(|event| v1::GenerateEvent { event })
                    .map(Ok)
                    .collect()
            })
            .collect();
        prompts.last_mut().unwrap().extend(failure.map(Err));
        let streams = prompts.into_iter().map(iter).collect();
        let mut running = Running::of_streams(streams, Shape::of(&api), "r");
        running.wait_for_first_token().await?;
        let mut texts = vec![String::new(); api.num_choices as usize];
        let mut ended = Vec::new();
        while let Some(happened) = running.next().await? {
            match happened {
                Happened::Delta(index, delta) => texts[index as usize].push_str(&delta.text),
                Happened::Finished(index, _) => ended.push(index),
            }
        }
        ended.sort_unstable();
        assert_eq!(running.identity.created, 9);
        let usage = serde_json::to_value(running.totals.usage()).unwrap();
        assert_eq!(
            usage["prompt_tokens"],
            3 * texts.len() as u64 / u64::from(n)
        );
        assert_eq!(usage["completion_tokens"], 2 * ended.len() as u64);
        Ok((texts, ended))
    }

    #[tokio::test]
    async fn choices_of_several_prompts_are_numbered_prompt_by_prompt() {
        let prompt = |name: &str| {
            vec![
                started(),
                delta(0, name),
                delta(1, "other "),
                delta(0, "!"),
                finished(1),
                finished(0),
            ]
        };
        let (texts, ended) = run(vec![prompt("a"), prompt("b")], 2, None).await.unwrap();
        assert_eq!(texts, ["a!", "other ", "b!", "other "]);
        assert_eq!(ended, [0, 1, 2, 3]);
    }

    #[tokio::test]
    async fn failure_of_one_prompt_ends_the_whole_answer() {
        let lost = RequestError::worker_lost(4, Duration::from_secs(1));
        let good = vec![started(), delta(0, "a"), finished(0)];
        let error = run(vec![good, vec![started()]], 1, Some(lost)).await;
        let error = error.unwrap_err();
        assert_eq!(error.code, Some("worker_lost"));
        assert_eq!(error.retry_after, Some(Duration::from_secs(1)));
    }

    #[tokio::test]
    async fn stream_that_ends_too_early_is_an_internal_failure() {
        for events in [vec![], vec![started()], vec![started(), delta(0, "a")]] {
            let error = run(vec![events], 1, None).await.unwrap_err();
            assert_eq!(error.status, 500);
            assert_eq!(error.message, "request cmpl-r ended without an answer");
        }
    }
}
