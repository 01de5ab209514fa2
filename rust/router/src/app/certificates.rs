//! The certificates of every kind of listener.

use tokio::task::JoinSet;

use crate::config::TlsConfig;
use crate::error::RouterError;
use crate::listen::{ALPN_HTTP1, ALPN_HTTP2, Audience, Tls};

/// What each kind of listener proves; none without certificates.
pub(super) struct Certificates {
    pub(super) http: Option<Tls>,
    /// Of clients' and operators' gRPC.
    pub(super) grpc: Option<Tls>,
    pub(super) workers: Option<Tls>,
}

impl Certificates {
    /// Reads them.
    ///
    /// # Errors
    /// As [`Tls::load`].
    pub(super) fn load(config: &TlsConfig) -> Result<Self, RouterError> {
        let grpc: &[&[u8]] = &[ALPN_HTTP2];
        Ok(Self {
            http: Tls::load(config, Audience::Clients, &[ALPN_HTTP2, ALPN_HTTP1])?,
            grpc: Tls::load(config, Audience::Clients, grpc)?,
            workers: Tls::load(config, Audience::Workers, grpc)?,
        })
    }

    /// Reads them again while serving, until what it returns is dropped.
    pub(super) fn follow(self) -> JoinSet<()> {
        let all = [self.http, self.grpc, self.workers];
        all.into_iter().flatten().map(Tls::follow).collect()
    }
}
