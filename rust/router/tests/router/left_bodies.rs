//! Bodies of HTTP requests that no handler reads: the connection is of use afterwards, or says that it ends.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{TestRouter, within};

/// A connection of one client.
struct Connection(TcpStream);

impl Connection {
    async fn open(router: &TestRouter) -> Self {
        let address = router.bound.http.as_ref().unwrap();
        Self(within(TcpStream::connect(address)).await.unwrap())
    }

    async fn send(&mut self, text: &str) {
        within(self.0.write_all(text.as_bytes())).await.unwrap();
    }

    /// Head and body of the next answer.
    async fn answer(&mut self) -> String {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            bytes.push(within(self.0.read_u8()).await.unwrap());
        }
        let head = String::from_utf8(bytes).unwrap();
        let mut fields = head.lines();
        let length = fields.find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        within(self.0.read_exact(&mut body)).await.unwrap();
        head + &String::from_utf8(body).unwrap()
    }

    /// Whether it takes another request.
    async fn goes_on(&mut self) -> bool {
        self.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        self.answer().await.starts_with("HTTP/1.1 200")
    }
}

fn head(call: &str, fields: &str) -> String {
    format!("{call} HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n")
}

fn says_close(answer: &str) -> bool {
    answer.contains("connection: close\r\n")
}

const CALLS: [(&str, &str); 3] = [
    ("POST /v1/responses", "404"),
    ("POST /v1/models", "405"),
    ("DELETE /v1/chat/completions", "405"),
];

#[tokio::test]
async fn connection_is_of_use_after_a_small_body_that_nobody_read() {
    let router = TestRouter::start().await;
    let mut connection = Connection::open(&router).await;
    let text = "a".repeat(60_000);
    let length = format!("content-length: {}\r\n", text.len());
    let chunked = format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len());
    for (call, status) in CALLS {
        for (fields, body) in [
            (&*length, &text),
            ("transfer-encoding: chunked\r\n", &chunked),
        ] {
            connection.send(&(head(call, fields) + body)).await;
            let answer = connection.answer().await;
            assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
            assert!(!says_close(&answer), "{answer}");
            assert!(connection.goes_on().await, "{call}");
        }
    }
}

#[tokio::test]
async fn connection_after_a_refused_key_is_of_use_too() {
    let router = TestRouter::with_keys("sesame ann\n").await;
    let mut connection = Connection::open(&router).await;
    let call = head("POST /v1/chat/completions", "content-length: 2\r\n") + "{}";
    connection.send(&call).await;
    let answer = connection.answer().await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert!(!says_close(&answer) && connection.goes_on().await);
}

#[tokio::test]
async fn answer_says_that_the_connection_ends_where_its_body_does_not_come() {
    let router = TestRouter::start().await;
    for (call, status) in CALLS {
        for fields in [
            "content-length: 20\r\n",
            "content-length: 100000000\r\n",
            "content-length: 20\r\nexpect: 100-continue\r\n",
            "transfer-encoding: chunked\r\n",
        ] {
            let mut connection = Connection::open(&router).await;
            connection.send(&head(call, fields)).await;
            let answer = connection.answer().await;
            assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
            assert!(says_close(&answer), "{fields}: {answer}");
            let mut rest = Vec::new();
            within(connection.0.read_to_end(&mut rest)).await.unwrap();
            assert!(rest.is_empty(), "{rest:?}");
        }
    }
}
