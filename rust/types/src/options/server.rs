//! Options of the server: its router, its processes and their logs. No engine knows them.

use super::Value;
use super::host::WORKERS;
use super::kind::{DURATION, Kind, Range, integer};
use super::macros::rows;
use super::row::{Group, OptionRow};

/// Where the OpenAI-compatible HTTP API listens when nothing says otherwise.
pub const HTTP_ADDRESS: &str = "127.0.0.1:8000";
/// Where the gRPC API listens when nothing says otherwise.
pub const GRPC_ADDRESS: &str = "127.0.0.1:50051";
/// Deadline of requests that set none, in seconds.
pub const REQUEST_TIMEOUT_S: f64 = 600.0;
/// Silence after which a worker counts as stalled, in seconds.
pub const WORKER_STALL_TIMEOUT_S: f64 = 10.0;
/// How long an answer may lie unread before its stream ends, in seconds.
pub const CLIENT_STALL_TIMEOUT_S: f64 = 60.0;

/// Share of the calls that are recorded of those whose clients say nothing of it.
pub const OTLP_SAMPLE: f64 = 1.0;
/// How long a stream that was cut can be resumed, in seconds.
pub const RESUME_WINDOW_S: f64 = 60.0;

/// Commands with a router.
const ROUTERS: &[&str] = &["serve", "router"];
/// Commands that run until they are stopped.
const PROCESSES: &[&str] = &["serve", "router", "worker"];

/// TCP or a Unix socket.
const ADDRESS: Kind = Kind::Address {
    unix: true,
    off: false,
};
/// TCP, a Unix socket or none.
const ADDRESS_OR_OFF: Kind = Kind::Address {
    unix: true,
    off: true,
};

/// TCP or none: what speaks HTTP.
const TCP_OR_OFF: Kind = Kind::Address {
    unix: false,
    off: true,
};

/// An option shown under `group`.
const fn row(group: Group, kind: Kind) -> OptionRow {
    OptionRow::new(group, kind)
}

