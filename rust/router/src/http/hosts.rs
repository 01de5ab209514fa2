//! Names that a listener answers to, against pages that make a browser take this machine for their
//! own (DNS rebinding).

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::StatusCode;
use http::header::HOST;

use super::error::HttpError;
use super::layers::PROBES;
use crate::error::{MAX_ECHO_BYTES, cut};

/// Names beside those of this machine; `*` is every name.
pub(super) type AllowedHosts = Arc<[String]>;

/// Refuses a request for another name. Probes answer by any: they say nothing that matters.
pub(super) async fn check_host(
    State(allowed): State<AllowedHosts>,
    request: Request,
    next: Next,
) -> Result<Response, HttpError> {
    let header = request.headers().get(HOST);
    let header = header.map(|value| String::from_utf8_lossy(value.as_bytes()));
    let authority = request.uri().authority();
    let given = header.or_else(|| authority.map(|authority| authority.as_str().into()));
    let is_probe = PROBES.contains(&request.uri().path());
    if is_probe
        || given
            .as_deref()
            .is_none_or(|given| is_allowed(given, &allowed))
    {
        return Ok(next.run(request).await);
    }
    let given = given.unwrap_or_default();
    Err(HttpError::new(
        StatusCode::FORBIDDEN,
        "permission_error",
        Some("host_not_allowed"),
        Some("host"),
        format!(
            "host: given {:?}; allowed without API keys: localhost, loopback addresses, and the \
             names of --allowed-hosts",
            cut(&given, MAX_ECHO_BYTES)
        ),
    ))
}

fn is_allowed(given: &str, allowed: &[String]) -> bool {
    let name = name(given);
    let is_own = name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    let is = |allowed: &String| allowed == "*" || name.eq_ignore_ascii_case(allowed);
    is_own || allowed.iter().any(is)
}

/// A `Host` value without its port.
fn name(given: &str) -> &str {
    let name = match given.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => given.rsplit_once(':').map_or(given, |(name, _)| name),
    };
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_and_those_of_the_option_are_allowed() {
        let allowed = ["llm.example".to_owned()];
        for host in [
            "localhost",
            "LocalHost:8000",
            "127.0.0.1:80",
            "127.8.9.1",
            "[::1]:8000",
            "localhost.:1",
            "llm.example:443",
        ] {
            assert!(is_allowed(host, &allowed), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "[::2]",
            "127.0.0.1.evil.example",
            "evil.example:127",
        ] {
            assert!(!is_allowed(host, &allowed), "{host}");
        }
        assert!(is_allowed("any", &["*".to_owned()]));
    }
}
