//! A router's way to Redis: what it says takes its time, in order, and may be cut.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use redis::{RedisResult, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::super::dice::Dice;
use super::redis::{Redis, Words};
use crate::fleet::{Bus, Server};
use crate::sync::{lock, now};

/// Where a router dials.
#[derive(Debug)]
pub(super) struct Line {
    redis: Arc<Redis>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    dice: Dice,
    /// No one can connect before.
    down_until: Instant,
    slow_until: Instant,
    /// What ends the connections of now, and whether what is under way to Redis then still arrives there.
    cut: CancellationToken,
    lost: CancellationToken,
}

/// A command on its way.
struct Sent {
    arrives: Instant,
    words: Words,
    answer: oneshot::Sender<Value>,
}

/// A connection.
struct Connection {
    line: Arc<Line>,
    cut: CancellationToken,
    sent: mpsc::UnboundedSender<Sent>,
}

impl Line {
    pub(super) fn new(redis: Arc<Redis>, seed: u64) -> Self {
        let state = State {
            dice: Dice::new(seed),
            down_until: now(),
            slow_until: now(),
            cut: CancellationToken::new(),
            lost: CancellationToken::new(),
        };
        Self {
            redis,
            state: Mutex::new(state),
        }
    }

    /// Ends all connections; there are no others for this time.
    pub(super) fn cut(&self, time: Duration) {
        let is_lost = lock(&self.state).dice.chance(50);
        self.end(time, is_lost);
    }

    /// As [`Self::cut`]; what is under way to Redis is lost.
    pub(super) fn lose(&self, time: Duration) {
        self.end(time, true);
    }

    fn end(&self, time: Duration, is_lost: bool) {
        let mut state = lock(&self.state);
        state.down_until = now() + time;
        if is_lost {
            state.lost.cancel();
        }
        state.cut.cancel();
        (state.cut, state.lost) = (CancellationToken::new(), CancellationToken::new());
    }

    /// Everything takes long for this time.
    pub(super) fn slow(&self, time: Duration) {
        lock(&self.state).slow_until = now() + time;
    }

    /// There are no more troubles.
    pub(super) fn calm(&self) {
        let mut state = lock(&self.state);
        state.slow_until = now();
        state.down_until = state.down_until.min(now());
    }

    /// How long something takes that is said now.
    fn takes(&self) -> Duration {
        let mut state = lock(&self.state);
        let milliseconds = if now() < state.slow_until {
            50 + state.dice.below(450)
        } else {
            state.dice.below(5)
        };
        Duration::from_millis(milliseconds as u64)
    }
}

fn broken() -> redis::RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

/// Dials.
#[derive(Debug)]
pub(super) struct Dialer(pub(super) Arc<Line>);

impl Server for Dialer {
    fn connect(&self) -> BoxFuture<'static, RedisResult<Arc<dyn Bus>>> {
        let line = self.0.clone();
        Box::pin(async move {
            tokio::time::sleep(line.takes()).await;
            let state = lock(&line.state);
            if now() < state.down_until {
                return Err(broken());
            }
            let (cut, lost) = (state.cut.clone(), state.lost.clone());
            drop(state);
            let (sent, commands) = mpsc::unbounded_channel();
            tokio::spawn(carry(line.clone(), commands, cut.clone(), lost));
            Ok(Arc::new(Connection { line, cut, sent }) as Arc<dyn Bus>)
        })
    }
}

impl Bus for Connection {
    fn answer(&self, words: Words) -> BoxFuture<'static, RedisResult<Value>> {
        let (answer, answered) = oneshot::channel();
        let sent = Sent {
            arrives: now() + self.line.takes(),
            words,
            answer,
        };
        let is_cut = self.cut.is_cancelled() || self.sent.send(sent).is_err();
        let cut = self.cut.clone();
        Box::pin(async move {
            if is_cut {
                return Err(broken());
            }
            tokio::select! {
                biased;
                () = cut.cancelled() => Err(broken()),
                answered = answered => answered.map_err(|_| broken()),
            }
        })
    }
}

/// Brings what is said on a connection to Redis, and the answers back, each in order.
async fn carry(
    line: Arc<Line>,
    mut commands: mpsc::UnboundedReceiver<Sent>,
    cut: CancellationToken,
    lost: CancellationToken,
) {
    let (answered, answers) = mpsc::unbounded_channel();
    tokio::spawn(bring_back(answers));
    while let Some(sent) = commands.recv().await {
        sleep_until(sent.arrives.into()).await;
        if lost.is_cancelled() {
            return;
        }
        let value = tokio::select! {
            biased;
            value = line.redis.answer(&sent.words) => value,
            // It waits for an entry.
            () = cut.cancelled() => return,
        };
        let comes = now() + line.takes();
        if answered.send((comes, value, sent.answer)).is_err() {
            return;
        }
    }
}

async fn bring_back(
    mut answers: mpsc::UnboundedReceiver<(Instant, Value, oneshot::Sender<Value>)>,
) {
    while let Some((comes, value, answer)) = answers.recv().await {
        sleep_until(comes.into()).await;
        drop(answer.send(value));
    }
}
