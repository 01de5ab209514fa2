//! A collector of traces and metrics on a real socket. It reads OTLP by field numbers of its own, so that a slip
//! in the router's messages is seen.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use super::within;

/// A span as a collector shows it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub name: String,
    pub kind: i32,
    pub start: u64,
    pub end: u64,
    pub attributes: BTreeMap<String, String>,
    pub events: Vec<(String, BTreeMap<String, String>)>,
    /// 2 for an error.
    pub status: i32,
}

/// Times of calls as a collector shows them: one histogram.
#[derive(Clone, Debug)]
pub struct Times {
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    pub count: u64,
    pub sum_s: f64,
    /// In each bucket.
    pub counts: Vec<u64>,
    pub bounds: Vec<f64>,
}

/// A collector that runs.
pub struct Collector {
    /// `http://HOST:PORT`.
    pub endpoint: String,
    spans: UnboundedReceiver<Vec<Seen>>,
    times: UnboundedReceiver<Vec<Times>>,
    serving: JoinHandle<()>,
}

impl Collector {
    /// Starts one that answers each batch with the next of `statuses`, the last one for ever.
    pub async fn start(statuses: &'static [u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (sender, spans) = unbounded_channel();
        let (of_metrics, times) = unbounded_channel();
        let serving = tokio::spawn(async move {
            for index in 0.. {
                let (mut stream, _) = listener.accept().await.unwrap();
                let status = statuses[index.min(statuses.len() - 1)];
                let (path, body) = read_post(&mut stream).await;
                match path.as_str() {
                    _ if status != 200 => {}
                    "/v1/traces" => drop(sender.send(read(&body))),
                    "/v1/metrics" => drop(of_metrics.send(read_metrics(&body))),
                    other => panic!("a post to {other}"),
                }
                let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self {
            endpoint,
            spans,
            times,
            serving,
        }
    }

    /// All spans up to the one of a call through which `is_last` holds.
    pub async fn until(&mut self, is_last: impl Fn(&Seen) -> bool) -> Vec<Seen> {
        let mut all = Vec::new();
        within(async {
            while !all.iter().any(&is_last) {
                all.extend(self.spans.recv().await.expect("the collector ended"));
            }
        })
        .await;
        all
    }

    /// The metrics that came last.
    pub fn last_times(&mut self) -> Vec<Times> {
        let mut last = Vec::new();
        while let Ok(times) = self.times.try_recv() {
            last = times;
        }
        last
    }

    /// What came and was not read.
    pub fn rest(&mut self) -> Vec<Seen> {
        let mut all = Vec::new();
        while let Ok(spans) = self.spans.try_recv() {
            all.extend(spans);
        }
        all
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The path and the body of a post.
async fn read_post(stream: &mut tokio::net::TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    let end = |bytes: &[u8]| bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let head = loop {
        if let Some(end) = end(&bytes) {
            break end;
        }
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0);
    };
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let text = text.to_lowercase();
    let path = text
        .strip_prefix("post ")
        .and_then(|rest| rest.split_once(" http/1.1"))
        .map(|(path, _)| path.to_owned());
    assert!(
        text.contains("content-type: application/x-protobuf"),
        "{text}"
    );
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.unwrap().parse().unwrap();
    while bytes.len() < head + 4 + length {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0);
    }
    (path.expect("a post"), bytes.split_off(head + 4))
}

/// The histograms of a post of metrics.
fn read_metrics(body: &[u8]) -> Vec<Times> {
    let mut all = Vec::new();
    for resource_metrics in messages(body, 1) {
        let resource = &messages(&resource_metrics, 1)[0];
        assert_eq!(attributes(resource, 1)["service.name"], "spectrie");
        for scope_metrics in messages(&resource_metrics, 2) {
            for metric in messages(&scope_metrics, 2) {
                let name = String::from_utf8(messages(&metric, 1)[0].clone()).unwrap();
                assert_eq!(messages(&metric, 3)[0], b"s", "the unit of {name}");
                let histogram = &messages(&metric, 9)[0];
                assert_eq!(varint(histogram, 2), 2, "totals since the start");
                all.extend(messages(histogram, 1).iter().map(|point| {
                    assert!(0 < fixed(point, 2) && fixed(point, 2) <= fixed(point, 3));
                    let name = name.clone();
                    times(name, point)
                }));
            }
        }
    }
    all
}

fn times(name: String, point: &[u8]) -> Times {
    let words = |number| -> Vec<[u8; 8]> {
        let packed = messages(point, number).concat();
        packed
            .chunks_exact(8)
            .map(|word| word.try_into().unwrap())
            .collect()
    };
    Times {
        name,
        attributes: attributes(point, 9),
        count: fixed(point, 4),
        sum_s: f64::from_bits(fixed(point, 5)),
        counts: words(6).into_iter().map(u64::from_le_bytes).collect(),
        bounds: words(7).into_iter().map(f64::from_le_bytes).collect(),
    }
}

/// The spans of a batch.
fn read(body: &[u8]) -> Vec<Seen> {
    let mut all = Vec::new();
    for resource_spans in messages(body, 1) {
        let resource = &messages(&resource_spans, 1)[0];
        assert_eq!(attributes(resource, 1)["service.name"], "spectrie");
        for scope_spans in messages(&resource_spans, 2) {
            all.extend(messages(&scope_spans, 2).iter().map(|bytes| span(bytes)));
        }
    }
    all
}

fn span(bytes: &[u8]) -> Seen {
    let texts = |number| messages(bytes, number).first().cloned().unwrap_or_default();
    let hex = |number| -> String {
        let bytes = texts(number);
        bytes.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    let events = messages(bytes, 11).into_iter().map(|event| {
        let name = String::from_utf8(messages(&event, 2)[0].clone()).unwrap();
        assert!(fixed(&event, 1) > 0);
        (name, attributes(&event, 3))
    });
    Seen {
        trace: hex(1),
        id: hex(2),
        parent: hex(4),
        name: String::from_utf8(texts(5)).unwrap(),
        kind: varint(bytes, 6) as i32,
        start: fixed(bytes, 7),
        end: fixed(bytes, 8),
        attributes: attributes(bytes, 9),
        events: events.collect(),
        status: varint(&texts(15), 3) as i32,
    }
}

/// Names and values, which are shown as texts.
fn attributes(bytes: &[u8], number: u32) -> BTreeMap<String, String> {
    let all = messages(bytes, number).into_iter().map(|pair| {
        let key = String::from_utf8(messages(&pair, 1)[0].clone()).unwrap();
        (key, value(&messages(&pair, 2)[0]))
    });
    all.collect()
}

fn value(bytes: &[u8]) -> String {
    if let Some(text) = messages(bytes, 1).first() {
        return String::from_utf8(text.clone()).unwrap();
    }
    if let Some(list) = messages(bytes, 5).first() {
        let values = messages(list, 1);
        return values
            .iter()
            .map(|one| value(one))
            .collect::<Vec<_>>()
            .join(",");
    }
    varint(bytes, 3).to_string()
}

/// One field of a message: its number, and its bytes or its number.
enum Field {
    Bytes(Vec<u8>),
    Number(u64),
    Other,
}

fn fields(bytes: &[u8]) -> Vec<(u32, Field)> {
    use prost::encoding::{WireType, decode_key, decode_varint};
    let mut left = bytes;
    let mut fields = Vec::new();
    while !left.is_empty() {
        let (number, wire) = decode_key(&mut left).unwrap();
        let field = match wire {
            WireType::Varint => Field::Number(decode_varint(&mut left).unwrap()),
            WireType::SixtyFourBit => {
                let (word, rest) = left.split_first_chunk::<8>().unwrap();
                left = rest;
                Field::Number(u64::from_le_bytes(*word))
            }
            WireType::ThirtyTwoBit => {
                left = &left[4..];
                Field::Other
            }
            WireType::LengthDelimited => {
                let length = decode_varint(&mut left).unwrap() as usize;
                let (value, rest) = left.split_at(length);
                left = rest;
                Field::Bytes(value.to_vec())
            }
            WireType::StartGroup | WireType::EndGroup => panic!("OTLP has no groups"),
        };
        fields.push((number, field));
    }
    fields
}

fn messages(bytes: &[u8], wanted: u32) -> Vec<Vec<u8>> {
    let all = fields(bytes).into_iter();
    let all = all.filter_map(|(number, field)| match field {
        Field::Bytes(bytes) if number == wanted => Some(bytes),
        _ => None,
    });
    all.collect()
}

fn varint(bytes: &[u8], wanted: u32) -> u64 {
    let all = fields(bytes).into_iter();
    let mut all = all.filter_map(|(number, field)| match field {
        Field::Number(value) if number == wanted => Some(value),
        _ => None,
    });
    all.next_back().unwrap_or(0)
}

/// The same, of a number of fixed width.
fn fixed(bytes: &[u8], wanted: u32) -> u64 {
    varint(bytes, wanted)
}
