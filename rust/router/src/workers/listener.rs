//! The listener that workers dial: checks who they are and gives each a session.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_core::Stream;
use spectrie_proto::WORKER_PROTOCOL;
use spectrie_proto::worker_v1::worker_hub_server::WorkerHub;
use spectrie_proto::worker_v1::{
    Hello, RouterMessage, Welcome, WorkerMessage, router_message, worker_message,
};
use tokio::time::timeout;
use tonic::{Request, Response, Status, Streaming};

use super::outgoing;
use super::session::{self, SessionContext};
use super::worker::Worker;
use crate::access::Token;
use crate::listen::{Place, Running};

/// How long a connected peer may be silent before its hello.
const HELLO_TIME: Duration = Duration::from_secs(10);

/// The `WorkerHub` service.
#[derive(Debug)]
pub(crate) struct WorkerListener {
    context: SessionContext,
    /// What workers must show.
    token: Option<Token>,
    next_id: AtomicU64,
}

impl WorkerListener {
    /// A listener whose workers show `token`, when there is one.
    pub(crate) fn new(context: SessionContext, token: Option<Token>) -> Self {
        Self {
            context,
            token,
            next_id: AtomicU64::new(0),
        }
    }

    fn authorize(&self, request: &Request<Streaming<WorkerMessage>>) -> Result<(), Status> {
        let shows = |token: &Token| token.is_shown(request.metadata().as_ref());
        if self.token.as_ref().is_none_or(shows) {
            return Ok(());
        }
        Err(Status::unauthenticated(
            "wrong worker token, start the worker with --worker-token-file",
        ))
    }
}

#[tonic::async_trait]
impl WorkerHub for WorkerListener {
    type ConnectStream = Pin<Box<dyn Stream<Item = Result<RouterMessage, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<WorkerMessage>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        self.authorize(&request)?;
        let running = hold(&request)?;
        let mut inbound = request.into_inner();
        let first = timeout(HELLO_TIME, inbound.message())
            .await
            .map_err(|_| Status::deadline_exceeded("no hello within 10 s"))??;
        let Some(worker_message::Message::Hello(hello)) = first.and_then(|first| first.message)
        else {
            return Err(Status::invalid_argument(
                "the first message must be a hello",
            ));
        };
        check_hello(&hello)?;
        let id = format!("w{}", self.next_id.fetch_add(1, Ordering::Relaxed) + 1);
        tracing::info!(worker = %id, model = %hello.model, version = %hello.version,
            process = hello.process_id, "worker connected");
        let (sender, outgoing) = outgoing::channel();
        let welcome = Welcome {
            protocol: hello.protocol,
            worker_id: id.clone(),
        };
        sender.order(router_message::Message::Welcome(welcome));
        let worker = Arc::new(Worker::new(id, hello, sender));
        let session = session::run(self.context.clone(), worker, inbound);
        tokio::spawn(async move {
            session.await;
            drop(running);
        });
        Ok(Response::new(Box::pin(outgoing)))
    }
}

/// Keeps the place of a worker's connection, which strangers could take otherwise.
fn hold<T>(request: &Request<T>) -> Result<Option<Running>, Status> {
    let Some(place) = request.extensions().get::<Place>() else {
        return Ok(None);
    };
    let busy = || Status::unavailable("every connection that workers may have is in use");
    place.run().map(Some).ok_or_else(busy)
}

/// Checks that router and worker can work together.
fn check_hello(hello: &Hello) -> Result<(), Status> {
    let oldest = WORKER_PROTOCOL.saturating_sub(1).max(1);
    if !(oldest..=WORKER_PROTOCOL).contains(&hello.protocol) {
        return Err(Status::failed_precondition(format!(
            "the worker speaks protocol {}, this router {WORKER_PROTOCOL} and down to {oldest}: \
             upgrade the router first, then the workers",
            hello.protocol
        )));
    }
    let capacity = hello.capacity.unwrap_or_default();
    for (field, missing) in [
        ("model", hello.model.is_empty()),
        ("model_hash", hello.model_hash.is_empty()),
        ("vocabulary_size", hello.vocabulary_size == 0),
        ("capacity.max_context", capacity.max_context == 0),
        ("capacity.max_running", capacity.max_running == 0),
        ("capacity.num_pages", capacity.num_pages == 0),
        ("capacity.page_size", capacity.page_size == 0),
    ] {
        if missing {
            let message = format!("hello.{field} is missing or 0: it must be set");
            return Err(Status::invalid_argument(message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use spectrie_proto::worker_v1::Capacity;

    use super::*;

    #[test]
    fn other_protocol_is_refused_with_both_numbers_and_the_order_of_upgrade() {
        let status = check_hello(&Hello {
            protocol: 99,
            ..Default::default()
        })
        .unwrap_err();
        assert_eq!(status.code(), tonic::Code::FailedPrecondition);
        let message = status.message();
        assert!(message.contains("protocol 99, this router 1"), "{message}");
        assert!(message.contains("upgrade the router first"), "{message}");
    }

    #[test]
    fn hello_without_a_needed_field_is_refused_by_name() {
        let mut hello = Hello {
            protocol: WORKER_PROTOCOL,
            model: "m".into(),
            model_hash: "h".into(),
            vocabulary_size: 1,
            capacity: Some(Capacity {
                max_context: 1,
                max_running: 1,
                num_pages: 1,
                page_size: 1,
                max_draft_tokens: 0,
            }),
            ..Default::default()
        };
        assert!(check_hello(&hello).is_ok());
        hello.vocabulary_size = 0;
        let status = check_hello(&hello).unwrap_err();
        assert!(
            status.message().contains("vocabulary_size"),
            "{}",
            status.message()
        );
    }
}
