//! The paths, and what each may answer.

use serde_json::{Map, Value, json};

use super::schema::of;

/// A failure: its status, and when it comes.
type Failure = (u16, &'static str);

const BAD: Failure = (
    400,
    "A header, a field or the body is not what is allowed; a feature is not supported.",
);
const NO_KEY: Failure = (401, "No key, or an unknown one.");
const FORBIDDEN: Failure = (403, "The key, or the listener, does not allow it.");
const NOT_FOUND: Failure = (404, "No such model.");
const LARGE_HEADERS: Failure = (431, "The headers are too large.");
const FAILED: Failure = (500, "A bug.");
const BUSY: Failure = (503, "No worker, a server that ends, or no free connection.");

/// Failures of every path that asks for a key.
const ANY: &[Failure] = &[BAD, NO_KEY, FORBIDDEN, LARGE_HEADERS, FAILED, BUSY];
/// The others of generating.
const GENERATING: &[Failure] = &[
    NOT_FOUND,
    (408, "The body did not arrive in time."),
    (409, "A running request has this id."),
    (413, "The body is too large."),
    (429, "The queue is full, or the key's limits are used up."),
    (499, "The answer was not read."),
    (504, "The deadline passed."),
];

/// Every path, with its operations.
pub(super) fn paths() -> Map<String, Value> {
    let mut paths = Map::new();
    let mut add = |path: &str, method: &str, operation: Value| {
        paths.insert(path.to_owned(), json!({method: operation}));
    };
    add(
        "/v1/chat/completions",
        "post",
        generate("Answers a chat.", "ChatRequest", "ChatCompletion"),
    );
    add(
        "/v1/completions",
        "post",
        generate("Continues texts.", "CompletionRequest", "Completion"),
    );
    add(
        "/v1/models",
        "get",
        get("The models that can answer now.", &of("ModelList"), ANY),
    );
    let mut model = get(
        "One model; its id may hold slashes.",
        &of("Model"),
        &[ANY, &[NOT_FOUND]].concat(),
    );
    model["parameters"] = json!([
        {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
    ]);
    add("/v1/models/{id}", "get", model);
    let mut resumed = get(
        "Goes on with a stream that was cut.",
        &json!({}),
        &[ANY, GENERATING].concat(),
    );
    resumed["responses"]["200"] = json!({
        "description": "What follows in the stream.",
        "content": {"text/event-stream": {"schema": {"description": EVENTS}}},
    });
    resumed["parameters"] = json!([
        {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
        {"name": "x-spectrie-resume-token", "in": "header", "required": true, "schema": {"type": "string"}},
        {"name": "last-event-id", "in": "header", "schema": {"type": "string"}},
    ]);
    add("/v1/streams/{id}", "get", resumed);
    for path in ["/healthz", "/health"] {
        add(
            path,
            "get",
            open(get("Whether the router answers.", &of("Health"), &[BAD])),
        );
    }
    let mut ready = open(get(
        "Whether a worker is ready and the router takes requests.",
        &of("Readiness"),
        &[BAD],
    ));
    ready["responses"]["503"] = json_response("Not ready.", &of("Readiness"));
    add("/readyz", "get", ready);
    let mut metrics = get("Metrics.", &json!({}), ANY);
    metrics["responses"]["200"] = json!({
        "description": "OpenMetrics text.",
        "content": {"application/openmetrics-text": {"schema": {"type": "string"}}},
    });
    add("/metrics", "get", metrics);
    add(
        "/version",
        "get",
        get("The router's version.", &of("Version"), ANY),
    );
    add(
        "/openapi.json",
        "get",
        get("This document.", &json!({"type": "object"}), ANY),
    );
    paths
}

/// No type is named: readers of the document differ in whether it is that of the text or of an event.
const EVENTS: &str =
    "Server-sent events: each `data` is a chunk, an `error`, or `[DONE]` at the end.";

fn get(summary: &str, schema: &Value, failures: &[Failure]) -> Value {
    let mut responses = errors(failures);
    responses.insert("200".into(), json_response("Done.", schema));
    json!({"summary": summary, "responses": responses})
}

/// An operation without a key.
fn open(mut operation: Value) -> Value {
    operation["security"] = json!([]);
    operation
}

fn generate(summary: &str, request: &str, answer: &str) -> Value {
    let mut responses = errors(&[ANY, GENERATING].concat());
    responses.insert(
        "200".into(),
        json!({
            "description": "The whole answer, or a stream of its chunks.",
            "headers": {
                "x-request-id": {"schema": {"type": "string"}},
                "x-spectrie-ignored": {
                    "description": "Fields of the body without effect.",
                    "schema": {"type": "string"},
                },
            },
            "content": {
                "application/json": {"schema": of(answer)},
                "text/event-stream": {"schema": {"description": EVENTS}},
            },
        }),
    );
    json!({
        "summary": summary,
        "requestBody": {
            "required": true,
            "content": {"application/json": {"schema": of(request)}},
        },
        "responses": responses,
    })
}

fn errors(failures: &[Failure]) -> Map<String, Value> {
    let mut responses = Map::new();
    for (status, about) in failures {
        let mut response = json_response(about, &of("Error"));
        if matches!(status, 429 | 503) {
            let about = "Seconds after which another try may help.";
            response["headers"] = json!({
                "retry-after": {"description": about, "schema": {"type": "integer"}},
            });
        }
        responses.insert(status.to_string(), response);
    }
    responses
}

fn json_response(about: &str, schema: &Value) -> Value {
    json!({"description": about, "content": {"application/json": {"schema": schema}}})
}
