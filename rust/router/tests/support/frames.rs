//! HTTP/2 by hand: frames as no client sends them.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// One frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Header fields of a gRPC call, each written out.
pub fn call_fields(path: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text.as_bytes());
        }
    }
    block
}

/// A connection after its preface, which reads and forgets what the server says.
pub struct RawConnection {
    writer: tokio::net::tcp::OwnedWriteHalf,
    reading: tokio::task::JoinHandle<u64>,
}

impl RawConnection {
    pub async fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut reader, mut writer) = stream.into_split();
        writer.write_all(PREFACE).await.unwrap();
        writer.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            let mut total = 0;
            while let Ok(count @ 1..) = reader.read(&mut buffer).await {
                total += count as u64;
            }
            total
        });
        Self { writer, reading }
    }

    /// Sends; false once the server has hung up.
    pub async fn send(&mut self, bytes: &[u8]) -> bool {
        !self.reading.is_finished() && self.writer.write_all(bytes).await.is_ok()
    }
}

impl Drop for RawConnection {
    fn drop(&mut self) {
        self.reading.abort();
    }
}
