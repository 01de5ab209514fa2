//! One question to all workers of a model, and corpora for those that join later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use spectrie_proto::worker_v1;
use spectrie_proto::worker_v1::admin_call::Call;
use spectrie_proto::worker_v1::admin_reply::Reply;
use tokio::sync::oneshot::error::RecvError;
use tokio::sync::{Mutex, oneshot};
use tokio::time::error::Elapsed;
use tonic::Code;

use super::registry::{Refusal, Registry};
use super::worker::Worker;

/// How long a worker that joins may take for all corpora: a large one is read once from disk.
const GREETING_TIME: Duration = Duration::from_secs(120);

/// What was last done about a corpus.
#[derive(Clone, Debug)]
enum Change {
    Added(worker_v1::AddCorpus),
    /// A worker may be told by its own options to open it again.
    Removed,
}

/// The changes of one model's corpora, by name.
type Changes = BTreeMap<String, Change>;

/// What one worker answered.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its id.
    pub(crate) worker: String,
    pub(crate) result: Result<Reply, Failure>,
}

/// Why a worker did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// All workers of a router, by model.
#[derive(Debug)]
pub(crate) struct Fleet {
    registry: Arc<Registry>,
    /// By model. Held while corpora change, so that a worker that joins misses none.
    changes: Mutex<BTreeMap<String, Changes>>,
}

impl Fleet {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            changes: Mutex::default(),
        }
    }

    /// The ready workers of a model, named or the only one.
    pub(crate) fn workers(
        &self,
        model: Option<&str>,
    ) -> Result<(String, Vec<Arc<Worker>>), Refusal> {
        self.registry.workers(model)
    }

    /// Asks every worker of a model, and waits for answers until `deadline`.
    ///
    /// # Errors
    /// No such model, or no worker of it.
    pub(crate) async fn ask(
        &self,
        model: Option<&str>,
        call: &Call,
        deadline: Instant,
    ) -> Result<Vec<Answer>, Refusal> {
        let (_, workers) = self.workers(model)?;
        Ok(ask_all(&workers, call, deadline).await)
    }

    /// Opens a corpus on every worker of a model, and on those that join later.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) async fn add_corpus(
        &self,
        model: Option<&str>,
        corpus: worker_v1::AddCorpus,
        deadline: Instant,
    ) -> Result<Vec<Answer>, Refusal> {
        let mut changes = self.changes.lock().await;
        let (model, workers) = self.workers(model)?;
        let answers = ask_all(&workers, &Call::AddCorpus(corpus.clone()), deadline).await;
        let name = answers.iter().find_map(|answer| match &answer.result {
            Ok(Reply::Corpus(info)) => Some(info.name.clone()),
            _ => None,
        });
        if let Some(name) = name {
            let change = Change::Added(corpus);
            changes.entry(model).or_default().insert(name, change);
        }
        Ok(answers)
    }

    /// Takes a corpus from every worker of a model, and from those that join later.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) async fn remove_corpus(
        &self,
        model: Option<&str>,
        name: &str,
        deadline: Instant,
    ) -> Result<Vec<Answer>, Refusal> {
        let mut changes = self.changes.lock().await;
        let (model, workers) = self.workers(model)?;
        let answers = ask_all(&workers, &remove_call(name), deadline).await;
        if answers.iter().any(|answer| answer.result.is_ok()) {
            let changes = changes.entry(model).or_default();
            changes.insert(name.to_owned(), Change::Removed);
        }
        Ok(answers)
    }

    /// Makes every worker of a model forget a namespace.
    ///
    /// Workers teach each other through the router, so they are asked twice: after the first time
    /// nobody teaches the old text any more; the second goes behind what was under way by then.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) async fn forget(
        &self,
        model: Option<&str>,
        name: &str,
        deadline: Instant,
    ) -> Result<Vec<Answer>, Refusal> {
        let (_, workers) = self.workers(model)?;
        let call = Call::ForgetNamespace(worker_v1::ForgetNamespace { name: name.into() });
        if let [_] = workers[..] {
            return Ok(ask_all(&workers, &call, deadline).await);
        }
        let now = Instant::now();
        let first_deadline = now + deadline.saturating_duration_since(now) / 2;
        let first = ask_all(&workers, &call, first_deadline).await;
        let both = workers.iter().zip(first).map(|(worker, first)| async {
            let is_done = match &first.result {
                Ok(_) => true,
                Err(failure) => failure.code == Code::NotFound,
            };
            if !is_done {
                return first;
            }
            let again = async { worker.ask_after_learnt(call.clone()).await.await };
            let again = tokio::time::timeout_at(deadline.into(), again).await;
            match read(again) {
                // Nothing was under way.
                Err(failure) if failure.code == Code::NotFound => first,
                result => Answer { result, ..first },
            }
        });
        Ok(join_all(both).await)
    }

    /// Brings a worker that has just joined to the corpora of its model.
    pub(crate) async fn greet(&self, worker: &Worker) {
        let deadline = Instant::now() + GREETING_TIME;
        // Sent under the lock: no change may overtake these. Awaited without it.
        let asked: Vec<_> = {
            let changes = self.changes.lock().await;
            let changes = changes.get(&worker.hello.model);
            let asked = changes.into_iter().flatten().map(|(name, change)| {
                let (call, expected) = match change {
                    Change::Added(corpus) => (Call::AddCorpus(corpus.clone()), Code::AlreadyExists),
                    Change::Removed => (remove_call(name), Code::NotFound),
                };
                (name.clone(), expected, worker.ask(call))
            });
            asked.collect()
        };
        for (name, expected, answer) in asked {
            match wait_for(answer, deadline).await {
                Err(failure) if failure.code != expected => tracing::warn!(worker = %worker.id,
                    corpus = %name, reason = %failure.message,
                    "the new worker differs from the others in this corpus"),
                _ => {}
            }
        }
    }
}

fn remove_call(name: &str) -> Call {
    Call::RemoveCorpus(worker_v1::RemoveCorpus { name: name.into() })
}

async fn ask_all(workers: &[Arc<Worker>], call: &Call, deadline: Instant) -> Vec<Answer> {
    let answers = workers.iter().map(|worker| async {
        Answer {
            worker: worker.id.clone(),
            result: wait_for(worker.ask(call.clone()), deadline).await,
        }
    });
    join_all(answers).await
}

async fn wait_for(answer: oneshot::Receiver<Reply>, deadline: Instant) -> Result<Reply, Failure> {
    read(tokio::time::timeout_at(deadline.into(), answer).await)
}

/// What a worker's answer, its absence or its lateness means.
fn read(answer: Result<Result<Reply, RecvError>, Elapsed>) -> Result<Reply, Failure> {
    let failure = |code, message: &str| {
        Err(Failure {
            code,
            message: message.to_owned(),
        })
    };
    match answer {
        Ok(Ok(Reply::Error(error))) => Err(Failure {
            code: Code::from_i32(error.code as i32),
            message: error.message,
        }),
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(_)) => failure(Code::Unavailable, "the worker was lost"),
        Err(_) => failure(
            Code::DeadlineExceeded,
            "no answer in time, it may still come to pass",
        ),
    }
}
