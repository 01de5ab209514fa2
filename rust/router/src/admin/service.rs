//! The `spectrie.v1.Admin` service: each method is one question to the workers of a model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spectrie_proto::v1::admin_server::Admin;
use spectrie_proto::worker_v1::admin_call::Call;
use spectrie_proto::worker_v1::admin_reply::Reply;
use spectrie_proto::{v1, worker_v1};
use tonic::{Code, Request, Response, Status};

use super::merge::{self, Merged, is_done, merge};
use super::workers;
use crate::error::{RequestError, shown};
use crate::generation::{Generation, refused};
use crate::grpc::Deadline;
use crate::workers::Broadcast;

/// How long workers may take when the caller sets no deadline.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time of the caller's that is kept for the answer, at most: a worker that does not answer is
/// reported while the caller still listens.
const HEAD_START: Duration = Duration::from_secs(1);
const MAX_NAME_BYTES: usize = 4096;

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct AdminService {
    broadcast: Arc<Broadcast>,
    generation: Generation,
}

impl AdminService {
    /// Of callers whom the listener's gate admitted.
    pub(crate) fn new(broadcast: Arc<Broadcast>, generation: Generation) -> Self {
        Self {
            broadcast,
            generation,
        }
    }

    async fn ask<T>(
        &self,
        model: Option<&str>,
        deadline: Instant,
        call: Call,
        expected: impl Fn(Reply) -> Option<T>,
        settled: Option<Code>,
    ) -> Result<Merged<T>, RequestError> {
        let answers = self.broadcast.ask(model, &call, deadline).await;
        let answers = answers.map_err(|refusal| refused(refusal, model))?;
        merge(answers, expected, settled)
    }

    async fn add(
        &self,
        request: v1::AddCorpusRequest,
        deadline: Instant,
    ) -> Result<v1::AddCorpusResponse, RequestError> {
        check_name("corpus", &request.corpus)?;
        for name in request.readers.iter().flat_map(|readers| &readers.names) {
            check_name("readers.names", name)?;
        }
        if request
            .readers
            .as_ref()
            .is_some_and(|readers| readers.names.is_empty())
        {
            let message = "given no namespace: name at least one, or omit `readers` to allow all";
            return Err(RequestError::invalid("readers.names", message));
        }
        let model = request.model.as_deref();
        let corpus = worker_v1::AddCorpus {
            corpus: request.corpus.clone(),
            readers: request.readers.map(|readers| worker_v1::Readers {
                namespaces: readers.names,
            }),
        };
        let answers = self.broadcast.add_corpus(model, corpus, deadline).await;
        let answers = answers.map_err(|refusal| refused(refusal, model))?;
        let expected = |reply| match reply {
            Reply::Corpus(info) => Some(info),
            _ => None,
        };
        let merged = merge(answers, expected, Some(Code::AlreadyExists))
            .map_err(|error| about(error, "corpus", &request.corpus))?;
        let infos = merged.done.into_iter().map(|(_, info)| vec![info]);
        let corpus = merge::corpora(infos).into_iter().next();
        tracing::info!(corpus = %request.corpus, failures = merged.failures.len(), "corpus added");
        Ok(v1::AddCorpusResponse {
            corpus,
            failures: merged.failures,
        })
    }

    async fn remove(
        &self,
        request: v1::RemoveCorpusRequest,
        deadline: Instant,
    ) -> Result<v1::RemoveCorpusResponse, RequestError> {
        check_name("name", &request.name)?;
        let model = request.model.as_deref();
        let removal = self.broadcast.remove_corpus(model, &request.name, deadline);
        let removal = removal.await.map_err(|refusal| refused(refusal, model))?;
        if removal.was_only_remembered {
            tracing::info!(corpus = %request.name, "corpus that no worker had is not brought back");
            return Ok(v1::RemoveCorpusResponse::default());
        }
        let merged = merge(removal.answers, is_done, Some(Code::NotFound))
            .map_err(|error| about(error, "corpus", &request.name))?;
        tracing::info!(corpus = %request.name, failures = merged.failures.len(), "corpus removed");
        Ok(v1::RemoveCorpusResponse {
            workers: merged.num_done(),
            failures: merged.failures,
        })
    }

    async fn forget(
        &self,
        request: v1::ForgetNamespaceRequest,
        deadline: Instant,
    ) -> Result<v1::ForgetNamespaceResponse, RequestError> {
        check_name("name", &request.name)?;
        let model = request.model.as_deref();
        // First, so that nothing is taught to a worker that has forgotten it.
        self.generation.forget(&request.name);
        let answers = self.broadcast.forget(model, &request.name, deadline).await;
        let answers = answers.map_err(|refusal| refused(refusal, model))?;
        let merged = merge(answers, is_done, Some(Code::NotFound))
            .map_err(|error| about(error, "namespace", &request.name))?;
        tracing::info!(namespace = %request.name, failures = merged.failures.len(),
            "namespace forgotten");
        Ok(v1::ForgetNamespaceResponse {
            workers: merged.num_done(),
            failures: merged.failures,
        })
    }
}

#[tonic::async_trait]
impl Admin for AdminService {
    async fn list_corpora(
        &self,
        request: Request<v1::ListCorporaRequest>,
    ) -> Result<Response<v1::ListCorporaResponse>, Status> {
        let deadline = deadline_of(&request);
        let model = request.into_inner().model;
        let call = Call::ListCorpora(worker_v1::ListCorpora {});
        let expected = |reply| match reply {
            Reply::Corpora(list) => Some(list.corpora),
            _ => None,
        };
        let merged = self.ask(model.as_deref(), deadline, call, expected, None);
        let merged = merged.await?;
        Ok(Response::new(v1::ListCorporaResponse {
            corpora: merge::corpora(merged.done.into_iter().map(|(_, list)| list)),
            failures: merged.failures,
        }))
    }

