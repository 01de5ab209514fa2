//! Channels to the router, in clear or by TLS.

use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

use crate::Failure;

/// A channel to `unix:PATH` or `HOST:PORT`, by TLS where `authority` names a certificate to trust.
pub(crate) async fn connect(address: &str, authority: Option<&str>) -> Result<Channel, Failure> {
    if let Some(path) = address.strip_prefix("unix:") {
        let path = path.to_owned();
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        return Ok(endpoint.connect_with_connector(connector).await?);
    }
    let Some(authority) = authority else {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        return Ok(endpoint.connect().await?);
    };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (connector, address) = (TlsConnector::from(Arc::new(config)), address.to_owned());
    let connector = tower::service_fn(move |_| {
        let (connector, address) = (connector.clone(), address.clone());
        async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::try_from("localhost").map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>(TokioIo::new(connector.connect(name, stream).await?))
        }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    Ok(endpoint.connect_with_connector(connector).await?)
}
