//! Spans that wait and times of calls, and the task that sends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prost::Message as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout_at};
use tokio_util::sync::CancellationToken;

use super::counts::OtlpMetrics;
use super::endpoint::Endpoint;
use super::measures::{Measured, Measures};
use super::messages::{
    Attributes, ExportTraceServiceRequest, Resource, ResourceSpans, Scope, ScopeSpans, Span,
};
use super::post::{Collector, Trouble};
use crate::error::RouterError;

/// Spans and events that may wait, those of a batch on its way included; about 16 MiB.
const MAX_HELD: usize = 1 << 16;
/// Spans and events of one batch, but for what its last call brings beyond.
const MAX_BATCH: usize = 1 << 12;
/// How long the first call of a batch waits for others.
const GATHERING: Duration = Duration::from_secs(1);
/// The same once the router has closed: calls end a little after their last token.
const LAST_GATHERING: Duration = Duration::from_millis(200);
/// How often the times of calls are sent: they are totals, so that nothing is lost with one.
const MEASURES_EVERY: Duration = Duration::from_secs(60);
/// Pauses between attempts to send a batch.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];

/// Where calls leave their spans. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Exporter {
    queue: mpsc::UnboundedSender<Vec<Span>>,
    /// Spans and events that wait: what bounds the queue.
    held: Arc<AtomicUsize>,
    measures: Arc<Measures>,
    counts: OtlpMetrics,
}

/// What sends the spans that an [`Exporter`] takes.
pub(crate) struct Sending {
    queue: mpsc::UnboundedReceiver<Vec<Span>>,
    held: Arc<AtomicUsize>,
    measures: Arc<Measures>,
    counts: OtlpMetrics,
    collector: Collector,
    shown: String,
    metrics_shown: String,
    /// Tells this router's spans from those of others.
    instance: String,
    /// Whether the last batch was dropped.
    is_failing: bool,
    /// Whether the collector did not take the last times of calls.
    refuses_measures: bool,
}

impl Exporter {
    /// An exporter, and what must run for its spans to be sent.
    ///
    /// # Errors
    /// [`RouterError::Config`] where TLS is asked for and the system knows no authorities.
    pub(crate) fn new(
        endpoint: Endpoint,
        counts: OtlpMetrics,
    ) -> Result<(Self, Sending), RouterError> {
        let (sender, queue) = mpsc::unbounded_channel();
        let held = Arc::new(AtomicUsize::new(0));
        let measures = Arc::new(Measures::new());
        let exporter = Self {
            queue: sender,
            held: held.clone(),
            measures: measures.clone(),
            counts: counts.clone(),
        };
        let sending = Sending {
            queue,
            held,
            measures,
            counts,
            shown: endpoint.to_string(),
            metrics_shown: endpoint.of_metrics(),
            instance: uuid::Uuid::new_v4().to_string(),
            collector: Collector::new(endpoint)?,
            is_failing: false,
            refuses_measures: false,
        };
        Ok((exporter, sending))
    }

    /// Takes the times of a call, recorded or not.
    pub(crate) fn measure(&self, call: Measured) {
        self.measures.add(call);
    }

    /// Takes the spans of a call; they are dropped where too many wait.
    pub(crate) fn offer(&self, spans: Vec<Span>) {
        let (size, count) = (size(&spans), spans.len());
        if self.held.fetch_add(size, Ordering::Relaxed) + size > MAX_HELD {
            self.held.fetch_sub(size, Ordering::Relaxed);
            self.counts.dropped("queue", count);
        } else if self.queue.send(spans).is_err() {
            self.held.fetch_sub(size, Ordering::Relaxed);
            self.counts.dropped("closed", count);
        }
    }
}