rows! {
    /// How a model is served.
    pub static SERVER;

    /// Address of the OpenAI-compatible HTTP API.
    http = Value::text(HTTP_ADDRESS) => row(Group::Addresses, TCP_OR_OFF)
        .flag("http", ROUTERS);
    /// Address of the gRPC API.
    grpc = Value::text(GRPC_ADDRESS) => row(Group::Addresses, ADDRESS_OR_OFF)
        .flag("grpc", ROUTERS);
    /// Address that workers connect to; keep it private.
    worker_listen = Value::None => row(Group::Addresses, ADDRESS)
        .flag("worker_listen", ROUTERS).shown("a private Unix socket");
    /// File with the secret that workers on TCP must send.
    worker_token_file = Value::None => row(Group::Addresses, Kind::Text("FILE"))
        .flag("worker_token_file", PROCESSES);
    /// gRPC address for operators: corpora, namespaces, snapshots.
    admin = Value::None => row(Group::Addresses, ADDRESS_OR_OFF)
        .flag("admin", ROUTERS).shown("a private Unix socket");
    /// File with the secret that operators must send; required if other machines can reach --admin.
    admin_token_file = Value::None => row(Group::Addresses, Kind::Text("FILE"))
        .flag("admin_token_file", ROUTERS);
    /// The router's address for workers.
    router = Value::None => row(Group::Addresses, ADDRESS)
        .flag("router", &["worker"]).shown("required");
    /// Extra address for /metrics.
    metrics_listen = Value::None => row(Group::Addresses, TCP_OR_OFF)
        .flag("metrics_listen", ROUTERS).shown("on the HTTP address");
    /// Repeat metrics under the names of another server.
    metrics_compat = Value::text("off") => row(Group::Addresses, Kind::Choice(&["off", "vllm"]))
        .flag("metrics_compat", ROUTERS);
    /// Collector that gets traces and times of calls by OTLP over HTTP, such as http://localhost:4318.
    otlp_endpoint = Value::None => row(Group::Addresses, Kind::Text("URL"))
        .flag("otlp_endpoint", ROUTERS).shown("off");
    /// Share of requests traced, of those whose client sent no traceparent.
    otlp_sample = Value::Number(OTLP_SAMPLE) => row(Group::Addresses, Kind::Number(Range::new(0.0, 1.0)))
        .flag("otlp_sample", ROUTERS);
    /// Address for the worker's own health and metrics.
    health = Value::None => row(Group::Addresses, ADDRESS_OR_OFF)
        .flag("health", WORKERS).shown("off");

    /// Worker processes to start for each model.
    workers = Value::Integer(1) => row(Group::Machine, integer(1, 64))
        .flag("workers", &["serve"]).unit("processes");
    /// Model name that clients use; NAME=MODEL, repeated, where several models are served.
    served_model_name = Value::List(Vec::new()) => row(Group::Machine, Kind::Texts("NAME"))
        .flag("served_model_name", WORKERS).shown("the model's own");

    /// Maximum connections of clients; idle ones make room beyond it.
    max_connections = Value::None => row(Group::Limits, integer(4, 1_048_576))
        .flag("max_connections", ROUTERS).shown("by the limit of open files").unit("connections");
    /// Maximum requests that wait.
    max_queue = Value::None => row(Group::Limits, integer(0, 65_536))
        .flag("max_queue", ROUTERS).shown("4 x running").unit("requests");
    /// Deadline of requests without one; what a request asks for may be 30m, or this where it is longer.
    request_timeout = Value::Number(REQUEST_TIMEOUT_S) => row(Group::Limits, DURATION)
        .flag("request_timeout", ROUTERS);
    /// Time for running requests to finish at shutdown.
    drain_timeout = Value::Number(30.0) => row(Group::Limits, DURATION)
        .flag("drain_timeout", PROCESSES);
    /// Silence after which a worker is considered stalled.
    worker_stall_timeout = Value::Number(WORKER_STALL_TIMEOUT_S) => row(Group::Limits, DURATION)
        .flag("worker_stall_timeout", PROCESSES);
    /// Time after which a stream ends that its client does not read.
    client_stall_timeout = Value::Number(CLIENT_STALL_TIMEOUT_S) => row(Group::Limits, DURATION)
        .flag("client_stall_timeout", ROUTERS);
    /// Time in which a client can resume a stream that was cut; 0 for never.
    resume_window = Value::Number(RESUME_WINDOW_S) => row(Group::Limits, DURATION)
        .flag("resume_window", ROUTERS);

    /// File of API keys, read again when it changes; without it, no key is required.
    api_keys = Value::None => row(Group::Access, Kind::Text("FILE")).flag("api_keys", ROUTERS);
    /// Let requests name their draft memory; all that a client names share its tenant's part.
    allow_client_namespaces = Value::Flag(false) => row(Group::Access, Kind::Flag)
        .flag("allow_client_namespaces", ROUTERS);
    /// Show /metrics, /version, /openapi.json and gRPC reflection to callers without a key.
    open_introspection = Value::Flag(false) => row(Group::Access, Kind::Flag)
        .flag("open_introspection", ROUTERS);
    /// Name of a proxy before an HTTP address of this machine without keys; repeat for several.
    allowed_hosts = Value::List(Vec::new()) => row(Group::Access, Kind::Texts("HOST"))
        .flag("allowed_hosts", ROUTERS);
    /// Certificate for TLS on TCP addresses, PEM, read again when it changes; a worker's own.
    tls_cert = Value::None => row(Group::Access, Kind::Text("FILE")).flag("tls_cert", PROCESSES);
    /// Private key of --tls-cert.
    tls_key = Value::None => row(Group::Access, Kind::Text("FILE")).flag("tls_key", PROCESSES);
    /// Authority whose certificates clients and operators must show.
    tls_client_ca = Value::None => row(Group::Access, Kind::Text("FILE"))
        .flag("tls_client_ca", ROUTERS);
    /// Authority whose certificates workers on TCP must show, instead of a token.
    tls_worker_ca = Value::None => row(Group::Access, Kind::Text("FILE"))
        .flag("tls_worker_ca", ROUTERS);
    /// Authority of the router's certificate: a worker dials by TLS.
    tls_ca = Value::None => row(Group::Access, Kind::Text("FILE"))
        .flag("tls_ca", &["serve", "worker"]);
    /// Web origin allowed to call the HTTP API; repeat for several.
    cors_origins = Value::List(Vec::new()) => row(Group::Access, Kind::Texts("ORIGIN"))
        .flag("cors_origin", ROUTERS);

    /// Redis through which routers share: unix:PATH, redis://HOST or, with TLS, rediss://HOST.
    redis = Value::None => row(Group::State, Kind::Text("ADDRESS")).flag("redis", ROUTERS);
    /// Namespace whose text never goes through --redis, nor that of its parts; repeat for several.
    private_namespaces = Value::List(Vec::new()) => row(Group::State, Kind::Texts("NAMESPACE"))
        .flag("private_namespace", ROUTERS);
    /// Index of this worker among those that share one --state-dir.
    worker_index = Value::Integer(0) => row(Group::State, integer(0, 4095))
        .flag("worker_index", &["worker"]);
    /// Minimum severity of log lines.
    log_level = Value::text("info")
        => row(Group::State, Kind::Choice(&["error", "warn", "info", "debug", "trace"]))
        .flag("log_level", PROCESSES);
    /// Format of log lines, on stderr.
    log_format = Value::text("text") => row(Group::State, Kind::Choice(&["text", "json"]))
        .flag("log_format", PROCESSES);
    /// Write one log line for each request of a client when it ends.
    access_log = Value::text("on") => row(Group::State, Kind::Choice(&["on", "off"]))
        .flag("access_log", ROUTERS);
}
