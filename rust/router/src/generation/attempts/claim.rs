//! How a client gets hold of its stream's record, which a running stream leaves first.

use std::sync::Arc;
use std::time::Duration;

use super::claimed::Claimed;
use super::go_on::{Resume, unknown};
use crate::error::{ErrorKind, RequestError};
use crate::failover::Outline;
use crate::failover::{ResumeToken, Taken};
use crate::fleet::Taking;
use crate::generation::live::{Live, LiveId};
use crate::generation::refusal::RETRY_DELAY;
use crate::generation::{Caller, Generation};
use crate::sync::{lock, now};

/// How long a resumed stream may take to leave its record: another thread may be at it.
const LEAVING: Duration = Duration::from_secs(5);

/// What is found of a stream.
enum Found {
    /// Its record, with its name, which is the claiming client's from now on.
    Cut(Box<Taken>, LiveId),
    /// It runs, or leaves its record just now.
    Running(Arc<Live>, Outline),
}

impl Generation {
    /// Takes out the record of a stream, and takes its name. One that still runs ends, if it may go
    /// on as it is asked for.
    ///
    /// # Errors
    /// As [`Generation::resume`].
    pub(super) async fn claim(
        &self,
        id: &str,
        token: &ResumeToken,
        resume: &Resume,
        caller: &Caller,
    ) -> Result<Claimed, RequestError> {
        let until = tokio::time::Instant::from_std(now() + LEAVING);
        loop {
            let (running, outline) = match self.find_stream(id, token, caller) {
                Ok(Found::Cut(taken, live)) => return self.newest(taken, live, token).await,
                Ok(Found::Running(running, outline)) => (running, outline),
                Err(error) if error.kind == ErrorKind::NotFound => {
                    return self.take_over(id, token, caller).await;
                }
                Err(error) => return Err(error),
            };
            self.check(&outline, resume, caller)?;
            // Its own choices make room for themselves.
            self.check_room(&outline, outline.num_unfinished())?;
            let message = "the stream goes on at another connection of its client";
            running.end(RequestError::new(ErrorKind::Cancelled, message));
            let left = tokio::time::timeout_at(until, running.left()).await;
            left.map_err(|_| {
                let message = "the stream is being cut: try again";
                RequestError::retry(ErrorKind::Unavailable, message, RETRY_DELAY)
            })?;
        }
    }

    /// In one step, so that whoever aborts or forgets finds the stream among those that run or among
    /// the records: it looks at the one, the other, and the first again.
    fn find_stream(
        &self,
        id: &str,
        token: &ResumeToken,
        caller: &Caller,
    ) -> Result<Found, RequestError> {
        let (shared, tenant) = (&self.shared, caller.tenant());
        let mut records = lock(&shared.records);
        if let Some(running) = shared.live.find(tenant, id)
            && let Some(outline) = running.outline(token)
        {
            return Ok(Found::Running(running, outline));
        }
        let now = now();
        let taken = records.take(tenant, id, token, now).ok_or_else(unknown)?;
        match shared.live.claim(tenant, id) {
            Ok(live) => {
                let outline = Outline::from(&taken.record);
                live.is_of(&taken.record.request.namespace, Some(outline));
                Ok(Found::Cut(Box::new(taken), live))
            }
            Err(error) => {
                records.put_back(taken, now);
                Err(error)
            }
        }
    }

    /// What was cut here, or what another router made of it since.
    async fn newest(
        &self,
        taken: Box<Taken>,
        live: LiveId,
        token: &ResumeToken,
    ) -> Result<Claimed, RequestError> {
        let mut claimed = self.claimed(Some(taken), live);
        let own = claimed.record();
        let Some(own) = own.filter(|own| own.holder.is_some()) else {
            return Ok(claimed);
        };
        let (fleet, tenant) = (&self.shared.fleet, own.tenant.as_deref());
        match fleet.take(tenant, own.id(), token, Some(own)).await {
            Taking::Nothing | Taking::Unreadable => {}
            Taking::Held => {
                // What is here is older than what its holder has.
                claimed.forget();
                return Err(held());
            }
            Taking::Late(owner) => {
                match owner {
                    // Nobody went on with it before this router took it.
                    Some(owner) => claimed.is_held_as(owner),
                    None => claimed.forget(),
                }
                return Err(held());
            }
            Taking::Taken(over) => claimed.take_over(*over, now()),
        }
        Ok(claimed)
    }