impl Sending {
    /// Sends batches until `closing`, then what is left, once. One that broke off can run again:
    /// only the batch that it had is lost, and counted so.
    pub(crate) async fn run(&mut self, closing: &CancellationToken) {
        let mut turns = interval_at(Instant::now() + MEASURES_EVERY, MEASURES_EVERY);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let first = tokio::select! {
                first = self.queue.recv() => first,
                _ = turns.tick() => {
                    closing.run_until_cancelled(self.send_measures()).await;
                    continue;
                }
                () = closing.cancelled() => break,
            };
            let Some(first) = first else { return };
            let batch = self.gather(first, GATHERING, Some(closing)).await;
            self.send(batch, closing).await;
        }
        loop {
            let batch = self.gather(Vec::new(), LAST_GATHERING, None).await;
            if batch.is_empty() {
                break;
            }
            self.send(batch, closing).await;
        }
        self.send_measures().await;
    }

    /// Sends the times of calls, once: the next ones hold them too.
    async fn send_measures(&mut self) {
        let Some(request) = self.measures.request(resource(&self.instance), scope()) else {
            return;
        };
        let bytes = bytes::Bytes::from(request.encode_to_vec());
        let trouble = self.collector.post_metrics(bytes).await.err();
        let had_refused = std::mem::replace(&mut self.refuses_measures, trouble.is_some());
        match trouble {
            None if had_refused => {
                tracing::info!(collector = %self.metrics_shown, "the collector takes metrics again");
            }
            Some(reason) if !had_refused => {
                tracing::warn!(collector = %self.metrics_shown, %reason,
                    "the collector takes no metrics: they are offered to it each minute");
            }
            _ => {}
        }
    }

    /// What comes within `time`, or until the router closes, up to a batch.
    async fn gather(
        &mut self,
        mut batch: Vec<Span>,
        time: Duration,
        closing: Option<&CancellationToken>,
    ) -> Vec<Span> {
        let end = Instant::now() + time;
        while size(&batch) < MAX_BATCH {
            let next = timeout_at(end, self.queue.recv());
            let next = match closing {
                Some(closing) => closing.run_until_cancelled(next).await,
                None => Some(next.await),
            };
            let Some(Ok(Some(spans))) = next else { break };
            batch.extend(spans);
        }
        batch
    }

    async fn send(&mut self, batch: Vec<Span>, closing: &CancellationToken) {
        let mut underway = Underway {
            held: self.held.clone(),
            counts: self.counts.clone(),
            size: size(&batch),
            count: batch.len(),
            is_settled: false,
        };
        let count = batch.len();
        let bytes = bytes::Bytes::from(request(batch, &self.instance).encode_to_vec());
        let mut pauses = PAUSES.iter();
        let trouble = loop {
            let trouble = match self.collector.post(bytes.clone()).await {
                Ok(()) => break None,
                Err(refused @ Trouble::Refused(_)) => break Some(refused),
                Err(trouble) => trouble,
            };
            let pause = pauses.next().map(|pause| tokio::time::sleep(*pause));
            let paused = match pause {
                Some(pause) => closing.run_until_cancelled(pause).await,
                None => None,
            };
            if paused.is_none() {
                break Some(trouble);
            }
        };
        underway.is_settled = true;
        let had_failed = std::mem::replace(&mut self.is_failing, trouble.is_some());
        match trouble {
            None => {
                self.counts.sent(count);
                if had_failed {
                    tracing::info!(collector = %self.shown, "the collector takes traces again");
                }
            }
            Some(reason) => {
                self.counts.dropped("collector", count);
                if !had_failed {
                    tracing::warn!(collector = %self.shown, %reason, spans = count,
                        "the collector takes no traces: they are dropped until it does");
                }
            }
        }
    }
}

/// A batch on its way: it is no longer held once this is gone, whatever became of it.
struct Underway {
    held: Arc<AtomicUsize>,
    counts: OtlpMetrics,
    size: usize,
    count: usize,
    /// Whether its end was counted.
    is_settled: bool,
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.held.fetch_sub(self.size, Ordering::Relaxed);
        if !self.is_settled {
            self.counts.dropped("broken_off", self.count);
        }
    }
}

/// Spans and their events.
fn size(spans: &[Span]) -> usize {
    spans.iter().map(|span| 1 + span.events.len()).sum()
}

fn request(spans: Vec<Span>, instance: &str) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource(instance)),
            scopes: vec![ScopeSpans {
                scope: Some(scope()),
                spans,
            }],
        }],
    }
}

fn resource(instance: &str) -> Resource {
    let mut attributes = Attributes::default();
    attributes.text("service.name", "spectrie");
    attributes.text("service.version", env!("CARGO_PKG_VERSION"));
    attributes.text("service.instance.id", instance);
    Resource {
        attributes: attributes.all(),
    }
}

