//! Certificates made for a test, and peers that show them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};

/// An authority and its folder.
pub struct Authority {
    pub folder: PathBuf,
    pub file: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

/// Files of a certificate and its key.
#[derive(Clone)]
pub struct Issued {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("spectrie-ca-{:x}", rand::random::<u64>()));
        std::fs::create_dir(&folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let file = folder.join("ca.pem");
        std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        Self {
            file,
            folder,
            issuer: Issuer::new(params, key),
        }
    }

    /// A new certificate in the files of `name`, which it replaces.
    pub fn issue(&self, name: &str) -> Issued {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names).unwrap();
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let issued = Issued {
            cert: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}.key")),
        };
        std::fs::write(&issued.cert, cert.pem()).unwrap();
        std::fs::write(&issued.key, key.serialize_pem()).unwrap();
        issued
    }

    /// A TLS connection to `address` by `protocol`, showing `own` where given.
    pub async fn connect(
        &self,
        address: &str,
        protocol: &str,
        own: Option<&Issued>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let config = client_config(&self.file, protocol, own);
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }

    /// A gRPC channel over [`Self::connect`].
    pub async fn channel(
        &self,
        address: &str,
        own: Option<&Issued>,
    ) -> Result<Channel, tonic::transport::Error> {
        let config = Arc::new(client_config(&self.file, "h2", own));
        let address = address.to_owned();
        let connector = tower::service_fn(move |_| {
            let (config, address) = (config.clone(), address.clone());
            async move {
                let stream = TcpStream::connect(address).await?;
                let name = ServerName::try_from("localhost").unwrap();
                let stream = TlsConnector::from(config).connect(name, stream).await?;
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        });
        Endpoint::from_static("http://localhost")
            .connect_with_connector(connector)
            .await
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn client_config(authority: &Path, protocol: &str, own: Option<&Issued>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(authority).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        Some(own) => {
            let chain = vec![CertificateDer::from_pem_file(&own.cert).unwrap()];
            let key = PrivateKeyDer::from_pem_file(&own.key).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    config
}
