//! Where the collector is.

use std::fmt;

use http::Uri;

use crate::error::RouterError;

/// Paths behind that of an endpoint.
const TRACES: &str = "/v1/traces";
const METRICS: &str = "/v1/metrics";
/// Port of OTLP over HTTP where an address names none.
const PORT: u16 = 4318;

/// A collector's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
    /// Where traces are posted.
    pub(super) traces: String,
    /// Where metrics are.
    pub(super) metrics: String,
    pub(super) is_tls: bool,
}

impl Endpoint {
    /// Reads `http://HOST[:PORT][/PATH]` or the same with `https`; traces go to `v1/traces` below it,
    /// metrics to `v1/metrics`.
    ///
    /// # Errors
    /// [`RouterError::Config`], without the address: it may hold a password.
    pub(crate) fn parse(given: &str) -> Result<Self, RouterError> {
        let refuse = || {
            RouterError::Config(
                "traces.endpoint (--otlp-endpoint): it cannot be read; allowed: \
                 http://HOST[:PORT][/PATH] or https://…, without user, password and query"
                    .into(),
            )
        };
        let uri: Uri = given.parse().map_err(|_| refuse())?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(refuse()),
        };
        let authority = uri.authority().ok_or_else(refuse)?;
        let host = authority.host();
        let rest = authority.as_str().strip_prefix(host).ok_or_else(refuse)?;
        let port = match rest.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|port| *port > 0),
            None => rest.is_empty().then_some(PORT),
        };
        let port = port.ok_or_else(refuse)?;
        if host.is_empty() || uri.query().is_some() {
            return Err(refuse());
        }
        let base = uri.path().trim_end_matches('/');
        let mut own = [TRACES, METRICS].iter();
        let base = own.find_map(|own| base.strip_suffix(own)).unwrap_or(base);
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            traces: format!("{base}{TRACES}"),
            metrics: format!("{base}{METRICS}"),
            is_tls,
        })
    }

    /// Where metrics are posted, in full.
    pub(super) fn of_metrics(&self) -> String {
        self.at(&self.metrics)
    }

    /// A path of it, in full.
    fn at(&self, path: &str) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.authority())
    }

    /// `HOST:PORT`.
    pub(super) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.at(&self.traces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_go_below_the_given_address() {
        for (given, shown) in [
            ("http://collector", "http://collector:4318/v1/traces"),
            ("http://10.0.0.1:80/", "http://10.0.0.1:80/v1/traces"),
            ("https://host:443/otlp", "https://host:443/otlp/v1/traces"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
            ("http://host/v1/traces", "http://host:4318/v1/traces"),
            ("http://host/v1/metrics", "http://host:4318/v1/traces"),
        ] {
            let endpoint = Endpoint::parse(given).unwrap();
            assert_eq!(endpoint.to_string(), shown);
            assert!(shown.ends_with(&endpoint.traces));
            let metrics = shown.replace("traces", "metrics");
            assert_eq!(endpoint.of_metrics(), metrics);
            assert!(metrics.ends_with(&endpoint.metrics));
        }
    }

    #[test]
    fn other_addresses_are_refused_without_repeating_them() {
        for given in [
            "",
            "secret",
            "secret:4318",
            "ftp://secret",
            "http://",
            "http://ann:secret@host",
            "http://host:secret",
            "http://host:0",
            "http://host:70000",
            "http://host/?key=secret",
            "http://ho st",
        ] {
            let error = Endpoint::parse(given).unwrap_err().to_string();
            assert!(
                error.contains("--otlp-endpoint") && !error.contains("secret"),
                "{given}: {error}"
            );
        }
    }
}
