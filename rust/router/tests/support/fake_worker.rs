//! A worker without a model: it dials a router and echoes each prompt, a few tokens a step.
//!
//! Shared by all tests of the router.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::artifacts::artifacts;
pub(crate) use super::byte_tokenizer::END_TOKEN;
use super::fake_memory::FakeMemory;
use spectrie_proto::WORKER_PROTOCOL;
use spectrie_proto::worker_v1::worker_hub_client::WorkerHubClient;
use spectrie_proto::worker_v1::{
    AdminReply, Cancel, Capacity, Drafter, FinishKind, Heartbeat, Hello, Learned, Load, Ready,
    RequestOutput, RequestStats, RouterMessage, Start, StepOutput, TokenLogprob, WorkerMessage,
    router_message, worker_message::Message,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// Ids of the fake vocabulary.
pub const VOCABULARY_SIZE: u32 = 257;

/// How a fake worker behaves.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one misbehaviour")]
pub struct FakeWorker {
    /// Served model name.
    pub model: String,
    /// Stands for the weights.
    pub model_hash: String,
    /// Protocol number of its hello.
    pub protocol: u32,
    /// Tokens of each choice in one step.
    pub tokens_per_step: usize,
    /// Time of one step.
    pub step_time: Duration,
    /// Choices at once, as its hello says; the others are accepted anyway.
    pub max_running: u32,
    /// Prompt plus answer.
    pub max_context: u32,
    /// Numeric fingerprint of its hello.
    pub fingerprint: String,
    /// Ends without a word once a choice has this many tokens.
    pub die_after_tokens: Option<usize>,
    /// Leaves each choice alone once it has this many tokens.
    pub freezes_after: Option<usize>,
    /// While this is set no choice freezes so.
    pub is_thawed: Arc<AtomicBool>,
    /// Ends without a word when it is to run a prompt that begins with this byte.
    pub dies_of: Option<u8>,
    /// Ends each choice in this way once it has this many tokens.
    pub ends: Option<(usize, FinishKind)>,
    /// Goes on with choices that were cancelled.
    pub ignores_cancels: bool,
    /// Refuses every choice with this message.
    pub refusal: Option<String>,
    /// Says of every choice that no worker can run it, with this message.
    pub fault: Option<String>,
    /// Returns no log-probabilities, even if requested.
    pub hides_logprobs: bool,
    /// Sends a token outside the vocabulary at this place of an answer.
    pub bad_token: Option<usize>,
    /// Never steps.
    pub is_frozen: bool,
    /// What its heartbeats say of the longest step.
    pub longest_step_ms: f64,
    /// Never answers questions about draft memory.
    pub is_silent: bool,
    /// While this is set it keeps its answers to questions.
    pub is_mute: Arc<AtomicBool>,
    /// Corpora that it opens at its start.
    pub corpora: Vec<String>,
    /// Whether it says that a drafter is beside its model.
    pub has_drafter: bool,
    /// Token of a TCP listener.
    pub worker_token: Option<String>,
    /// Instead of dialling.
    pub channel: Option<Channel>,
}

impl Default for FakeWorker {
    fn default() -> Self {
        Self {
            model: "fake".into(),
            model_hash: "0".repeat(64),
            protocol: WORKER_PROTOCOL,
            tokens_per_step: 3,
            step_time: Duration::from_millis(1),
            max_running: 8,
            max_context: 512,
            fingerprint: "fake".into(),
            die_after_tokens: None,
            freezes_after: None,
            is_thawed: Arc::default(),
            dies_of: None,
            ends: None,
            ignores_cancels: false,
            refusal: None,
            fault: None,
            hides_logprobs: false,
            bad_token: None,
            is_frozen: false,
            longest_step_ms: 0.0,
            is_silent: false,
            is_mute: Arc::default(),
            corpora: Vec::new(),
            has_drafter: false,
            worker_token: None,
            channel: None,
        }
    }
}

/// A choice that runs.
#[derive(Debug)]
struct Running {
    start: Start,
    emitted: Vec<u32>,
    steps: u32,
    accepted: u32,
}

impl FakeWorker {
    /// Dials `router` (`unix:PATH` or `HOST:PORT`) and works until the stream ends.
    ///
    /// Everything the router says goes to `heard`, `welcome` first.
    ///
    /// # Errors
    /// The status that ended the stream.
    pub async fn run(
        self,
        router: &str,
        heard: mpsc::UnboundedSender<RouterMessage>,
    ) -> Result<(), Status> {
        let channel = match &self.channel {
            Some(channel) => channel.clone(),
            None => super::dial::connect(router).await?,
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        for message in self.greeting() {
            send(&sender, message)?;
        }
        let mut request = Request::new(UnboundedReceiverStream::new(receiver));
        if let Some(token) = &self.worker_token {
            let value = format!("Bearer {token}").parse();
            let value = value.map_err(|_| Status::invalid_argument("bad token"))?;
            request.metadata_mut().insert("authorization", value);
        }
        let mut inbound = WorkerHubClient::new(channel)
            .connect(request)
            .await?
            .into_inner();
        let mut running: BTreeMap<(String, u32), Running> = BTreeMap::new();
        let mut memory = FakeMemory::with(&self.corpora);
        let mut unsaid = Vec::new();
        let mut steps = 0;
        let mut drained: Option<Instant> = None;
        let mut heartbeat = tokio::time::interval(Duration::from_millis(200));
        let mut step = tokio::time::interval(self.step_time.max(Duration::from_micros(1)));
        step.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = inbound.message() => {
                    let Some(message) = message? else { return Ok(()) };
                    // A test that no longer listens still wants the worker to work.
                    let _ = heard.send(message.clone());
                    if let Some(router_message::Message::AdminCall(call)) = message.message {
                        if !self.is_silent {
                            unsaid.push(memory.answer(call));
                        }
                        self.answer(&mut unsaid, &sender)?;
                        continue;
                    }
                    if let Some(router_message::Message::Drain(drain)) = message.message {
                        let grace_ms = drain.grace_ms.unwrap_or(u64::from(u32::MAX));
                        drained = Some(Instant::now() + Duration::from_millis(grace_ms));
                        continue;
                    }
                    self.hear(message, &mut running, &sender)?;
                }
                _ = heartbeat.tick() => {
                    self.answer(&mut unsaid, &sender)?;
                    let busy = !running.is_empty();
                    let longest_step_ms = self.longest_step_ms;
                    let beat = Heartbeat { steps, busy, longest_step_ms };
                    send(&sender, Message::Heartbeat(beat))?;
                    if drained.is_some_and(|end| !busy || Instant::now() >= end) {
                        return Ok(());
                    }
                }
                _ = step.tick(), if !running.is_empty() && !self.is_frozen => {
                    steps += 1;
                    if !self.step(steps, &mut running, &sender)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Says what it kept, unless it is mute.
    fn answer(
        &self,
        unsaid: &mut Vec<AdminReply>,
        sender: &mpsc::UnboundedSender<WorkerMessage>,
    ) -> Result<(), Status> {
        if self.is_mute.load(Ordering::Relaxed) {
            return Ok(());
        }
        let replies = unsaid.drain(..);
        replies
            .map(Message::AdminReply)
            .try_for_each(|reply| send(sender, reply))
    }

    fn greeting(&self) -> Vec<Message> {
        let hello = Hello {
            protocol: self.protocol,
            version: env!("CARGO_PKG_VERSION").into(),
            model: self.model.clone(),
            model_hash: self.model_hash.clone(),
            numeric_fingerprint: self.fingerprint.clone(),
            exact: self.fingerprint != "fast",
            capacity: Some(Capacity {
                max_context: self.max_context,
                max_running: self.max_running,
                num_pages: self.max_context.div_ceil(16) * self.max_running,
                page_size: 16,
                max_draft_tokens: 16,
            }),
            vocabulary_size: VOCABULARY_SIZE,
            eos_token_ids: vec![END_TOKEN],
            instance: "fake".into(),
            process_id: i64::from(std::process::id()),
            drafter: self.has_drafter.then(|| Drafter {
                name: "small".into(),
                kind: "eagle3".into(),
            }),
            ..Default::default()
        };
        let mut messages = vec![Message::Hello(hello)];
        messages.extend(artifacts());
        messages.push(Message::Ready(Ready {}));
        messages
    }

    fn hear(
        &self,
        message: RouterMessage,
        running: &mut BTreeMap<(String, u32), Running>,
        sender: &mpsc::UnboundedSender<WorkerMessage>,
    ) -> Result<(), Status> {
        match message.message {
            Some(router_message::Message::Start(start)) => {
                if self
                    .dies_of
                    .is_some_and(|byte| start.prompt_ids[0] == u32::from(byte))
                {
                    return Err(Status::aborted("poisoned"));
                }
                let key = (start.request_id.clone(), start.attempt);
                let refusal = self
                    .refusal
                    .as_ref()
                    .map(|why| (why, FinishKind::FinishRefused));
                let fault = self
                    .fault
                    .as_ref()
                    .map(|why| (why, FinishKind::FinishInvalid));
                if let Some((why, kind)) = refusal.or(fault) {
                    let output = RequestOutput {
                        request_id: key.0,
                        attempt: key.1,
                        finish: kind.into(),
                        message: Some(why.clone()),
                        ..Default::default()
                    };
                    return send(
                        sender,
                        Message::StepOutput(StepOutput {
                            step: 0,
                            outputs: vec![output],
                        }),
                    );
                }
                let emitted = start.emitted_token_ids.clone();
                running.insert(
                    key,
                    Running {
                        start,
                        emitted,
                        steps: 0,
                        accepted: 0,
                    },
                );
            }
            Some(router_message::Message::Cancel(cancel)) if !self.ignores_cancels => {
                let Cancel {
                    request_id,
                    attempt,
                    keep_tokens,
                    ..
                } = cancel;
                if let Some(mut ended) = running.remove(&(request_id.clone(), attempt)) {
                    if let Some(keep) = keep_tokens {
                        ended.emitted.truncate(keep as usize);
                    }
                    let output = RequestOutput {
                        request_id,
                        attempt,
                        finish: FinishKind::FinishCancelled.into(),
                        stats: Some(ended.stats()),
                        ..Default::default()
                    };
                    send(
                        sender,
                        Message::StepOutput(StepOutput {
                            step: 0,
                            outputs: vec![output],
                        }),
                    )?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// One step of every choice; `false` when it is time to die.
    fn step(
        &self,
        step: u64,
        running: &mut BTreeMap<(String, u32), Running>,
        sender: &mpsc::UnboundedSender<WorkerMessage>,
    ) -> Result<bool, Status> {
        let mut outputs = Vec::with_capacity(running.len());
        let mut learned = Vec::new();
        running.retain(|_, choice| {
            let before = choice.emitted.len();
            let is_thawed = self.is_thawed.load(Ordering::Relaxed);
            if self.freezes_after.is_some_and(|limit| before >= limit) && !is_thawed {
                return true;
            }
            let (mut token_ids, mut finish) = choice.step(self.tokens_per_step);
            if let Some((limit, kind)) = self.ends
                && choice.emitted.len() >= limit
            {
                finish = kind;
            }
            let sources = (0..token_ids.len()).map(|index| if index == 0 { 1 } else { 3 });
            let sources = sources.collect();
            if let Some(place) = self.bad_token.and_then(|place| place.checked_sub(before))
                && let Some(token) = token_ids.get_mut(place)
            {
                *token = VOCABULARY_SIZE;
            }
            let ended = finish != FinishKind::FinishNone;
            let is_first = choice.steps == 1;
            let asked = |num_top: Option<u32>| num_top.filter(|_| !self.hides_logprobs);
            let logprobs = asked(choice.start.logprobs)
                .map(|num_top| token_ids.iter().map(|id| logprob(*id, num_top)).collect());
            let prompt = asked(choice.start.prompt_logprobs.filter(|_| is_first));
            let prompt_logprobs = prompt.map(|num_top| {
                let ids = choice.start.prompt_ids.iter();
                let mut entries: Vec<_> = ids.map(|id| logprob(*id, num_top)).collect();
                entries[0] = TokenLogprob {
                    token_id: entries[0].token_id,
                    ..Default::default()
                };
                entries
            });
            if ended && choice.start.learn {
                learned.push(Learned {
                    namespace: choice.start.namespace.clone(),
                    token_ids: choice.emitted.clone(),
                    request_id: choice.start.request_id.clone(),
                    attempt: Some(choice.start.attempt),
                });
            }
            outputs.push(RequestOutput {
                request_id: choice.start.request_id.clone(),
                attempt: choice.start.attempt,
                token_ids,
                sources,
                finish: finish.into(),
                message: None,
                stats: ended.then(|| choice.stats()),
                logprobs: logprobs.unwrap_or_default(),
                prompt_logprobs: prompt_logprobs.unwrap_or_default(),
            });
            !ended
        });
        let longest = running
            .values()
            .map(|choice| choice.emitted.len())
            .max()
            .unwrap_or(0);
        let load = Load {
            running: running.len() as u32,
            steps: step,
            ..Default::default()
        };
        send(sender, Message::StepOutput(StepOutput { step, outputs }))?;
        send(sender, Message::Load(load))?;
        for learned in learned {
            send(sender, Message::Learned(learned))?;
        }
        Ok(self.die_after_tokens.is_none_or(|limit| longest < limit))
    }
}

impl Running {
    /// The next tokens: the prompt once more, then the end; endlessly if the end is ignored.
    fn step(&mut self, tokens_per_step: usize) -> (Vec<u32>, FinishKind) {
        let mut token_ids = Vec::with_capacity(tokens_per_step);
        self.steps += 1;
        for _ in 0..tokens_per_step {
            let length = self.start.prompt_ids.len();
            let position = self.emitted.len();
            let may_end = position as u32 >= self.start.min_tokens && !self.start.ignore_eos;
            let token = if position >= length && may_end {
                END_TOKEN
            } else {
                self.start.prompt_ids[position % length]
            };
            self.accepted += u32::from(!token_ids.is_empty());
            self.emitted.push(token);
            token_ids.push(token);
            if token == END_TOKEN && may_end {
                return (token_ids, FinishKind::FinishEos);
            }
            if self.start.stop_token_ids.contains(&token) {
                return (token_ids, FinishKind::FinishStopToken);
            }
            if self.emitted.len() >= self.start.max_tokens as usize {
                return (token_ids, FinishKind::FinishLength);
            }
        }
        (token_ids, FinishKind::FinishNone)
    }

    fn stats(&self) -> RequestStats {
        let same = self.emitted.iter().zip(&self.start.prediction_ids);
        let predicted = same.take_while(|(token, guess)| token == guess).count();
        RequestStats {
            verify_steps: self.steps.saturating_sub(1),
            drafted_tokens: self.accepted,
            accepted_tokens: self.accepted,
            accepted_by_source: vec![0, 0, 0, self.accepted, 0, 0, 0, 0],
            queue_ns: 1,
            prefill_ns: 2,
            decode_ns: 3,
            accepted_prediction_tokens: predicted as u32,
            ..Default::default()
        }
    }
}

/// The token itself is the likeliest, those after it follow.
fn logprob(token_id: u32, num_top: u32) -> TokenLogprob {
    let top = (0..num_top).map(|rank| ((token_id + rank) % VOCABULARY_SIZE, -0.125 - rank as f32));
    let (top_ids, top_logprobs) = top.unzip();
    TokenLogprob {
        token_id,
        logprob: Some(-0.125),
        top_ids,
        top_logprobs,
    }
}

fn send(sender: &mpsc::UnboundedSender<WorkerMessage>, message: Message) -> Result<(), Status> {
    let message = WorkerMessage {
        message: Some(message),
    };
    sender
        .send(message)
        .map_err(|_| Status::unavailable("the router is gone"))
}
