//! The worker: it runs nothing, and sends tokens when it is asked to.

use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use spectrie_proto::WORKER_PROTOCOL;
use spectrie_proto::worker_v1::worker_hub_client::WorkerHubClient;
use spectrie_proto::worker_v1::{
    ArtifactChunk, Capacity, Heartbeat, Hello, Ready, RequestOutput, StepOutput, WorkerMessage,
    router_message, worker_message::Message,
};
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::Failure;
use crate::channel;
use crate::table::Table;

/// Messages that wait for the router: then the worker waits.
const MAX_WAITING: usize = 8;
const CHUNK_BYTES: usize = 1 << 20;
const VOCABULARY_SIZE: u32 = 49_152;
const HEARTBEAT: Duration = Duration::from_millis(200);
/// A token that is whole text by itself.
const TOKEN: u32 = 582;
/// Of the model's sources.
const MODEL: u32 = 1;

/// Names by which the router knows the streams, once it has sent them.
type Names = Arc<(Mutex<Vec<Option<(String, u32)>>>, Notify)>;

/// A worker that has joined.
pub(crate) struct Worker {
    pub(crate) table: Arc<Table>,
    sender: mpsc::Sender<WorkerMessage>,
    names: Names,
}

fn message(message: Message) -> WorkerMessage {
    WorkerMessage {
        message: Some(message),
    }
}

impl Worker {
    /// Dials the router as a worker of the model whose files are in `folder`.
    pub(crate) async fn join(
        address: &str,
        folder: &str,
        table: Arc<Table>,
    ) -> Result<Self, Failure> {
        let channel = channel::connect(address, None).await?;
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let names: Names = Arc::new((Mutex::new(vec![None; table.num_streams()]), Notify::new()));
        let greeting = greeting(Path::new(folder))?;
        let (first, noted) = (sender.clone(), names.clone());
        tokio::spawn(async move {
            for one in greeting {
                first.send(message(one)).await?;
            }
            loop {
                tokio::time::sleep(HEARTBEAT).await;
                first
                    .send(message(Message::Heartbeat(Heartbeat::default())))
                    .await?;
            }
            #[expect(unreachable_code, reason = "it says what the errors are")]
            Ok::<_, mpsc::error::SendError<WorkerMessage>>(())
        });
        let stream = ReceiverStream::new(receiver);
        let mut heard = WorkerHubClient::new(channel)
            .connect(stream)
            .await?
            .into_inner();
        tokio::spawn(async move {
            while let Ok(Some(said)) = heard.message().await {
                if let Some(router_message::Message::Start(start)) = said.message {
                    note(&noted, (start.request_id, start.attempt));
                }
            }
        });
        Ok(Self {
            table,
            sender,
            names,
        })
    }

    /// Waits until the router has sent every stream.
    pub(crate) async fn has_all(&self) {
        loop {
            let all = self
                .names
                .0
                .lock()
                .is_ok_and(|names| names.iter().all(Option::is_some));
            if all {
                return;
            }
            self.names.1.notified().await;
        }
    }

    fn output(&self, stream: usize) -> RequestOutput {
        let names = self.names.0.lock();
        let name = names.ok().and_then(|names| names[stream].clone());
        let (request_id, attempt) = name.unwrap_or_default();
        self.table.sends(stream);
        RequestOutput {
            request_id,
            attempt,
            token_ids: vec![TOKEN],
            sources: vec![MODEL],
            ..Default::default()
        }
    }

    /// Sends one token of every stream in one message.
    pub(crate) async fn step(&self) -> Result<(), Failure> {
        let all = 0..self.table.num_streams();
        let outputs = all.map(|stream| self.output(stream)).collect();
        let step = StepOutput { step: 1, outputs };
        self.sender.send(message(Message::StepOutput(step))).await?;
        Ok(())
    }

    /// Sends one token of every stream, each in a message of its own.
    pub(crate) async fn singles(&self) -> Result<(), Failure> {
        for stream in 0..self.table.num_streams() {
            let outputs = vec![self.output(stream)];
            let step = StepOutput { step: 1, outputs };
            self.sender.send(message(Message::StepOutput(step))).await?;
        }
        Ok(())
    }

    /// Sends `count` tokens one by one, `rate` a second, to each stream in turn. Blocks this thread: timers of the
    /// runtime are too coarse.
    pub(crate) fn pace(&self, rate: f64, count: usize) -> Result<(), Failure> {
        let begun = Instant::now();
        for number in 0..count {
            let at = begun + Duration::from_secs_f64(number as f64 / rate);
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            let outputs = vec![self.output(number % self.table.num_streams())];
            let mut step = message(Message::StepOutput(StepOutput { step: 1, outputs }));
            while let Err(refused) = self.sender.try_send(step) {
                // The router takes no more: that it is late is measured as well.
                let mpsc::error::TrySendError::Full(left) = refused else {
                    return Err("the router has gone".into());
                };
                step = left;
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

/// Notes what a stream is called: `load-NUMBER`, as its client named it, and the choice behind a dot.
fn note(names: &Names, name: (String, u32)) {
    let named = name.0.strip_prefix("load-");
    let number = named.and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
    if let (Some(number), Ok(mut names)) = (number, names.0.lock())
        && let Some(place) = names.get_mut(number)
    {
        *place = Some(name);
    }
    names.1.notify_one();
}

fn greeting(folder: &Path) -> Result<Vec<Message>, Failure> {
    let capacity = Capacity {
        max_context: 1 << 21,
        max_running: 4096,
        num_pages: 1 << 28,
        page_size: 16,
        max_draft_tokens: 16,
    };
    let mut all = vec![Message::Hello(Hello {
        protocol: WORKER_PROTOCOL,
        version: "0".into(),
        model: "fake".into(),
        model_hash: "0".repeat(64),
        numeric_fingerprint: "fake".into(),
        exact: true,
        capacity: Some(capacity),
        vocabulary_size: VOCABULARY_SIZE,
        eos_token_ids: vec![2],
        instance: "bench".into(),
        ..Default::default()
    })];
    let data = std::fs::read(folder.join("tokenizer.json"))?;
    let digest = format!("{:x}", Sha256::digest(&data));
    let num_chunks = data.len().div_ceil(CHUNK_BYTES);
    for (number, chunk) in data.chunks(CHUNK_BYTES).enumerate() {
        all.push(Message::Artifact(ArtifactChunk {
            name: "tokenizer.json".into(),
            data: Bytes::copy_from_slice(chunk),
            sha256: (number + 1 == num_chunks).then(|| digest.clone()),
        }));
    }
    all.push(Message::Ready(Ready {}));
    Ok(all)
}
