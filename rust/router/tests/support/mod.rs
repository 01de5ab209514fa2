//! A router on real sockets, with fake workers, for tests.
#![allow(dead_code, unreachable_pub)] // Each test file uses its part.

mod artifacts;
pub mod authority;
#[path = "../../../request/tests/request/byte_tokenizer.rs"]
mod byte_tokenizer;
pub mod collector;
pub mod dial;
pub mod fake_memory;
pub mod fake_redis;
mod fake_streams;
pub mod fake_worker;
pub mod frames;
pub mod half_call;

use std::path::PathBuf;
use std::time::Duration;

use spectrie_proto::v1;
use spectrie_proto::v1::admin_client::AdminClient;
use spectrie_proto::v1::inference_client::InferenceClient;
use spectrie_proto::worker_v1::RouterMessage;
pub use spectrie_proto::worker_v1::router_message::Message;
use spectrie_router::app::{self, Bound};
use spectrie_router::{Ending, RouterConfig, RouterError, Shutdown};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Request, Status};

use fake_worker::FakeWorker;

/// No wait of a test is longer than this.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running router.
pub struct TestRouter {
    pub bound: Bound,
    pub shutdown: Shutdown,
    serving: JoinHandle<Result<Ending, RouterError>>,
    folder: PathBuf,
    /// Of a caller, where keys are set.
    key: Option<String>,
}

/// A fake worker that has dialled in.
pub struct TestWorker {
    pub heard: UnboundedReceiver<RouterMessage>,
    running: JoinHandle<Result<(), Status>>,
}

impl TestRouter {
    /// Starts a router with short waits.
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// Starts a router whose configuration `change` may alter.
    pub async fn with(change: impl FnOnce(&mut RouterConfig)) -> Self {
        let folder = std::env::temp_dir().join(format!("spectrie-{:x}", rand::random::<u64>()));
        std::fs::create_dir(&folder).unwrap();
        let mut config = RouterConfig::default();
        config.listen.http = Some("127.0.0.1:0".into());
        config.listen.grpc = Some("127.0.0.1:0".into());
        config.listen.worker = format!("unix:{}", folder.join("worker.sock").display());
        config.listen.admin = Some(format!("unix:{}", folder.join("admin.sock").display()));
        config.workers.wait_s = 0.2;
        config.runtime.drain_s = PATIENCE.as_secs_f64();
        change(&mut config);
        let (ready, bound) = oneshot::channel();
        let shutdown = Shutdown::new();
        let on_ready = |bound: &Bound| ready.send(bound.clone()).unwrap();
        let serving = tokio::spawn(app::serve(config, on_ready, shutdown.clone()));
        let bound = within(bound).await.unwrap();
        Self {
            bound,
            shutdown,
            serving,
            folder,
            key: None,
        }
    }

    /// Starts a router that asks for the keys of a file with this text, the first of which is `KEY
    /// TENANT`.
    pub async fn with_keys(text: &str) -> Self {
        Self::keyed(text, |_| {}).await
    }

    /// The same, with a configuration that `change` may alter.
    pub async fn keyed(text: &str, change: impl FnOnce(&mut RouterConfig)) -> Self {
        let file = std::env::temp_dir().join(format!("spectrie-keys-{:x}", rand::random::<u64>()));
        std::fs::write(&file, text).unwrap();
        let mut router = Self::with(|config| {
            config.access.api_keys_file = Some(file.clone());
            change(config);
        })
        .await;
        std::fs::remove_file(file).unwrap();
        router.key = text.split_whitespace().next().map(Into::into);
        router
    }

