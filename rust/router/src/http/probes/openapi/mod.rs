//! `GET /openapi.json`: what this API takes and gives, as `OpenAPI` 3.1. Tests hold it to the routes,
//! to the fields that bodies are read for and to the objects that answers are written from.

mod answer;
mod paths;
mod request;
mod schema;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

/// The document, written once.
static TEXT: LazyLock<String> = LazyLock::new(|| document().to_string());

/// `GET /openapi.json`
pub(super) async fn serve() -> Response {
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

fn document() -> Value {
    let mut schemas = request::schemas();
    schemas.extend(answer::schemas());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Spectrie",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "OpenAI's chat and completion endpoints, with further fields. Fields \
                that are not named here are accepted and listed in `x-spectrie-ignored`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"key": []}],
        "paths": paths::paths(),
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
            },
            "schemas": schemas,
        },
    })
}
