//! One question to all workers of a model, and corpora for those that join later.

mod pupils;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use spectrie_proto::worker_v1;
use spectrie_proto::worker_v1::admin_call::Call;
use spectrie_proto::worker_v1::admin_reply::Reply;
use tokio::sync::oneshot::error::RecvError;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::time::error::Elapsed;
use tonic::Code;

use crate::fleet::Fleet;
use crate::workers::corpus_list::{Change, CorpusList};
use crate::workers::drain::{Drained, Undrained, drain};
use crate::workers::placing::Refusal;
use crate::workers::registry::Registry;
use crate::workers::worker::Worker;

/// How long a worker that joins may take for all corpora: a large one is read once from disk.
const GREETING_TIME: Duration = Duration::from_secs(120);

/// What one worker answered.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its id.
    pub(crate) worker: String,
    pub(crate) result: Result<Reply, Failure>,
}

/// Why a worker did not carry out a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// All workers of a router, by model.
#[derive(Debug)]
pub(crate) struct Broadcast {
    registry: Arc<Registry>,
    /// Held while corpora change, so that a worker that joins misses none.
    corpus_list: Arc<Mutex<CorpusList>>,
    fleet: Fleet,
}

/// What came of taking a corpus away.
#[derive(Debug)]
pub(crate) struct Removal {
    pub(crate) answers: Vec<Answer>,
    /// No worker had it, but every one that joins would have opened it.
    pub(crate) was_only_remembered: bool,
}

impl Broadcast {
    /// The workers of `registry`, the corpora that they are to have, and those who hear of what
    /// they forget.
    pub(crate) fn new(registry: Arc<Registry>, corpus_list: CorpusList, fleet: Fleet) -> Self {
        Self {
            registry,
            corpus_list: Arc::new(Mutex::new(corpus_list)),
            fleet,
        }
    }

    /// The ready workers of a model, named or the only one.
    pub(crate) fn workers(
        &self,
        model: Option<&str>,
    ) -> Result<(String, Vec<Arc<Worker>>), Refusal> {
        self.registry.workers(model)
    }

    /// All workers that have joined, by model.
    pub(crate) fn all_workers(&self) -> Vec<Arc<Worker>> {
        self.registry.all_workers()
    }

    /// Has a worker drain, and waits for its end; see [`drain`].
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn drain(
        &self,
        name: &str,
        grace: Option<Duration>,
        deadline: Instant,
    ) -> Result<Drained, Undrained> {
        drain(&self.registry, name, grace, deadline).await
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

    /// Opens a corpus on every worker of a model, and on those that join later, also to the next
    /// router of the same state folder.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) async fn add_corpus(
        &self,
        model: Option<&str>,
        corpus: worker_v1::AddCorpus,
        deadline: Instant,
    ) -> Result<Vec<Answer>, Refusal> {
        let mut corpus_list = self.corpus_list.clone().lock_owned().await;
        let (model, workers) = self.workers(model)?;
        let answers = ask_all(&workers, &Call::AddCorpus(corpus.clone()), deadline).await;
        let name = answers.iter().find_map(|answer| match &answer.result {
            Ok(Reply::Corpus(info)) => Some(info.name.clone()),
            _ => None,
        });
        if let Some(name) = name {
            let change = Change::Added {
                corpus,
                is_remembered: false,
            };
            corpus_list.insert(&model, name, change);
            save(corpus_list).await;
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
    ) -> Result<Removal, Refusal> {
        let mut corpus_list = self.corpus_list.clone().lock_owned().await;
        let (model, workers) = self.workers(model)?;
        let answers = ask_all(&workers, &remove_call(name), deadline).await;
        let is_absent = |answer: &Answer| {
            let failure = answer.result.as_ref().err();
            failure.is_some_and(|failure| failure.code == Code::NotFound)
        };
        let was_only_remembered =
            corpus_list.is_added(&model, name) && answers.iter().all(is_absent);
        if was_only_remembered || answers.iter().any(|answer| answer.result.is_ok()) {
            corpus_list.insert(&model, name.to_owned(), Change::Removed);
            save(corpus_list).await;
        }
        Ok(Removal {
            answers,
            was_only_remembered,
        })
    }

    /// Forgets which of these workers has which text of a namespace.
    fn forget_places(&self, workers: &[Arc<Worker>], name: &str) {
        let models: BTreeSet<_> = workers.iter().map(|worker| &worker.hello.model).collect();
        for model in models {
            self.registry.forget_namespace(model, name);
        }
    }

    /// Makes every worker of a model forget a namespace, and those of other routers.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) async fn forget(
        &self,
        model: Option<&str>,
        name: &str,
        deadline: Instant,
    ) -> Result<Vec<Answer>, Refusal> {
        let (model, workers) = self.workers(model)?;
        let served = self.registry.find(Some(&model)).ok();
        let forgetting =
            served.and_then(|(served, _)| self.fleet.begin_forget(&served.fleet_key(), name));
        let Some(forgetting) = forgetting else {
            let answers = forget_all(&workers, name, None, deadline).await;
            self.forget_places(&workers, name);
            return Ok(answers);
        };
        let now = Instant::now();
        let workers_deadline = now + deadline.saturating_duration_since(now).mul_f64(0.8);
        let generation = Some(forgetting.generation());
        let mut answers = forget_all(&workers, name, generation, workers_deadline).await;
        self.forget_places(&workers, name);
        if answers.iter().all(|answer| has_forgotten(&answer.result)) {
            forgetting.settle().await;
        }
        let bus = |result| Answer {
            worker: "fleet".into(),
            result,
        };
        if !forgetting.is_on_bus(deadline).await {
            let message = "Redis cannot be used now: other routers forget as soon as it can";
            answers.push(bus(Err(Failure {
                code: Code::Unavailable,
                message: message.into(),
            })));
        } else if answers.iter().all(|answer| answer.result.is_err()) {
            // No worker here had anything, those of other routers may.
            answers.push(bus(Ok(Reply::Done(worker_v1::Done {}))));
        }
        Ok(answers)
    }

