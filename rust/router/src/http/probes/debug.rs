//! What operators ask of single requests: `/debug/requests`, `/debug/requests/{id}`. Served beside
//! probes alone, to who shows the operators' token; without one, to this machine.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use serde_json::json;

use crate::access::Token;
use crate::error::{ErrorKind, RequestError};
use crate::http::error::HttpError;
use crate::http::hosts::{self, AllowedHosts};
use crate::metrics::Report;
use crate::state::AppState;

/// Who is answered.
#[derive(Clone, Debug)]
pub(in crate::http) enum Operators {
    /// Who shows this.
    With(Token),
    /// Programs of this machine, by its own names or these.
    Here(AllowedHosts),
    /// Others could ask too.
    Nobody,
}

/// The routes of this file.
pub(in crate::http) fn routes(operators: Operators) -> axum::Router<AppState> {
    let router = axum::Router::new()
        .route("/debug/requests", get(list))
        .route("/debug/requests/{id}", get(one));
    match operators {
        Operators::Here(hosts) => router.route_layer(from_fn_with_state(hosts, hosts::check_host)),
        other => router.route_layer(from_fn_with_state(other, admit)),
    }
}

async fn admit(
    State(operators): State<Operators>,
    request: Request,
    next: Next,
) -> Result<Response, HttpError> {
    match operators {
        Operators::With(token) if token.is_shown(request.headers()) => Ok(next.run(request).await),
        Operators::With(_) => {
            let message = "wrong or missing operator's token: send the header authorization: \
                           Bearer TOKEN with that of --admin-token-file";
            Err(RequestError::new(ErrorKind::Unauthenticated, message).into())
        }
        Operators::Here(_) | Operators::Nobody => {
            let message = "other machines can reach this address: requests are shown here only \
                           with --admin-token-file";
            Err(RequestError::new(ErrorKind::PermissionDenied, message).into())
        }
    }
}

/// The calls that run, the oldest first, and the last ones that ended, the latest first.
async fn list(State(state): State<AppState>) -> Response {
    let (running, ended) = (state.calls.running(), state.calls.ended());
    Json(json!({"running": running, "ended": ended})).into_response()
}

/// The calls of a name, which may be several: each tenant has its own ids.
async fn one(State(state): State<AppState>, Path(id): Path<String>) -> Response {
    let is_named = |report: &Report| {
        let names = [&report.request_id, &report.x_request_id, &report.trace_id];
        names.into_iter().flatten().any(|name| *name == id)
    };
    let mut requests = state.calls.running();
    requests.extend(state.calls.ended());
    requests.retain(is_named);
    if requests.is_empty() {
        let message = "no request of this id runs or was among the last that ended";
        return HttpError::new(
            StatusCode::NOT_FOUND,
            "not_found_error",
            None,
            Some("id"),
            message,
        )
        .into_response();
    }
    Json(json!({"requests": requests})).into_response()
}
