//! One structure through the whole race.

use std::fmt;
use std::time::{Duration, Instant};

use crate::chains::context_of;
use crate::draft::{ALONE, Drafts, Tuning};
use crate::index::Index;
use crate::{SEPARATOR, TokenId};

const MAX_NODES: usize = 16;

#[derive(Default)]
pub(crate) struct Texts {
    pub(crate) trace: Vec<Vec<TokenId>>,
    pub(crate) corpus: Vec<Vec<TokenId>>,
}

/// A replay of the trace.
#[derive(Default)]
struct Replay {
    steps: usize,
    drafted: usize,
    accepted: usize,
    draft_us: Vec<f64>,
    push_time: Duration,
    pushed: usize,
}

impl Replay {
    fn per_step(&self, count: usize) -> f64 {
        count as f64 / self.steps.max(1) as f64
    }

    fn quantile(&mut self, share: f64) -> f64 {
        let index = (self.draft_us.len() as f64 * share) as usize;
        let Some(last) = self.draft_us.len().checked_sub(1) else {
            return 0.0;
        };
        *self
            .draft_us
            .select_nth_unstable_by(index.min(last), f64::total_cmp)
            .1
    }

    fn run<I: Index>(
        texts: &Texts,
        corpus: Option<&I>,
        tuning: Tuning,
        make: impl Fn() -> I,
    ) -> Self {
        let mut replay = Self::default();
        let mut drafts = Drafts::<I>::new(tuning);
        for document in &texts.trace {
            let mut own = make();
            let mut position = document.len() / 4;
            let mut fresh = position;
            replay.push(&mut own, &document[..position]);
            let mut cursor = Vec::new();
            while position < document.len() {
                let start = Instant::now();
                let context = context_of(&document[..position]);
                own.own_places(context, &mut drafts.places[0]);
                if let Some(corpus) = corpus {
                    corpus.follow(context, fresh.min(context.len()), &mut cursor);
                    drafts.places[1].clone_from(&cursor);
                }
                drafts.draft(context, [Some(&own), corpus], MAX_NODES);
                replay.draft_us.push(start.elapsed().as_secs_f64() * 1e6);
                let rest = &document[position..];
                let accepted = drafts.accepted(rest);
                fresh = (accepted + 1).min(rest.len());
                replay.push(&mut own, &rest[..fresh]);
                position += fresh;
                replay.steps += 1;
                replay.drafted += drafts.len();
                replay.accepted += accepted;
            }
        }
        replay
    }

    fn push<I: Index>(&mut self, own: &mut I, tokens: &[TokenId]) {
        let start = Instant::now();
        for &token in tokens {
            own.push(token);
        }
        self.push_time += start.elapsed();
        self.pushed += tokens.len();
    }
}

/// What a structure achieved.
pub(crate) struct Figures {
    /// Own text alone, then with the corpus.
    accepted: [f64; 2],
    drafted: [f64; 2],
    draft_us_p50: [f64; 2],
    draft_us_p99: [f64; 2],
    own_push_us: f64,
    insert_tokens_per_second: f64,
    bytes_per_token: f64,
}

impl Figures {
    pub(crate) const HEADINGS: &str = "  accepted/step     drafted/step       draft p50 us       \
         draft p99 us  own push us  insert M tok/s  bytes/token";

    pub(crate) fn json(&self) -> String {
        let pair =
            |[alone, with]: [f64; 2]| format!("{{\"own\": {alone:.4}, \"corpus\": {with:.4}}}");
        format!(
            "\"accepted_per_step\": {}, \"drafted_per_step\": {}, \"draft_us_p50\": {}, \
             \"draft_us_p99\": {}, \"own_push_us\": {:.4}, \"insert_tokens_per_second\": {:.0}, \
             \"bytes_per_token\": {:.2}",
            pair(self.accepted),
            pair(self.drafted),
            pair(self.draft_us_p50),
            pair(self.draft_us_p99),
            self.own_push_us,
            self.insert_tokens_per_second,
            self.bytes_per_token
        )
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = [
            (self.accepted, 3),
            (self.drafted, 2),
            (self.draft_us_p50, 1),
            (self.draft_us_p99, 1),
        ];
        for ([alone, with], digits) in pairs {
            write!(f, " {alone:7.digits$} / {with:7.digits$}")?;
        }
        write!(
            f,
            " {:10.2} {:15.2} {:12.1}",
            self.own_push_us,
            self.insert_tokens_per_second / 1e6,
            self.bytes_per_token
        )
    }
}

/// Indexes the corpus, then replays the trace without and with it, `tuning` being that for with.
pub(crate) fn measure<I: Index>(texts: &Texts, tuning: Tuning, make: impl Fn() -> I) -> Figures {
    let mut corpus = make();
    let mut num_tokens = 0;
    let start = Instant::now();
    for document in &texts.corpus {
        for &token in document.iter().chain(&[SEPARATOR]) {
            corpus.push(token);
            num_tokens += 1;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut alone = Replay::run(texts, None, ALONE, &make);
    let mut with = Replay::run(texts, Some(&corpus), tuning, &make);
    Figures {
        accepted: [&alone, &with].map(|replay| replay.per_step(replay.accepted)),
        drafted: [&alone, &with].map(|replay| replay.per_step(replay.drafted)),
        draft_us_p50: [&mut alone, &mut with].map(|replay| replay.quantile(0.5)),
        draft_us_p99: [&mut alone, &mut with].map(|replay| replay.quantile(0.99)),
        own_push_us: alone.push_time.as_secs_f64() * 1e6 / alone.pushed.max(1) as f64,
        insert_tokens_per_second: f64::from(num_tokens) / seconds,
        bytes_per_token: corpus.bytes() as f64 / f64::from(num_tokens.max(1)),
    }
}
