//! The router's configuration: one frozen struct per room, read from JSON at start-up.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use spectrie_types::options::{
    CLIENT_STALL_TIMEOUT_S, GRPC_ADDRESS, HTTP_ADDRESS, OTLP_SAMPLE, REQUEST_TIMEOUT_S,
    RESUME_WINDOW_S, WORKER_STALL_TIMEOUT_S,
};

use crate::error::RouterError;

/// Longest time of any setting: a year, in seconds.
const MAX_SECONDS: f64 = 31_536_000.0;

/// All settings of the router. Absent members take their defaults; unknown ones are refused.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouterConfig {
    /// Where it listens.
    pub listen: ListenConfig,
    /// How much it takes.
    pub limits: LimitsConfig,
    /// Who may call.
    pub access: AccessConfig,
    /// What TCP listeners prove, and ask peers to prove.
    pub tls: TlsConfig,
    /// How it treats workers and what it keeps of them.
    pub workers: WorkersConfig,
    /// What it shares with other routers.
    pub fleet: FleetConfig,
    /// Threads, signals and draining.
    pub runtime: RuntimeConfig,
    /// What it logs.
    pub log: LogConfig,
    /// How metrics are named.
    pub metrics: MetricsConfig,
    /// Where traces go.
    pub traces: TracesConfig,
}

impl RouterConfig {
    /// Reads a configuration from JSON.
    ///
    /// # Errors
    /// [`RouterError::Config`] names the member at fault and where it is.
    pub fn from_json(json: &str) -> Result<Self, RouterError> {
        let mut config: Self =
            serde_json::from_str(json).map_err(|error| RouterError::Config(error.to_string()))?;
        for (name, seconds) in [
            (
                "limits.default_deadline_s",
                config.limits.default_deadline_s,
            ),
            ("limits.body_timeout_s", config.limits.body_timeout_s),
            ("limits.hello_timeout_s", config.limits.hello_timeout_s),
            ("limits.max_deadline_s", config.limits.max_deadline_s),
            (
                "limits.client_stall_timeout_s",
                config.limits.client_stall_timeout_s,
            ),
            ("limits.resume_window_s", config.limits.resume_window_s),
            ("workers.wait_s", config.workers.wait_s),
            ("workers.stall_timeout_s", config.workers.stall_timeout_s),
            ("workers.conviction_s", config.workers.conviction_s),
            ("runtime.drain_s", config.runtime.drain_s),
        ] {
            if !(0.0..=MAX_SECONDS).contains(&seconds) {
                let message = format!("{name}: given {seconds}; allowed: 0 to {MAX_SECONDS}");
                return Err(RouterError::Config(message));
            }
        }
        let sample = config.traces.sample;
        if !(0.0..=1.0).contains(&sample) {
            let message = format!("traces.sample (--otlp-sample): given {sample}; allowed: 0 to 1");
            return Err(RouterError::Config(message));
        }
        let limits = &mut config.limits;
        limits.max_deadline_s = limits.max_deadline_s.max(limits.default_deadline_s);
        Ok(config)
    }
}

/// Addresses: `HOST:PORT`, port 0 for a free one, or `unix:PATH` where said so.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListenConfig {
    /// OpenAI HTTP, probes and metrics; none when absent. TCP only.
    pub http: Option<String>,
    /// Public gRPC; none when absent. TCP or `unix:PATH`.
    pub grpc: Option<String>,
    /// Workers dial here: `unix:PATH` (mode 0600), or TCP together with `access.worker_token_file`.
    pub worker: String,
    /// Probes and metrics alone, beside those on `http`; none when absent. TCP only.
    pub metrics: Option<String>,
    /// Operators' gRPC; none when absent. `unix:PATH` (mode 0600), TCP of this machine alone, or
    /// any TCP together with `access.admin_token_file`.
    pub admin: Option<String>,
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self {
            http: Some(HTTP_ADDRESS.into()),
            grpc: Some(GRPC_ADDRESS.into()),
            worker: "unix:spectrie-worker.sock".into(),
            metrics: None,
            admin: None,
        }
    }
}

