//! A client of one stream, over all its connections.

use std::collections::BTreeMap;

use spectrie_proto::v1;
use spectrie_proto::v1::generate_event::Event;
use tokio_stream::StreamExt as _;
use tonic::{Status, Streaming};

use crate::support::within;

pub(super) type Events = Streaming<v1::GenerateEvent>;

/// What a client has of a stream, over all its connections.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Client {
    pub(super) started: Vec<v1::Started>,
    pub(super) choices: BTreeMap<u32, Choice>,
    pub(super) num_events: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Choice {
    pub(super) text: String,
    pub(super) token_ids: Vec<u32>,
    pub(super) sources: Vec<i32>,
    pub(super) logprobs: Vec<(u32, Option<f32>)>,
    pub(super) finished: Vec<v1::Finished>,
    pub(super) position: u32,
}

impl Client {
    /// Reads up to `count` events; false at the end of the stream.
    pub(super) async fn read(&mut self, events: &mut Events, count: usize) -> Result<bool, Status> {
        for _ in 0..count {
            let Some(event) = within(events.next()).await else {
                return Ok(false);
            };
            self.num_events += 1;
            match event?.event.unwrap() {
                Event::Started(started) => self.started.push(started),
                Event::Delta(delta) => {
                    let choice = self.choices.entry(delta.index).or_default();
                    choice.text.push_str(&delta.text);
                    choice.token_ids.extend(delta.token_ids);
                    choice.sources.extend(delta.sources);
                    let logprobs = delta.logprobs.iter();
                    let logprobs = logprobs.map(|entry| (entry.token_id, entry.logprob));
                    choice.logprobs.extend(logprobs);
                    assert!(delta.position > choice.position, "{}", delta.position);
                    choice.position = delta.position;
                }
                Event::Finished(finished) => {
                    let choice = self.choices.entry(finished.index).or_default();
                    assert!(finished.position > choice.position, "{finished:?}");
                    choice.position = finished.position;
                    choice.finished.push(finished);
                }
            }
        }
        Ok(true)
    }

    pub(super) fn resume(&self) -> v1::ResumeStreamRequest {
        let started = &self.started[0];
        let position = |(index, choice): (&u32, &Choice)| v1::StreamPosition {
            index: *index,
            position: choice.position,
        };
        v1::ResumeStreamRequest {
            request_id: started.request_id.clone(),
            resume_token: started.resume_token.clone().unwrap(),
            starting_after: self.choices.iter().map(position).collect(),
        }
    }

    /// The same but for what depends on the workers' work.
    pub(super) fn answer(mut self) -> BTreeMap<u32, Choice> {
        for choice in self.choices.values_mut() {
            choice.position = 0;
            for finished in &mut choice.finished {
                finished.speculation = None;
                finished.timing = None;
            }
        }
        assert_eq!(self.started.len(), 1, "{:?}", self.started);
        self.choices
    }
}
