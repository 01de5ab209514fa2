//! The events of one request as a stream, and the whole answer that they add up to.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use spectrie_proto::v1;
use spectrie_proto::v1::generate_event::Event;

use super::reader::{Bounds, Watched};
use super::run::Run;
use crate::error::RequestError;

/// Events of one request: `started`, then `delta`s, then one `finished` per choice, or an error
/// as the last item. Dropping it cancels the request within one step, and so does not reading it.
#[derive(Debug)]
pub struct GenerationStream {
    events: Watched,
}

impl GenerationStream {
    pub(super) fn new(run: Run, bounds: Bounds) -> Self {
        let mailbox = run.mailbox().clone();
        let live = run.live.live().clone();
        let events = unfold(run, |mut run| async {
            run.next().await.map(|item| (item, run))
        });
        let events = Watched::new(Box::pin(events), mailbox, bounds);
        live.runs_as(&events.slot());
        Self { events }
    }

    /// Waits for the whole answer: every choice, in order of its index.
    ///
    /// # Errors
    /// The error that ended the stream.
    pub async fn collect(mut self) -> Result<v1::GenerateResponse, RequestError> {
        let mut response = v1::GenerateResponse::default();
        while let Some(event) = self.next().await {
            add_event(&mut response, event?);
        }
        Ok(response)
    }
}

/// Adds one event to the answer that it is a part of.
fn add_event(response: &mut v1::GenerateResponse, event: v1::GenerateEvent) {
    match event.event {
        Some(Event::Started(started)) => response.started = Some(started),
        Some(Event::Delta(delta)) => {
            let choice = choice_of(&mut response.choices, delta.index);
            choice.text.push_str(&delta.text);
            choice.token_ids.extend(delta.token_ids);
            choice.sources.extend(delta.sources);
            choice.logprobs.extend(delta.logprobs);
        }
        Some(Event::Finished(finished)) => {
            let choice = choice_of(&mut response.choices, finished.index);
            choice.finished = Some(finished);
        }
        None => {}
    }
}

fn choice_of(choices: &mut Vec<v1::Choice>, index: u32) -> &mut v1::Choice {
    while choices.len() <= index as usize {
        let index = choices.len() as u32;
        choices.push(v1::Choice {
            index,
            ..Default::default()
        });
    }
    &mut choices[index as usize]
}

impl Stream for GenerationStream {
    type Item = Result<v1::GenerateEvent, RequestError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_next(context)
    }
}