/// Bounds on requests and queues.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Largest gRPC message or HTTP body, in bytes: 4 MiB.
    pub max_message_bytes: usize,
    /// Bytes of bodies that are still arriving, over all connections; of texts that wait to be
    /// tokenized; and of requests that wait for a worker to come (back): 64 MiB each.
    pub max_unfinished_bytes: usize,
    /// How long a body may take to arrive, in seconds: 30.
    pub body_timeout_s: f64,
    /// How long a new connection may say nothing, in seconds: 10.
    pub hello_timeout_s: f64,
    /// Connections of clients at once; when absent, what the limit of open files leaves.
    pub max_connections: Option<usize>,
    /// Connections of workers at once; when absent, what the limit of open files leaves.
    pub max_worker_connections: Option<usize>,
    /// Completions in flight per model, as a multiple of its workers' `max_running`: 5, that is
    /// one running and four waiting for each place.
    pub in_flight_factor: u32,
    /// Completions that may wait for a place, instead of what the factor allows: absent.
    pub max_queued: Option<usize>,
    /// Requests that wait for a worker to come (back): 256.
    pub max_waiting: usize,
    /// Concurrent gRPC streams of one connection: 4096.
    pub max_concurrent_streams: u32,
    /// Largest header list, in bytes: 16 KiB.
    pub max_header_bytes: u32,
    /// Deadline of a request that names none, in seconds: 600.
    pub default_deadline_s: f64,
    /// Longest deadline a request may have, in seconds: 1800, or the default one where that is longer.
    pub max_deadline_s: f64,
    /// How long an answer may lie unread before its stream ends, in seconds: 60.
    pub client_stall_timeout_s: f64,
    /// How long a stream that was cut can be resumed, in seconds: 60. 0 keeps nothing.
    pub resume_window_s: f64,
    /// Bytes that the records of such streams may hold, over all tenants: 64 MiB.
    pub max_resume_bytes: usize,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            max_message_bytes: 4 << 20,
            max_unfinished_bytes: 64 << 20,
            body_timeout_s: 30.0,
            hello_timeout_s: 10.0,
            max_connections: None,
            max_worker_connections: None,
            in_flight_factor: 5,
            max_queued: None,
            max_waiting: 256,
            max_concurrent_streams: 4096,
            max_header_bytes: 16 << 10,
            default_deadline_s: REQUEST_TIMEOUT_S,
            max_deadline_s: 1800.0,
            client_stall_timeout_s: CLIENT_STALL_TIMEOUT_S,
            resume_window_s: RESUME_WINDOW_S,
            max_resume_bytes: 64 << 20,
        }
    }
}

/// Who may call and who may work.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccessConfig {
    /// File of API keys, as TOML or lines `KEY TENANT`; it is followed while the router serves.
    /// Everyone may call when absent.
    pub api_keys_file: Option<PathBuf>,
    /// Whether a request may name its namespace: false.
    pub allow_client_namespaces: bool,
    /// File with the token that workers show on a TCP listener.
    pub worker_token_file: Option<PathBuf>,
    /// File with the token that operators show.
    pub admin_token_file: Option<PathBuf>,
    /// Names by which a listener on this machine alone answers without keys, beside `localhost` and
    /// its addresses; `*` for all.
    pub allowed_hosts: Vec<String>,
    /// Whether metrics, version, the API's description and reflection answer without a key where keys are set: false.
    pub open_introspection: bool,
    /// Origins that browsers may call from; none when empty, `*` for all.
    pub cors_origins: Vec<String>,
}

/// Certificates, in PEM files that are read again while serving. With a certificate every TCP
/// listener but `listen.metrics` speaks TLS only.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// File with the router's certificate and those between it and its authority.
    pub cert: Option<PathBuf>,
    /// File with the certificate's private key.
    pub key: Option<PathBuf>,
    /// File with the authority whose certificates clients and operators must show; none need one
    /// when absent.
    pub client_ca: Option<PathBuf>,
    /// File with the authority whose certificates workers must show, instead of a token.
    pub worker_ca: Option<PathBuf>,
}

/// How workers are watched, and brought to the same corpora.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkersConfig {
    /// Silence, or work without a step, after which a worker counts as lost, in seconds: 10.
    pub stall_timeout_s: f64,
    /// How long a request waits for a worker that is loading or restarting, in seconds: 30.
    pub wait_s: f64,
    /// How long a request is refused after a worker ended with it alone, in seconds: 300.
    pub conviction_s: f64,
    /// Folder of the file that keeps what corpora operators added; a restart forgets them when
    /// absent.
    pub state_dir: Option<PathBuf>,
}