fn scope() -> Scope {
    Scope {
        name: "spectrie.router".into(),
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncBufReadExt as _;

    use super::*;
    use crate::metrics::Metrics;

    fn exporter(metrics: &Metrics) -> (Exporter, Sending) {
        // Nothing listens there, and nothing is asked for.
        let endpoint = Endpoint::parse("http://127.0.0.1:1").unwrap();
        Exporter::new(endpoint, metrics.otlp.clone()).unwrap()
    }

    #[test]
    fn full_queue_drops_whole_calls_and_counts_their_spans() {
        let metrics = Metrics::new();
        let (exporter, sending) = exporter(&metrics);
        for _ in 0..MAX_HELD / 2 {
            exporter.offer(vec![Span::default(); 2]);
        }
        exporter.offer(vec![Span::default(); 3]);
        let text = metrics.encode().1;
        let line = "spectrie_otlp_dropped_spans_total{reason=\"queue\"} 3";
        assert!(text.contains(line), "{text}");
        drop(sending);
        // It has room, but no one sends.
        exporter.held.store(0, Ordering::Relaxed);
        exporter.offer(vec![Span::default()]);
        let text = metrics.encode().1;
        assert!(text.contains("{reason=\"closed\"} 1"), "{text}");
    }

    /// A collector that answers nothing by itself, and an exporter that sends to it.
    async fn collected() -> (tokio::net::TcpListener, Metrics, Exporter, Sending) {
        let collector = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", collector.local_addr().unwrap());
        let endpoint = Endpoint::parse(&address).unwrap();
        let metrics = Metrics::new();
        let (exporter, sending) = Exporter::new(endpoint, metrics.otlp.clone()).unwrap();
        (collector, metrics, exporter, sending)
    }

    /// The first line of what comes next.
    async fn posted(collector: &tokio::net::TcpListener) -> String {
        let reading = async {
            let (stream, _) = collector.accept().await.unwrap();
            let mut line = String::new();
            let mut stream = tokio::io::BufReader::new(stream);
            stream.read_line(&mut line).await.unwrap();
            line
        };
        let patience = Duration::from_secs(20);
        tokio::time::timeout(patience, reading).await.unwrap()
    }

    fn call() -> Measured {
        Measured {
            operation: "chat",
            model: None,
            failure: None,
            request_s: 1.0,
            first_token_s: None,
            per_token_s: None,
        }
    }

    #[tokio::test]
    async fn times_of_calls_are_sent_each_minute() {
        let (collector, _, exporter, mut sending) = collected().await;
        exporter.measure(call());
        let closing = CancellationToken::new();
        let closes = closing.clone();
        let ended = tokio::spawn(async move { sending.run(&closes).await });
        tokio::task::yield_now().await;
        for _ in 0..2 {
            tokio::time::pause();
            tokio::time::advance(MEASURES_EVERY).await;
            tokio::time::resume();
            let line = posted(&collector).await;
            assert!(line.starts_with("POST /v1/metrics "), "{line}");
        }
        closing.cancel();
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn times_of_calls_are_sent_at_the_end_though_neither_they_nor_traces_were_taken() {
        let (collector, _, exporter, mut sending) = collected().await;
        sending.is_failing = true;
        sending.refuses_measures = true;
        exporter.measure(call());
        let closing = CancellationToken::new();
        closing.cancel();
        let (line, ()) = tokio::join!(posted(&collector), sending.run(&closing));
        assert!(line.starts_with("POST /v1/metrics "), "{line}");
        assert!(sending.refuses_measures, "nothing was answered");
    }

    #[tokio::test]
    async fn a_batch_that_is_broken_off_counts_and_makes_room() {
        let (collector, metrics, exporter, mut sending) = collected().await;
        exporter.offer(vec![Span::default(); 3]);
        let closing = CancellationToken::new();
        closing.cancel();
        // It takes the batch's connection and answers nothing.
        tokio::select! {
            () = sending.run(&closing) => panic!("the batch cannot have been sent"),
            connected = collector.accept() => drop(connected.unwrap()),
        }
        assert_eq!(exporter.held.load(Ordering::Relaxed), 0);
        let text = metrics.encode().1;
        assert!(text.contains("{reason=\"broken_off\"} 3"), "{text}");
    }
}
