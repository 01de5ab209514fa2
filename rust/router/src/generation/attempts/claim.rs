//! How a client gets hold of its stream's record, which a running stream leaves first.

use std::sync::Arc;
use std::time::Duration;

use super::claimed::Claimed;
use super::go_on::{Resume, unknown};
use crate::error::{ErrorKind, RequestError};
use crate::failover::Outline;
use crate::failover::{ResumeToken, Taken};
use crate::fleet::Taking;
use crate::generation::live::{Ender, Live, LiveId};
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
            let (running, mut outline) = match self.find_stream(id, token, caller) {
                Ok(Found::Cut(taken, live)) => return self.newest(taken, live, token).await,
                Ok(Found::Running(running, outline)) => (running, outline),
                Err(error) if error.kind == ErrorKind::NotFound => {
                    return self.take_over(id, token, caller).await;
                }
                Err(error) => return Err(error),
            };
            if self.shared.fleet.is_shared() {
                // Once it has left its record, that is looked at.
                outline.may_be_behind();
            }
            self.check(&outline, resume, caller)?;
            // Its own choices make room for themselves.
            self.check_room(&outline, outline.num_unfinished())?;
            let message = "the stream goes on at another connection of its client";
            let error = RequestError::new(ErrorKind::Cancelled, message);
            running.end(Ender::Successor, error);
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
        claimed.may_be_behind();
        let own = claimed.record();
        let Some(own) = own.filter(|own| own.holder.is_some()) else {
            return Ok(claimed);
        };
        let (fleet, tenant) = (&self.shared.fleet, own.tenant.as_deref());
        match fleet.take(tenant, own.id(), token, Some(own)).await {
            Taking::Nothing | Taking::Unasked => claimed.share_again(),
            Taking::Unreadable => {}
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
            Taking::Unasked => Err(unasked()),
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

/// The stream may be there all the same.
fn unasked() -> RequestError {
    let message =
        "the stream is not of this router, and Redis cannot be asked for it now: try again";
    RequestError::retry(ErrorKind::Unavailable, message, RETRY_DELAY)
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

    /// A Redis with this answer to whoever takes a stream, after this time or never, and none but good ones to
    /// others.
    #[derive(Clone, Debug)]
    struct Gives(Vec<Value>, Duration);

    impl Server for Gives {
        fn connect(&self) -> BoxFuture<'static, RedisResult<Arc<dyn Bus>>> {
            let bus: Arc<dyn Bus> = Arc::new(self.clone());
            Box::pin(std::future::ready(Ok(bus)))
        }
    }

    impl Bus for Gives {
        fn answer(&self, words: Vec<Vec<u8>>) -> BoxFuture<'static, RedisResult<Value>> {
            let is_taking = words
                .get(1)
                .is_some_and(|script| script.starts_with(b"-- take"));
            let Self(answer, time) = self.clone();
            Box::pin(async move {
                if !is_taking {
                    return Ok(Value::Int(1));
                }
                if time == Duration::MAX {
                    std::future::pending::<()>().await;
                }
                tokio::time::advance(time).await;
                Ok(Value::Array(answer))
            })
        }
    }

    struct Nobody;

    impl Pupils for Nobody {
        fn teach(&self, _: &ModelKey, _: &Learn) -> usize {
            0
        }

        fn forget<'a>(&'a self, _: &'a ModelKey, _: &'a str, _: u64) -> BoxFuture<'a, bool> {
            Box::pin(std::future::ready(false))
        }
    }

    /// A router of life 7 that has a record of `a` itself, with what its client asks for.
    async fn router(server: Gives) -> (Generation, ResumeToken, Resume) {
        let (limits, metrics) = (LimitsConfig::default(), Arc::new(Metrics::new()));
        let (fleet, texts) = Fleet::simulated(Arc::new(server), 7, &limits, metrics.clone());
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
        (generation, token, resume)
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_router_has_itself_outlives_a_taking_that_comes_too_late() {
        let owner = Value::BulkString(b"-life:1".to_vec());
        let answer = vec![owner, Value::Array(Vec::new())];
        let late = Gives(answer, Duration::from_secs(1));
        let (generation, token, resume) = router(late).await;
        let refused = generation.resume(&resume, &Caller::default()).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Unavailable);
        // It is there for the next call, by the owner that Redis knows now.
        let kept = lock(&generation.shared.records).take(None, "a", &token, now());
        let holder = kept.unwrap().record.holder.unwrap();
        assert!(holder.starts_with(&format!("{:032x}:", 7)), "{holder}");
    }

    #[tokio::test(start_paused = true)]
    async fn stream_that_redis_cannot_be_asked_for_is_asked_for_again() {
        let silent = Gives(Vec::new(), Duration::MAX);
        let (generation, _, resume) = router(silent).await;
        let elsewhere = Resume {
            request_id: "b".into(),
            ..resume
        };
        let refused = generation.resume(&elsewhere, &Caller::default()).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Unavailable);
        let nothing = Gives(Vec::new(), Duration::from_millis(1));
        let (generation, ..) = router(nothing).await;
        let refused = generation.resume(&elsewhere, &Caller::default()).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::NotFound);
    }

    #[tokio::test(start_paused = true)]
    async fn router_without_workers_keeps_a_record_and_wants_to_be_asked_again() {
        let nothing = Gives(Vec::new(), Duration::from_millis(1));
        let (generation, token, resume) = router(nothing).await;
        let refused = generation.resume(&resume, &Caller::default()).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Unavailable);
        let kept = lock(&generation.shared.records).take(None, "a", &token, now());
        assert!(kept.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn stream_of_which_redis_has_nothing_is_shared_as_one_that_begins() {
        let nothing = Gives(Vec::new(), Duration::from_millis(1));
        let (generation, token, resume) = router(nothing).await;
        let caller = Caller::default();
        let claimed = generation.claim("a", &token, &resume, &caller);
        let (record, _, sharing) = claimed.await.unwrap().into_parts().unwrap();
        // Its client may have gone on elsewhere.
        assert_eq!(record.choices[0].mark, record.request.max_tokens);
        assert_eq!(record.choices[0].attempt, 63);
        let sharing = sharing.unwrap();
        // Its text is not shared twice, whatever is written of it before.
        assert!(sharing.wants_whole() && sharing.origin().mark().is_some());
    }
}
