//! What carries commands to Redis, or to what stands for it in tests without sockets.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, Value};

/// Cheap to clone; each clone's commands may overtake the others'.
#[derive(Clone)]
pub(super) enum Connection {
    Redis(MultiplexedConnection),
    #[cfg(test)]
    Simulated(std::sync::Arc<dyn Bus>),
}

/// What connections lead to in tests.
#[cfg(test)]
pub(crate) trait Server: Send + Sync + std::fmt::Debug {
    /// A new connection.
    fn connect(
        &self,
    ) -> futures_util::future::BoxFuture<'static, RedisResult<std::sync::Arc<dyn Bus>>>;
}

/// What answers commands in tests.
#[cfg(test)]
pub(crate) trait Bus: Send + Sync {
    /// The answer to a command of these words.
    fn answer(
        &self,
        words: Vec<Vec<u8>>,
    ) -> futures_util::future::BoxFuture<'static, RedisResult<Value>>;
}

impl Connection {
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Redis(connection) => command.query_async(connection).await,
            #[cfg(test)]
            Self::Simulated(bus) => {
                let words = command.args_iter().filter_map(|word| match word {
                    redis::Arg::Simple(word) => Some(word.to_vec()),
                    _ => None,
                });
                bus.answer(words.collect()).await
            }
        }
    }
}
