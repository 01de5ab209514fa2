//! gRPC calls whose body never ends.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

/// A body that sends `bytes` and then nothing.
pub struct HalfBody(Option<Bytes>);

impl Body for HalfBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.0.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None => Poll::Pending,
        }
    }
}

/// One HTTP/2 connection.
#[derive(Clone)]
pub struct HalfCaller {
    sender: SendRequest<HalfBody>,
    address: String,
}

impl HalfCaller {
    pub async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        Self {
            sender,
            address: address.to_owned(),
        }
    }

    /// Begins a call of `path` with `bytes` of its body; the headers of the answer.
    pub async fn call(&mut self, path: &str, key: Option<&str>, bytes: Vec<u8>) -> HeaderMap {
        let mut request = Request::post(format!("http://{}{path}", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request.body(HalfBody(Some(bytes.into()))).unwrap();
        let answer: http::Response<Incoming> = self.sender.send_request(request).await.unwrap();
        answer.headers().clone()
    }
}

/// The first `sent` bytes of a message that says it has `declared`.
pub fn half_message(declared: u32, sent: usize) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(declared.to_be_bytes());
    bytes.resize(5 + sent, b'a');
    bytes
}

/// The code of an answer without a message, as a number.
pub fn code(headers: &HeaderMap) -> Option<tonic::Code> {
    let status = tonic::Status::from_header_map(headers)?;
    Some(status.code())
}