impl Default for WorkersConfig {
    fn default() -> Self {
        Self {
            stall_timeout_s: WORKER_STALL_TIMEOUT_S,
            wait_s: 30.0,
            conviction_s: 300.0,
            state_dir: None,
        }
    }
}

/// What a router shares with others, through Redis.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct FleetConfig {
    /// `unix:PATH`, `redis://[USER:PASSWORD@]HOST[:PORT][/DB]` or the same with `rediss` for TLS;
    /// the router shares nothing when absent.
    pub redis: Option<String>,
    /// Namespaces whose text stays with this router, together with their parts.
    pub private_namespaces: Vec<String>,
}

impl fmt::Debug for FleetConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a password.
        formatter
            .debug_struct("FleetConfig")
            .field("redis", &self.redis.as_ref().map(|_| "given"))
            .field("private_namespaces", &self.private_namespaces)
            .finish()
    }
}

/// Threads, signals and the end.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuntimeConfig {
    /// Threads that serve; when absent, one on a machine of at most two cores, else two.
    pub threads: Option<usize>,
    /// Whether SIGINT and SIGTERM drain, and the second one stops at once: true.
    pub handle_signals: bool,
    /// How long running requests may go on after the first signal, in seconds: 60.
    pub drain_s: f64,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            threads: None,
            handle_signals: true,
            drain_s: 60.0,
        }
    }
}

/// What goes to stderr.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// error, warn, info, debug, trace, or a filter of `tracing-subscriber`: info.
    pub level: String,
    /// Lines of text or of JSON: text.
    pub format: LogFormat,
    /// Whether each call writes a line when it ends: true.
    pub access: bool,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            level: "info".into(),
            format: LogFormat::Text,
            access: true,
        }
    }
}

/// How metrics are named.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Whether what vLLM measures too is repeated under vLLM's names: false.
    pub vllm_names: bool,
}

/// Where traces of calls go, by OTLP over HTTP.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TracesConfig {
    /// `http://HOST[:PORT][/PATH]` or the same with `https`; no traces are recorded when absent.
    pub endpoint: Option<String>,
    /// Share of calls recorded, 0 to 1, of those whose clients say nothing of it: 1.
    pub sample: f64,
}

impl Default for TracesConfig {
    fn default() -> Self {
        Self {
            endpoint: None,
            sample: OTLP_SAMPLE,
        }
    }
}

impl fmt::Debug for TracesConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a password, until it is refused.
        formatter
            .debug_struct("TracesConfig")
            .field("endpoint", &self.endpoint.as_ref().map(|_| "given"))
            .field("sample", &self.sample)
            .finish()
    }
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one object a line.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_members_take_defaults() {
        let config = RouterConfig::from_json(r#"{"listen": {"http": null}}"#).unwrap();
        assert_eq!(config.listen.http, None);
        assert_eq!(config.listen.grpc.as_deref(), Some("127.0.0.1:50051"));
        assert_eq!(config.limits.max_message_bytes, 4 << 20);
    }

    #[test]
    fn a_request_may_have_the_deadline_that_it_has_by_default() {
        let longest = |json| {
            let limits = RouterConfig::from_json(json).unwrap().limits;
            std::time::Duration::from_secs_f64(limits.max_deadline_s).as_secs()
        };
        assert_eq!(longest(r#"{"limits": {"default_deadline_s": 7200}}"#), 7200);
        assert_eq!(longest("{}"), 1800);
    }

    #[test]
    fn unknown_members_and_negative_times_are_refused_by_name() {
        let error = RouterConfig::from_json(r#"{"limits": {"max_waitin": 1}}"#).unwrap_err();
        assert!(error.to_string().contains("max_waitin"), "{error}");
        let error = RouterConfig::from_json(r#"{"workers": {"wait_s": -1}}"#).unwrap_err();
        assert!(
            error.to_string().contains("workers.wait_s: given -1"),
            "{error}"
        );
        let error = RouterConfig::from_json(r#"{"traces": {"sample": 1.5}}"#).unwrap_err();
        assert!(error.to_string().contains("--otlp-sample"), "{error}");
    }
}
