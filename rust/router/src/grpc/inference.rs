//! The `spectrie.v1.Inference` service: each method is one call of [`Generation`].

use std::pin::Pin;

use futures_core::Stream;
use futures_util::StreamExt as _;
use spectrie_proto::v1;
use spectrie_proto::v1::inference_server::Inference;
use tonic::{Code, Request, Response, Status};

use super::gate::Granted;
use super::guard::Deadline;
use crate::error::{ErrorKind, RequestError};
use crate::generation::{Caller, GenerationStream, Resume};
use crate::metrics::Call;
use crate::state::AppState;

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct InferenceService {
    state: AppState,
}

impl InferenceService {
    pub(crate) fn new(state: AppState) -> Self {
        Self { state }
    }

    /// Who calls: the gate knows since before the body was read.
    fn caller<T>(request: &Request<T>) -> Result<Caller, RequestError> {
        let extensions = request.extensions();
        let Some(Granted(grant)) = extensions.get::<Granted>().cloned() else {
            let message = "a call came past the gate";
            return Err(RequestError::new(ErrorKind::Internal, message));
        };
        let deadline = extensions.get::<Deadline>().map(|deadline| deadline.0);
        let call = call_of(request);
        Ok(Caller {
            grant,
            deadline,
            call,
        })
    }

    /// A stream in gRPC's form.
    fn events(stream: GenerationStream, call: Call) -> Events {
        let failed = move |error: RequestError| {
            call.answered(&format!("{:?}", error.kind.grpc_code()));
            Status::from(error)
        };
        Box::pin(stream.map(move |event| event.map_err(&failed)))
    }

    /// Counts the answer and puts it into gRPC's form.
    fn answer<T>(
        &self,
        route: &'static str,
        result: Result<T, RequestError>,
    ) -> Result<Response<T>, Status> {
        let code = result
            .as_ref()
            .err()
            .map_or(Code::Ok, |error| error.kind.grpc_code());
        self.state.metrics.request(route, &format!("{code:?}"));
        result.map(Response::new).map_err(Status::from)
    }
}

type Events = Pin<Box<dyn Stream<Item = Result<v1::GenerateEvent, Status>> + Send>>;

/// Where it is noted what becomes of a call.
fn call_of<T>(request: &Request<T>) -> Call {
    let call = request.extensions().get::<Call>();
    call.cloned().unwrap_or_default()
}

#[tonic::async_trait]
impl Inference for InferenceService {
    type GenerateStreamStream = Events;
    type ResumeStreamStream = Events;

    async fn generate(
        &self,
        request: Request<v1::GenerateRequest>,
    ) -> Result<Response<v1::GenerateResponse>, Status> {
        let run = async {
            let caller = Self::caller(&request)?;
            self.state
                .generation
                .start(request.into_inner(), caller)
                .await?
                .collect()
                .await
        };
        let result = run.await;
        self.answer("Generate", result)
    }

    async fn generate_stream(
        &self,
        request: Request<v1::GenerateRequest>,
    ) -> Result<Response<Self::GenerateStreamStream>, Status> {
        let call = call_of(&request);
        let start = async {
            let caller = Self::caller(&request)?;
            self.state
                .generation
                .start_resumable(request.into_inner(), caller, None)
                .await
        };
        let result = start.await.map(|stream| Self::events(stream, call));
        self.answer("GenerateStream", result)
    }

    async fn resume_stream(
        &self,
        request: Request<v1::ResumeStreamRequest>,
    ) -> Result<Response<Self::ResumeStreamStream>, Status> {
        let call = call_of(&request);
        let resume = async {
            let caller = Self::caller(&request)?;
            let request = request.into_inner();
            let positions = request.starting_after.into_iter();
            let resume = Resume {
                request_id: request.request_id,
                or_request_id: None,
                token: request.resume_token,
                starting_after: positions.map(|at| (at.index, at.position)).collect(),
                repeats: false,
            };
            self.state.generation.resume(&resume, &caller).await
        };
        let resumed = resume.await;
        let result = resumed.map(|resumed| Self::events(resumed.stream, call));
        self.answer("ResumeStream", result)
    }

    async fn tokenize(
        &self,
        request: Request<v1::TokenizeRequest>,
    ) -> Result<Response<v1::TokenizeResponse>, Status> {
        let run = async {
            let caller = Self::caller(&request)?;
            let generation = &self.state.generation;
            generation.tokenize(request.into_inner(), &caller).await
        };
        let result = run.await;
        self.answer("Tokenize", result)
    }

    async fn detokenize(
        &self,
        request: Request<v1::DetokenizeRequest>,
    ) -> Result<Response<v1::DetokenizeResponse>, Status> {
        let run = async {
            let caller = Self::caller(&request)?;
            let generation = &self.state.generation;
            generation.detokenize(request.into_inner(), &caller).await
        };
        let result = run.await;
        self.answer("Detokenize", result)
    }

    async fn apply_chat_template(
        &self,
        request: Request<v1::ApplyChatTemplateRequest>,
    ) -> Result<Response<v1::ApplyChatTemplateResponse>, Status> {
        let run = async {
            let caller = Self::caller(&request)?;
            self.state
                .generation
                .apply_chat_template(request.into_inner(), &caller)
                .await
        };
        let result = run.await;
        self.answer("ApplyChatTemplate", result)
    }

    async fn list_models(
        &self,
        request: Request<v1::ListModelsRequest>,
    ) -> Result<Response<v1::ListModelsResponse>, Status> {
        let caller = Self::caller(&request);
        let result = caller.map(|caller| {
            let mut models = self.state.generation.models();
            models.retain(|model| caller.allows_model(&model.name));
            v1::ListModelsResponse { models }
        });
        self.answer("ListModels", result)
    }
}
