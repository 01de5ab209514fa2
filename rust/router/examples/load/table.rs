//! When each token of each stream was sent, and when it had come.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::Notify;

/// Of one stream.
#[derive(Default)]
struct Stream {
    num_sent: AtomicUsize,
    num_come: AtomicUsize,
}

/// Nanoseconds since it was made, by stream and token.
pub(crate) struct Table {
    begun: Instant,
    most: usize,
    streams: Vec<Stream>,
    sent: Vec<AtomicU64>,
    come: Vec<AtomicU64>,
    num_come: AtomicUsize,
    /// How many are waited for; rings once they have come.
    awaited: AtomicUsize,
    has_come: Notify,
}

impl Table {
    /// A table of so many streams of at most `most` tokens each; later tokens are counted, not timed.
    pub(crate) fn new(num_streams: usize, most: usize) -> Self {
        let times = || (0..num_streams * most).map(|_| AtomicU64::new(0)).collect();
        Self {
            begun: Instant::now(),
            most,
            streams: (0..num_streams).map(|_| Stream::default()).collect(),
            sent: times(),
            come: times(),
            num_come: AtomicUsize::new(0),
            awaited: AtomicUsize::new(usize::MAX),
            has_come: Notify::new(),
        }
    }

    pub(crate) fn num_streams(&self) -> usize {
        self.streams.len()
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// A token of a stream is handed over now.
    pub(crate) fn sends(&self, stream: usize) {
        let number = self.streams[stream]
            .num_sent
            .fetch_add(1, Ordering::Relaxed);
        if number < self.most {
            self.sent[stream * self.most + number].store(self.now(), Ordering::Relaxed);
        }
    }

    /// So many tokens of a stream have come now.
    pub(crate) fn comes(&self, stream: usize, count: usize) {
        let now = self.now();
        let first = self.streams[stream]
            .num_come
            .fetch_add(count, Ordering::Relaxed);
        for number in (first..first + count).take_while(|number| *number < self.most) {
            self.come[stream * self.most + number].store(now, Ordering::Relaxed);
        }
        let all = self.num_come.fetch_add(count, Ordering::SeqCst) + count;
        if all >= self.awaited.load(Ordering::SeqCst) {
            self.has_come.notify_one();
        }
    }

    pub(crate) fn num_come(&self) -> usize {
        self.num_come.load(Ordering::SeqCst)
    }

    /// Waits until so many have come in all.
    pub(crate) async fn has_come(&self, count: usize) {
        self.awaited.store(count, Ordering::SeqCst);
        while self.num_come() < count {
            self.has_come.notified().await;
        }
    }

    /// Microseconds that each token took, but for the first `skipped` that were sent.
    pub(crate) fn latencies(&self, skipped: usize) -> Vec<f64> {
        let of_each = skipped.div_ceil(self.streams.len());
        let times = self.sent.iter().zip(&self.come).enumerate();
        let times = times.filter(|(place, _)| place % self.most >= of_each);
        times
            .filter_map(|(_, (sent, come))| {
                let (sent, come) = (sent.load(Ordering::Relaxed), come.load(Ordering::Relaxed));
                (sent > 0 && come > 0).then(|| (come - sent) as f64 / 1e3)
            })
            .collect()
    }

    /// Milliseconds from the last token of each stream being sent to all of them being there.
    pub(crate) fn last_step_millis(&self) -> f64 {
        let last = |stream: usize| {
            let number = self.streams[stream].num_sent.load(Ordering::Relaxed) - 1;
            stream * self.most + number.min(self.most - 1)
        };
        let all = 0..self.streams.len();
        let sent = all
            .clone()
            .map(|stream| self.sent[last(stream)].load(Ordering::Relaxed));
        let come = all.map(|stream| self.come[last(stream)].load(Ordering::Relaxed));
        let (sent, come) = (sent.min().unwrap_or(0), come.max().unwrap_or(0));
        come.saturating_sub(sent) as f64 / 1e6
    }

    /// By how many microseconds the worker itself sent late, at the 99th percentile.
    pub(crate) fn latest_send_micros(&self, rate: f64, skipped: usize) -> f64 {
        let of_each = skipped.div_ceil(self.streams.len());
        let mut sent: Vec<u64> = self
            .sent
            .iter()
            .enumerate()
            .filter(|(place, _)| place % self.most >= of_each)
            .map(|(_, sent)| sent.load(Ordering::Relaxed))
            .filter(|sent| *sent > 0)
            .collect();
        sent.sort_unstable();
        let first = sent.first().copied().unwrap_or(0);
        let late = sent
            .iter()
            .enumerate()
            .map(|(number, sent)| ((sent - first) as f64 - number as f64 * 1e9 / rate) / 1e3);
        percentile(&mut late.collect::<Vec<_>>(), 0.99)
    }
}

/// The value below which this share of all lies; 0 of none.
pub(crate) fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let place = (values.len() as f64 * share) as usize;
    values
        .get(place.min(values.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}
