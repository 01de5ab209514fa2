//! `GET /v1/models` and `GET /v1/models/{id}`.

use axum::extract::{Path, State};
use axum::{Extension, Json};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use spectrie_proto::v1;

use crate::error::RequestError;
use crate::state::AppState;

use super::error::HttpError;
use super::layers::Granted;

#[derive(Debug, Serialize)]
pub(super) struct ModelList {
    object: &'static str,
    data: Vec<Model>,
}

/// OpenAI's model object, with what a client needs to size its requests.
#[derive(Debug, Serialize)]
pub(super) struct Model {
    id: String,
    object: &'static str,
    /// Always 0: a model has no birth here, and clients only need the field.
    created: i64,
    owned_by: &'static str,
    /// Longest prompt plus answer, in tokens; named as other open servers do.
    max_model_len: u32,
    vocabulary_size: u32,
    workers: u32,
    system_fingerprint: String,
}

impl From<v1::Model> for Model {
    fn from(model: v1::Model) -> Self {
        Self {
            system_fingerprint: system_fingerprint(&model),
            id: model.name,
            object: "model",
            created: 0,
            owned_by: "spectrie",
            max_model_len: model.max_context,
            vocabulary_size: model.vocabulary_size,
            workers: model.workers,
        }
    }
}

/// Short hash of a model's numeric fingerprint: equal ones promise equal tokens for equal seeds.
pub(super) fn system_fingerprint(model: &v1::Model) -> String {
    const HASH_BYTES: usize = 5;
    let digest = Sha256::digest(model.numeric_fingerprint.as_bytes());
    let mut bytes = [0; 8];
    bytes[8 - HASH_BYTES..].copy_from_slice(&digest[..HASH_BYTES]);
    format!("fp_{:010x}", u64::from_be_bytes(bytes))
}

pub(super) async fn list(
    State(state): State<AppState>,
    Extension(granted): Extension<Granted>,
) -> Json<ModelList> {
    let models = open_models(&state, granted).into_iter();
    Json(ModelList {
        object: "list",
        data: models.map(Model::from).collect(),
    })
}

/// The served models that the caller may use.
fn open_models(state: &AppState, granted: Granted) -> Vec<v1::Model> {
    let caller = granted.caller();
    let mut models = state.generation.models();
    models.retain(|model| caller.allows_model(&model.name));
    models
}

/// The id may hold slashes, as Hugging Face ids do.
pub(super) async fn get(
    State(state): State<AppState>,
    Extension(granted): Extension<Granted>,
    Path(id): Path<String>,
) -> Result<Json<Model>, HttpError> {
    let models = open_models(&state, granted);
    let names: Vec<_> = models.iter().map(|model| model.name.clone()).collect();
    let found = models.into_iter().find(|model| model.name == id);
    let found = found.ok_or_else(|| RequestError::model_not_found(&id, &names))?;
    Ok(Json(Model::from(found)))
}
