//! Certificates of listeners, read again while serving.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::config::TlsConfig;
use crate::error::RouterError;

/// How often the files are read again: a renewed certificate is in use within this time.
const POLL: Duration = Duration::from_secs(2);

const CERT_OPTION: &str = "--tls-cert";
const KEY_OPTION: &str = "--tls-key";

/// Whom a listener serves, which decides whose certificates it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Clients and operators, by HTTP or gRPC.
    Clients,
    /// Workers.
    Workers,
}

/// The certificates of one listener. Cheap to clone; copies see the same reloads.
#[derive(Clone)]
pub(crate) struct Tls {
    files: Arc<Files>,
    current: Arc<RwLock<Loaded>>,
}

/// Where certificates are.
#[derive(Debug)]
struct Files {
    cert: PathBuf,
    key: PathBuf,
    /// Authority whose certificates peers must show, and its option.
    peers: Option<(PathBuf, &'static str)>,
    protocols: &'static [&'static [u8]],
}

/// What the files held.
struct Loaded {
    contents: Vec<Vec<u8>>,
    acceptor: TlsAcceptor,
}

impl Tls {
    /// The certificates of `config` for `audience`; none when it names none. `protocols` is what
    /// the listener speaks, as ALPN names it, best first.
    ///
    /// # Errors
    /// [`RouterError::Config`] for a certificate without key, or the reverse;
    /// [`RouterError::File`] for a file that cannot be used.
    pub(crate) fn load(
        config: &TlsConfig,
        audience: Audience,
        protocols: &'static [&'static [u8]],
    ) -> Result<Option<Self>, RouterError> {
        let authority = match audience {
            Audience::Clients => (&config.client_ca, "--tls-client-ca"),
            Audience::Workers => (&config.worker_ca, "--tls-worker-ca"),
        };
        let (cert, key) = match (&config.cert, &config.key) {
            (Some(cert), Some(key)) => (cert.clone(), key.clone()),
            (None, None) if config.client_ca.is_none() && config.worker_ca.is_none() => {
                return Ok(None);
            }
            _ => {
                let message = "tls: set tls.cert (--tls-cert) and tls.key (--tls-key) together, \
                               and both where an authority is set";
                return Err(RouterError::Config(message.into()));
            }
        };
        let (authority, option) = authority;
        let files = Files {
            cert,
            key,
            peers: authority.clone().map(|authority| (authority, option)),
            protocols,
        };
        let loaded = files.load(files.read()?)?;
        Ok(Some(Self {
            files: Arc::new(files),
            current: Arc::new(RwLock::new(loaded)),
        }))
    }

    /// Accepts with the certificates in force.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        match self.current.read() {
            Ok(loaded) => loaded.acceptor.clone(),
            Err(poisoned) => poisoned.into_inner().acceptor.clone(),
        }
    }

    /// Reads the files again and again, without an end. New ones serve new connections; files that
    /// cannot be used leave those in force, and are reported once.
    pub(crate) async fn follow(self) {
        let mut refused = None;
        loop {
            tokio::time::sleep(POLL).await;
            let tls = self.clone();
            let Ok(contents) = tokio::task::spawn_blocking(move || tls.files.read()).await else {
                continue;
            };
            if let Err(error) = self.renew(contents) {
                let message = error.to_string();
                if refused.as_ref() != Some(&message) {
                    tracing::warn!(error = %message, "certificates are not renewed");
                    refused = Some(message);
                }
            } else {
                refused = None;
            }
        }
    }

    fn renew(&self, contents: Result<Vec<Vec<u8>>, RouterError>) -> Result<(), RouterError> {
        let contents = contents?;
        let is_same = match self.current.read() {
            Ok(loaded) => loaded.contents == contents,
            Err(poisoned) => poisoned.into_inner().contents == contents,
        };
        if is_same {
            return Ok(());
        }
        let loaded = self.files.load(contents)?;
        match self.current.write() {
            Ok(mut current) => *current = loaded,
            Err(poisoned) => *poisoned.into_inner() = loaded,
        }
        tracing::info!(cert = %self.files.cert.display(), "certificates renewed");
        Ok(())
    }
}

impl Files {
    /// The bytes of every file.
    fn read(&self) -> Result<Vec<Vec<u8>>, RouterError> {
        let mut paths = vec![(&self.cert, CERT_OPTION), (&self.key, KEY_OPTION)];
        paths.extend(self.peers.iter().map(|(path, option)| (path, *option)));
        let read = |(path, option): (&PathBuf, &'static str)| {
            std::fs::read(path).map_err(|error| refused(path, option, error.to_string()))
        };
        paths.into_iter().map(read).collect()
    }

    fn load(&self, contents: Vec<Vec<u8>>) -> Result<Loaded, RouterError> {
        let chain = certificates(&self.cert, CERT_OPTION, &contents[0])?;
        let key = PrivateKeyDer::from_pem_slice(&contents[1])
            .map_err(|error| refused(&self.key, KEY_OPTION, format!("no private key: {error}")))?;
        let provider = Arc::new(ring::default_provider());
        let failed = |error: rustls::Error| refused(&self.cert, CERT_OPTION, error.to_string());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(failed)?;
        let builder = match &self.peers {
            Some((path, option)) => {
                let verifier = verifier(path, option, &contents[2], provider)?;
                builder.with_client_cert_verifier(verifier)
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(failed)?;
        config.alpn_protocols = self.protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Loaded {
            contents,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }
}

/// Takes peers whose certificates the authority of a file signed.
fn verifier(
    path: &Path,
    option: &'static str,
    content: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, RouterError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(path, option, content)? {
        let added = roots.add(authority);
        added.map_err(|error| refused(path, option, error.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| refused(path, option, error.to_string()))
}

/// The certificates of a PEM file; at least one.
fn certificates(
    path: &Path,
    option: &'static str,
    content: &[u8],
) -> Result<Vec<CertificateDer<'static>>, RouterError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    let read = read.map_err(|error| refused(path, option, error.to_string()))?;
    if read.is_empty() {
        return Err(refused(path, option, "it holds no certificate".into()));
    }
    Ok(read)
}

fn refused(path: &Path, option: &'static str, message: String) -> RouterError {
    RouterError::File {
        path: path.display().to_string(),
        option,
        message,
    }
}