    /// The same, where this key is a caller's.
    pub fn shown(mut self, key: &str) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a worker and waits until a request would find it.
    pub async fn worker(&self, worker: FakeWorker) -> TestWorker {
        let before = self.num_workers(&worker.model).await;
        let model = worker.model.clone();
        let worker = self.dial(worker);
        within(async {
            while self.num_workers(&model).await <= before {
                assert!(!worker.running.is_finished(), "the worker ended");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        worker
    }

    /// Lets a worker dial, successfully or not.
    pub fn dial(&self, worker: FakeWorker) -> TestWorker {
        let (sender, heard) = unbounded_channel();
        let address = self.bound.worker.clone();
        let running = tokio::spawn(async move { worker.run(&address, sender).await });
        TestWorker { heard, running }
    }

    pub async fn num_workers(&self, model: &str) -> u32 {
        let mut asked = Request::new(v1::ListModelsRequest {});
        if let Some(key) = &self.key {
            let key = format!("Bearer {key}").parse().unwrap();
            asked.metadata_mut().insert("authorization", key);
        }
        let models = self.client().await.list_models(asked).await.unwrap();
        let models = models.into_inner().models;
        models
            .iter()
            .find(|found| found.name == model)
            .map_or(0, |found| found.workers)
    }

    pub async fn channel(&self) -> Channel {
        let address = self.bound.grpc.as_deref().unwrap();
        within(dial::connect(address)).await.unwrap()
    }

    pub async fn client(&self) -> InferenceClient<Channel> {
        InferenceClient::new(self.channel().await)
    }

    pub async fn admin_channel(&self) -> Channel {
        let address = self.bound.admin.as_deref().unwrap();
        within(dial::connect(address)).await.unwrap()
    }

    pub async fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.admin_channel().await)
    }

    /// Whether the router has ended.
    pub fn has_ended(&self) -> bool {
        self.serving.is_finished()
    }

    /// How the router ended, once it was asked to.
    pub async fn ended(mut self) -> Ending {
        within(&mut self.serving).await.unwrap().unwrap()
    }
}

impl Drop for TestRouter {
    fn drop(&mut self) {
        self.serving.abort();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl TestWorker {
    /// The next message that is not a welcome.
    pub async fn hear(&mut self) -> Message {
        within(async {
            loop {
                let message = self.heard.recv().await.expect("the worker ended").message;
                match message {
                    None | Some(Message::Welcome(_)) => {}
                    Some(message) => return message,
                }
            }
        })
        .await
    }

    /// Waits for the end of both choices of a stream that its client cut.
    pub async fn is_cut_off(&mut self, request_id: &str) {
        for _ in 0..2 {
            while !matches!(self.hear().await, Message::Cancel(cancel) if cancel.request_id.contains(request_id))
            {
            }
        }
    }

    /// What both choices of a stream that was cut go on behind.
    pub async fn goes_on_with(&mut self, request_id: &str) -> [Vec<u32>; 2] {
        let mut emitted = [Vec::new(), Vec::new()];
        for tokens in &mut emitted {
            *tokens = loop {
                if let Message::Start(start) = self.hear().await
                    && start.request_id.contains(request_id)
                    && start.attempt == 1
                {
                    break start.emitted_token_ids;
                }
            };
        }
        emitted
    }

    /// Kills the worker, as a crash would.
    pub fn kill(&self) {
        self.running.abort();
    }

    /// How the worker's stream ended.
    pub async fn ended(mut self) -> Result<(), Status> {
        within(&mut self.running).await.unwrap()
    }
}

impl Drop for TestWorker {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// Waits for `future`, but not indefinitely.
pub async fn within<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future)
        .await
        .expect("a test waited too long")
}

/// A request for `text`.
pub fn request(text: &str) -> v1::GenerateRequest {
    v1::GenerateRequest {
        prompt: Some(v1::generate_request::Prompt::Text(text.into())),
        ..Default::default()
    }
}

/// The body of `GET path` at `address`, as text.
pub async fn get(address: &str, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

/// A file that holds `text`, of API keys or a token.
pub fn keys_file(text: &str) -> PathBuf {
    let name = format!("spectrie-keys-{:x}", rand::random::<u64>());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).unwrap();
    path
}
