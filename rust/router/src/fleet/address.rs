//! Where Redis is.

use std::fmt;
use std::str::FromStr as _;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion};

use crate::error::RouterError;

/// An address of Redis, shown without its password.
#[derive(Clone)]
pub(super) struct Address(ConnectionInfo);

impl Address {
    /// Reads `unix:PATH`, `redis://[USER:PASSWORD@]HOST[:PORT][/DB]` or the same with `rediss`.
    ///
    /// # Errors
    /// [`RouterError::Config`], without the address: it may hold a password.
    pub(super) fn parse(given: &str) -> Result<Self, RouterError> {
        let refuse = || {
            RouterError::Config(
                "fleet.redis (--redis): it cannot be read; allowed: unix:PATH, \
                 redis://[USER:PASSWORD@]HOST[:PORT][/DB] or rediss://… for TLS"
                    .into(),
            )
        };
        let info = match given.strip_prefix("unix:") {
            Some("") => return Err(refuse()),
            Some(path) => ConnectionAddr::Unix(path.into()).into_connection_info(),
            None if given.starts_with("redis://") || given.starts_with("rediss://") => {
                ConnectionInfo::from_str(given)
            }
            None => return Err(refuse()),
        };
        let info = info.map_err(|_| refuse())?;
        if matches!(info.addr(), ConnectionAddr::TcpTls { insecure: true, .. }) {
            return Err(refuse());
        }
        let settings = info.redis_settings().clone();
        let settings = settings
            .set_protocol(ProtocolVersion::RESP2)
            .set_skip_set_lib_name();
        Ok(Self(info.set_redis_settings(settings)))
    }

    pub(super) fn info(&self) -> ConnectionInfo {
        self.0.clone()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.addr() {
            ConnectionAddr::Unix(path) => write!(formatter, "unix:{}", path.display()),
            ConnectionAddr::TcpTls { host, port, .. } => {
                write!(formatter, "rediss://{host}:{port}")
            }
            ConnectionAddr::Tcp(host, port) => write!(formatter, "redis://{host}:{port}"),
            _ => formatter.write_str("redis"),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_passwords() {
        for (given, shown) in [
            ("unix:/run/redis.sock", "unix:/run/redis.sock"),
            ("redis://127.0.0.1", "redis://127.0.0.1:6379"),
            ("redis://ann:secret@host:7000/2", "redis://host:7000"),
            ("rediss://:secret@host:7000", "rediss://host:7000"),
        ] {
            let address = Address::parse(given).unwrap();
            assert_eq!(address.to_string(), shown);
            assert!(!format!("{address:?}").contains("secret"));
        }
    }

    #[test]
    fn other_addresses_are_refused_without_repeating_them() {
        for given in [
            "",
            "unix:",
            "host:6379",
            "http://secret",
            "redis://ann:secret@host:x",
            "rediss://ann:secret@host/#insecure",
        ] {
            let error = Address::parse(given).unwrap_err().to_string();
            assert!(
                error.contains("--redis") && !error.contains("secret"),
                "{given}: {error}"
            );
        }
    }
}