    /// Brings a worker that has just joined to the corpora of its model.
    pub(crate) async fn greet(&self, worker: &Worker) {
        let deadline = Instant::now() + GREETING_TIME;
        // Sent under the lock: no change may overtake these. Awaited without it.
        let asked: Vec<_> = {
            let corpus_list = self.corpus_list.lock().await;
            let asked = corpus_list.of(&worker.hello.model).map(|(name, change)| {
                let call = match change {
                    Change::Added { corpus, .. } => Call::AddCorpus(corpus.clone()),
                    Change::Removed => remove_call(name),
                };
                (name.clone(), change.clone(), worker.ask(call))
            });
            asked.collect()
        };
        for (name, change, answer) in asked {
            let answer = wait_for(answer, deadline).await;
            log_change(&worker.id, &name, &change, answer.err());
        }
    }
}

/// Writes the list's file, under the lock to its end even if the caller goes away.
async fn save(corpus_list: OwnedMutexGuard<CorpusList>) {
    if let Err(error) = tokio::task::spawn_blocking(move || corpus_list.save()).await {
        tracing::error!(%error, "the added corpora could not be written");
    }
}

/// Logs what came of bringing a worker to a corpus, where an operator would wonder.
fn log_change(worker: &str, corpus: &str, change: &Change, failure: Option<Failure>) {
    let (settled, is_remembered) = match change {
        Change::Added { is_remembered, .. } => (Code::AlreadyExists, *is_remembered),
        Change::Removed => (Code::NotFound, false),
    };
    match failure {
        None if is_remembered => {
            tracing::info!(worker, corpus, "corpus added again, as before the restart");
        }
        Some(failure) if failure.code == settled && is_remembered => {
            tracing::info!(
                worker,
                corpus,
                "a corpus of this name is loaded, by --corpus or since before the restart: it \
                 stays, and the one that was added is not opened"
            );
        }
        Some(failure) if is_remembered => {
            tracing::warn!(worker, corpus, reason = %failure.message,
                "a corpus that was added before the restart is skipped");
        }
        Some(failure) if failure.code != settled => {
            tracing::warn!(worker, corpus, reason = %failure.message,
                "the new worker differs from the others in this corpus");
        }
        _ => {}
    }
}

/// Makes workers of a model forget a namespace; notes who forgot which `generation`, if it has one.
///
/// Workers teach each other through the router, and other routers teach them, so they are asked
/// twice: after the first time no request inserts the old text any more; the second follows what was
/// under way by then.
async fn forget_all(
    workers: &[Arc<Worker>],
    name: &str,
    generation: Option<u64>,
    deadline: Instant,
) -> Vec<Answer> {
    let now = Instant::now();
    let first_deadline = now + deadline.saturating_duration_since(now) / 2;
    let first = ask_all(workers, &forget_call(name), first_deadline).await;
    let both = workers.iter().zip(first).map(|(worker, first)| async {
        if !has_forgotten(&first.result) {
            return first;
        }
        match forget_again(worker, name, generation, deadline).await {
            // Nothing was under way.
            Err(failure) if failure.code == Code::NotFound => first,
            result => Answer { result, ..first },
        }
    });
    join_all(both).await
}

/// Has a worker forget once more what came to it meanwhile; notes that it forgot this `generation`.
async fn forget_again(
    worker: &Worker,
    name: &str,
    generation: Option<u64>,
    deadline: Instant,
) -> Result<Reply, Failure> {
    let again = async { worker.ask_after_learnt(forget_call(name)).await.await };
    let result = read(tokio::time::timeout_at(deadline.into(), again).await);
    if has_forgotten(&result)
        && let Some(generation) = generation
    {
        worker.confirm(name, generation);
    }
    result
}

/// Whether a worker holds nothing any more of what it was asked to forget.
fn has_forgotten(result: &Result<Reply, Failure>) -> bool {
    match result {
        Ok(_) => true,
        Err(failure) => failure.code == Code::NotFound,
    }
}

fn forget_call(name: &str) -> Call {
    Call::ForgetNamespace(worker_v1::ForgetNamespace { name: name.into() })
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
            "no answer within the deadline; the change may still take effect",
        ),
    }
}
