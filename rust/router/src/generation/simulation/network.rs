//! A simulated worker and its connection: what it sends is on its way until the world lets it arrive.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::{FutureExt as _, StreamExt as _};
use spectrie_proto::worker_v1::router_message::Message;
use spectrie_proto::worker_v1::{FinishKind, RequestOutput, RequestStats, Start};

use super::dice::Dice;
use super::model::{hello, token};
use crate::workers::{Outgoing, Worker, channel};

/// A choice on a worker.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) start: Start,
    pub(super) num_emitted: usize,
    steps: u32,
    accepted: u32,
}

/// A worker and its connection.
#[derive(Debug)]
pub(super) struct SimWorker {
    pub(super) worker: Arc<Worker>,
    outgoing: Outgoing,
    pub(super) running: BTreeMap<String, Running>,
    /// Outputs that have not arrived, oldest first.
    pub(super) wire: VecDeque<RequestOutput>,
    pub(super) is_stalled: bool,
    pub(super) is_draining: bool,
    /// Goes on with cancelled choices: their tokens come late.
    pub(super) is_deaf: bool,
}

impl SimWorker {
    pub(super) fn new(number: usize, fingerprint: &str) -> Self {
        let (sender, outgoing) = channel();
        let worker = Worker::new(format!("w{number}"), hello(fingerprint), sender);
        Self {
            worker: Arc::new(worker),
            outgoing,
            running: BTreeMap::new(),
            wire: VecDeque::new(),
            is_stalled: false,
            is_draining: false,
            is_deaf: false,
        }
    }

    /// Whether a choice runs here that must be alone.
    pub(super) fn is_reserved(&self) -> bool {
        self.worker.candidate().is_reserved
    }

    /// The next start that has come; obeys the cancels before it.
    pub(super) fn hear(&mut self) -> Option<Start> {
        loop {
            let Ok(message) = self.outgoing.next().now_or_never()?? else {
                return None;
            };
            match message.message {
                Some(Message::Start(start)) => return Some(start),
                Some(Message::Cancel(cancel)) => {
                    let running = self.running.get(&cancel.request_id);
                    let is_meant = |choice: &Running| choice.start.attempt == cancel.attempt;
                    if !self.is_deaf && running.is_some_and(is_meant) {
                        self.end(&cancel.request_id, FinishKind::FinishCancelled);
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn begin(&mut self, start: Start) {
        let running = Running {
            num_emitted: start.emitted_token_ids.len(),
            start,
            steps: 0,
            accepted: 0,
        };
        let name = running.start.request_id.clone();
        // A deaf worker still ran an older attempt.
        self.end(&name, FinishKind::FinishCancelled);
        self.running.insert(name, running);
    }

    /// One step of every choice.
    pub(super) fn step(&mut self, dice: &mut Dice) {
        let mut ended = Vec::new();
        for (name, choice) in &mut self.running {
            let output = choice.step(1 + dice.below(3));
            if output.finish != 0 {
                ended.push(name.clone());
            }
            self.wire.push_back(output);
        }
        for name in ended {
            self.running.remove(&name);
        }
    }

    /// Ends a choice in this way.
    pub(super) fn end(&mut self, name: &str, kind: FinishKind) {
        if let Some(choice) = self.running.remove(name) {
            self.wire.push_back(ending(&choice.start, kind));
        }
    }

    /// Sends a token outside the vocabulary for a choice.
    pub(super) fn babble(&mut self, name: &str) {
        if let Some(choice) = self.running.get(name) {
            self.wire.push_back(RequestOutput {
                token_ids: vec![999],
                sources: vec![1],
                ..ending(&choice.start, FinishKind::FinishNone)
            });
        }
    }
}

/// An output without tokens.
pub(super) fn ending(start: &Start, kind: FinishKind) -> RequestOutput {
    RequestOutput {
        request_id: start.request_id.clone(),
        attempt: start.attempt,
        finish: kind.into(),
        ..Default::default()
    }
}

impl Running {
    /// Whether the next step may compute `place`.
    pub(super) fn reaches(&self, place: usize) -> bool {
        let most = if self.steps == 0 { 1 } else { 3 };
        (self.num_emitted..self.num_emitted + most).contains(&place)
    }

    fn step(&mut self, num_tokens: usize) -> RequestOutput {
        let left = (self.start.max_tokens as usize).saturating_sub(self.num_emitted);
        // The prefill gives one.
        let num_tokens = left.min(if self.steps == 0 { 1 } else { num_tokens });
        let places = self.num_emitted..self.num_emitted + num_tokens;
        let token_ids: Vec<_> = places
            .map(|place| token(self.start.choice_seed, place))
            .collect();
        self.num_emitted += num_tokens;
        self.steps += 1;
        self.accepted += (num_tokens as u32).saturating_sub(1);
        let mut sources = vec![3; num_tokens];
        if let Some(last) = sources.last_mut() {
            *last = 1;
        }
        let mut output = ending(&self.start, FinishKind::FinishNone);
        if num_tokens == left {
            output.finish = FinishKind::FinishLength.into();
            output.stats = Some(RequestStats {
                verify_steps: self.steps - 1,
                accepted_tokens: self.accepted,
                accepted_by_source: vec![0, 0, 0, self.accepted],
                ..Default::default()
            });
        }
        RequestOutput {
            token_ids,
            sources,
            ..output
        }
    }
}