    async fn add_corpus(
        &self,
        request: Request<v1::AddCorpusRequest>,
    ) -> Result<Response<v1::AddCorpusResponse>, Status> {
        let deadline = deadline_of(&request);
        Ok(Response::new(
            self.add(request.into_inner(), deadline).await?,
        ))
    }

    async fn remove_corpus(
        &self,
        request: Request<v1::RemoveCorpusRequest>,
    ) -> Result<Response<v1::RemoveCorpusResponse>, Status> {
        let deadline = deadline_of(&request);
        Ok(Response::new(
            self.remove(request.into_inner(), deadline).await?,
        ))
    }

    async fn list_namespaces(
        &self,
        request: Request<v1::ListNamespacesRequest>,
    ) -> Result<Response<v1::ListNamespacesResponse>, Status> {
        let deadline = deadline_of(&request);
        let model = request.into_inner().model;
        let call = Call::ListNamespaces(worker_v1::ListNamespaces {});
        let expected = |reply| match reply {
            Reply::Namespaces(list) => Some(list.namespaces),
            _ => None,
        };
        let merged = self.ask(model.as_deref(), deadline, call, expected, None);
        let merged = merged.await?;
        Ok(Response::new(v1::ListNamespacesResponse {
            namespaces: merge::namespaces(merged.done.into_iter().map(|(_, list)| list)),
            failures: merged.failures,
        }))
    }

    async fn forget_namespace(
        &self,
        request: Request<v1::ForgetNamespaceRequest>,
    ) -> Result<Response<v1::ForgetNamespaceResponse>, Status> {
        let deadline = deadline_of(&request);
        Ok(Response::new(
            self.forget(request.into_inner(), deadline).await?,
        ))
    }

    async fn save_snapshot(
        &self,
        request: Request<v1::SaveSnapshotRequest>,
    ) -> Result<Response<v1::SaveSnapshotResponse>, Status> {
        let deadline = deadline_of(&request);
        let model = request.into_inner().model;
        let call = Call::SaveSnapshot(worker_v1::SaveSnapshot {});
        let expected = |reply| match reply {
            Reply::Snapshot(snapshot) => Some(snapshot),
            _ => None,
        };
        let merged = self.ask(model.as_deref(), deadline, call, expected, None);
        let merged = merged.await?;
        let snapshots = merged.done.into_iter();
        let snapshots = snapshots.map(|(worker, snapshot)| v1::Snapshot {
            worker,
            folder: snapshot.folder,
            num_namespaces: snapshot.num_namespaces,
            num_tokens: snapshot.num_tokens,
            bytes: snapshot.bytes,
            written_bytes: snapshot.written_bytes,
        });
        Ok(Response::new(v1::SaveSnapshotResponse {
            snapshots: snapshots.collect(),
            failures: merged.failures,
        }))
    }

    async fn get_stats(
        &self,
        request: Request<v1::GetStatsRequest>,
    ) -> Result<Response<v1::GetStatsResponse>, Status> {
        let model = request.into_inner().model;
        let workers = self.broadcast.workers(model.as_deref());
        let (_, workers) = workers.map_err(|refusal| refused(refusal, model.as_deref()))?;
        let stats = workers
            .iter()
            .map(|worker| merge::stats(worker.id.clone(), worker.hello.process_id, &worker.load()));
        Ok(Response::new(v1::GetStatsResponse {
            workers: stats.collect(),
        }))
    }

    async fn loads(
        &self,
        request: Request<v1::LoadsRequest>,
    ) -> Result<Response<v1::LoadsResponse>, Status> {
        let model = request.into_inner().model;
        let workers = workers::loads(&self.broadcast, model.as_deref());
        Ok(Response::new(v1::LoadsResponse { workers }))
    }

    async fn drain(
        &self,
        request: Request<v1::DrainRequest>,
    ) -> Result<Response<v1::DrainResponse>, Status> {
        let deadline = deadline_of(&request);
        let request = request.into_inner();
        check_name("worker", &request.worker)?;
        let drained = workers::drain(&self.broadcast, &request, deadline).await?;
        Ok(Response::new(drained))
    }

    async fn abort(
        &self,
        request: Request<v1::AbortRequest>,
    ) -> Result<Response<v1::AbortResponse>, Status> {
        let request = request.into_inner();
        check_name("request_id", &request.request_id)?;
        let tenant = request.tenant.as_deref();
        let ended = self.generation.abort(tenant, &request.request_id)?;
        let id = shown(&request.request_id);
        tracing::info!(request = %id, tenant, requests = ended, "requests were ended by an operator");
        Ok(Response::new(v1::AbortResponse {
            requests: u32::try_from(ended).unwrap_or(u32::MAX),
        }))
    }
}

/// When the answers of workers must be there.
fn deadline_of<T>(request: &Request<T>) -> Instant {
    let now = Instant::now();
    let Some(deadline) = request.extensions().get::<Deadline>() else {
        return now + PATIENCE;
    };
    let left = deadline.0.saturating_duration_since(now);
    now + left.saturating_sub((left / 5).min(HEAD_START))
}

/// The same error, knowing which corpus or namespace it is about.
fn about(error: RequestError, kind: &'static str, name: &str) -> RequestError {
    RequestError {
        resource: Some(Box::new((kind, name.to_owned()))),
        ..error
    }
}

fn check_name(field: &str, name: &str) -> Result<(), RequestError> {
    if (1..=MAX_NAME_BYTES).contains(&name.len()) {
        return Ok(());
    }
    Err(RequestError::invalid(
        field,
        format!("given {} bytes; allowed: 1 to {MAX_NAME_BYTES}", name.len()),
    ))
}
