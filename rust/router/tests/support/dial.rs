//! Channels to a router under test.

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// A channel to `unix:PATH` or `HOST:PORT`.
///
/// # Errors
/// `UNAVAILABLE` if nothing listens there.
pub async fn connect(address: &str) -> Result<Channel, Status> {
    let unavailable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
    let Some(path) = address.strip_prefix("unix:") else {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(unavailable)?;
        return endpoint.connect().await.map_err(unavailable);
    };
    let path = path.to_owned();
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
    });
    Endpoint::from_static("http://localhost")
        .connect_with_connector(connector)
        .await
        .map_err(unavailable)
}