    /// Takes a stream over from another router.
    async fn take_over(
        &self,
        id: &str,
        token: &ResumeToken,
        caller: &Caller,
    ) -> Result<Claimed, RequestError> {
        let shared = &self.shared;
        if !shared.fleet.is_shared() {
            return Err(unknown());
        }
        let live = shared.live.claim(caller.tenant(), id)?;
        let mut claimed = self.claimed(None, live);
        match shared.fleet.take(caller.tenant(), id, token, None).await {
            Taking::Nothing => Err(unknown()),
            Taking::Held | Taking::Late(_) => Err(held()),
            Taking::Unreadable => {
                let message = "the record of this stream, which another router began, is damaged or of \
                               another version";
                Err(RequestError::new(ErrorKind::FailedPrecondition, message))
            }
            Taking::Taken(over) => {
                claimed.take_over(*over, now());
                Ok(claimed)
            }
        }
    }

    fn claimed(&self, taken: Option<Box<Taken>>, live: LiveId) -> Claimed {
        Claimed::new(self.shared.clone(), taken, live)
    }
}

fn held() -> RequestError {
    let message = "another router holds on to the stream: try again";
    RequestError::retry(ErrorKind::Unavailable, message, RETRY_DELAY)
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use redis::{RedisResult, Value};
    use spectrie_proto::worker_v1::Learn;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::config::{LimitsConfig, RouterConfig};
    use crate::failover::example;
    use crate::fleet::{self, Bus, Fleet, ModelKey, Pupils, Server};
    use crate::metrics::Metrics;
    use crate::workers::Registry;

    /// A Redis whose one record this router has left, and whose answer is read late.
    #[derive(Debug)]
    struct Late;

    impl Server for Late {
        fn connect(&self) -> BoxFuture<'static, RedisResult<Arc<dyn Bus>>> {
            Box::pin(async { Ok(Arc::new(Late) as Arc<dyn Bus>) })
        }
    }

    impl Bus for Late {
        fn answer(&self, words: Vec<Vec<u8>>) -> BoxFuture<'static, RedisResult<Value>> {
            let is_taking = words
                .get(1)
                .is_some_and(|script| script.starts_with(b"-- take"));
            Box::pin(async move {
                if !is_taking {
                    return Ok(Value::Int(1));
                }
                tokio::time::advance(Duration::from_secs(1)).await;
                let owner = Value::BulkString(b"-life:1".to_vec());
                Ok(Value::Array(vec![owner, Value::Array(Vec::new())]))
            })
        }
    }

    struct Nobody;

    impl Pupils for Nobody {
        fn teach(&self, _: &ModelKey, _: &Learn) -> usize {
            0
        }

        fn forget<'a>(&'a self, _: &'a ModelKey, _: &'a str, _: u64) -> BoxFuture<'a, bool> {
            Box::pin(async { false })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_router_has_itself_outlives_a_taking_that_comes_too_late() {
        let (limits, metrics) = (LimitsConfig::default(), Arc::new(Metrics::new()));
        let (fleet, texts) = Fleet::simulated(Arc::new(Late), 7, &limits, metrics.clone());
        let registry = Arc::new(Registry::new(Duration::ZERO, &limits));
        let config = Arc::new(RouterConfig::default());
        let generation = Generation::new(registry, metrics, config, fleet.clone());
        let closing = CancellationToken::new();
        tokio::spawn(fleet::run(fleet, texts, Arc::new(Nobody), closing));
        tokio::time::sleep(Duration::from_millis(10)).await;

        let mut own = example(None, "a", 3);
        own.holder = Some("life:1".into());
        let token = own.token.clone();
        lock(&generation.shared.records).keep(own, now());
        let resume = Resume {
            request_id: "a".into(),
            or_request_id: None,
            token: token.to_text(),
            starting_after: Vec::new(),
            repeats: false,
        };
        let refused = generation.resume(&resume, &Caller::default()).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Unavailable);
        // It is there for the next call, by the owner that Redis knows now.
        let kept = lock(&generation.shared.records).take(None, "a", &token, now());
        let holder = kept.unwrap().record.holder.unwrap();
        assert!(holder.starts_with(&format!("{:032x}:", 7)), "{holder}");
    }
}
