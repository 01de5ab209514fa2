//! Writes what this router's workers learned.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Value, cmd};

use crate::fleet::entry::{Entry, Said};
use crate::fleet::handle::{Queued, Shared, Texts};
use crate::fleet::keys::ModelKey;
use crate::fleet::records::origin::Origin;
use crate::fleet::wire::{FIELD, MAX_ENTRIES, Trouble, Wire};

/// Texts that are written at once.
const BATCH: usize = 32;

/// Adds an entry to a stream, and the mark that says so; does nothing where that is there. Gives whether the entry
/// was added.
const ADD_ONCE: &str = "-- add once
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
redis.call('XADD', KEYS[1], 'MAXLEN', '=', ARGV[1], '*', ARGV[2], ARGV[3])
redis.call('SET', KEYS[2], '1', 'PX', ARGV[4])
return 1
";

/// Writes texts as they come, until the connection is lost; gives why.
pub(super) async fn share(shared: &Arc<Shared>, texts: &mut Texts, mut wire: Wire) -> Trouble {
    let mut refused = false;
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        batch.clear();
        if texts.0.recv_many(&mut batch, BATCH).await == 0 {
            // The queue lives as long as the router.
            return std::future::pending().await;
        }
        let mut unwritten = Unwritten(shared, batch.len());
        shared.streams.pulse.assured().await;
        batch.retain(|text| {
            let is_lost = text.origin.as_ref().is_some_and(Origin::is_lost);
            shared.metrics.fleet.dropped("lease", u64::from(is_lost));
            !is_lost
        });
        unwritten.1 = batch.len();
        let models: BTreeSet<_> = batch.iter().map(|text| text.model.clone()).collect();
        let written = batch
            .drain(..)
            .map(|text| write(shared, wire.clone(), text));
        let mut trouble = None;
        let results = join_all(written).await;
        unwritten.1 = 0;
        for result in results {
            if let Err(error) = result {
                shared.metrics.fleet.dropped("redis", 1);
                trouble = Some(error);
            }
        }
        match trouble {
            Some(Trouble::Lost(reason)) => return Trouble::Lost(reason),
            Some(Trouble::Refused(reason)) => {
                if !refused {
                    tracing::warn!(%reason, "the fleet's Redis takes no text");
                }
                refused = true;
            }
            None => {
                if refused {
                    tracing::info!("the fleet's Redis takes text again");
                }
                refused = false;
                for model in models {
                    if let Err(Trouble::Lost(reason)) = wire.keep(&model).await {
                        return Trouble::Lost(reason);
                    }
                }
            }
        }
    }
}

/// Texts that were taken from the queue: they are gone with the connection, whoever hears first that it is lost.
struct Unwritten<'a>(&'a Shared, usize);

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        self.0.metrics.fleet.dropped("redis", self.1 as u64);
    }
}

async fn write(shared: &Shared, mut wire: Wire, text: Queued) -> Result<(), Trouble> {
    let open = shared.with_generations(|all| all.open_of(&text.model, &text.namespace));
    if open != Some(text.generation) {
        shared.metrics.fleet.dropped("forgotten", 1);
        return Ok(());
    }
    let entry = Entry {
        origin: shared.origin,
        namespace: text.namespace,
        generation: text.generation,
        said: Said::Text(text.token_ids),
    };
    let bytes = entry.encode(&text.model);
    let mark = text.origin.as_ref().and_then(Origin::mark);
    let is_new = if let Some(mark) = mark {
        let lifetime = shared.streams.lifetime;
        wire.add_once(&text.model, &bytes, &mark, lifetime).await?
    } else {
        wire.add(&text.model, &bytes).await?;
        true
    };
    if is_new {
        shared.metrics.fleet.published();
    } else {
        // By a router that died before it wrote that its answer had ended.
        shared.metrics.fleet.dropped("repeated", 1);
    }
    Ok(())
}

impl Wire {
    /// Adds an entry to a model's stream, unless the key `mark` is there, which then is for that time. Gives whether
    /// it was added.
    async fn add_once(
        &mut self,
        model: &ModelKey,
        bytes: &[u8],
        mark: &str,
        lifetime: Duration,
    ) -> Result<bool, Trouble> {
        let key = model.texts();
        let mut add = cmd("EVAL");
        add.arg(ADD_ONCE).arg(2).arg(&key).arg(mark);
        add.arg(MAX_ENTRIES).arg(FIELD).arg(bytes);
        add.arg(lifetime.as_millis().max(1) as u64);
        let added = self.send_add(&add, key).await?;
        Ok(added != Value::Int(0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use futures_util::future::BoxFuture;
    use redis::RedisResult;

    use super::*;
    use crate::config::{FleetConfig, LimitsConfig};
    use crate::fleet::connection::Bus;
    use crate::fleet::handle::Fleet;
    use crate::fleet::records::entry::{Entry as Stream, Names};
    use crate::metrics::Metrics;
    use crate::sync::lock;

    /// A Redis that knows its marks.
    #[derive(Default)]
    struct Marks(Mutex<BTreeSet<Vec<u8>>>);

    impl Bus for Marks {
        fn answer(&self, words: Vec<Vec<u8>>) -> BoxFuture<'static, RedisResult<Value>> {
            assert!(words[1].starts_with(b"-- add once"), "{words:?}");
            let is_new = lock(&self.0).insert(words[4].clone());
            Box::pin(std::future::ready(Ok(Value::Int(is_new.into()))))
        }
    }

    /// What a router shares of a choice of the stream that this token is of; how many texts it counts as shared,
    /// and whether it counts this one as a repetition.
    async fn shares(marks: &Arc<Marks>, token_digest: &str, choice: usize) -> (String, String) {
        let config = FleetConfig {
            redis: Some("unix:/nowhere".into()),
            ..FleetConfig::default()
        };
        let metrics = Arc::new(Metrics::new());
        let made = Fleet::new(&config, &LimitsConfig::default(), None, metrics.clone());
        let shared = made.unwrap().0.0.unwrap();
        let names = Names {
            key: "a".into(),
            tenant: None,
            id: "a".into(),
        };
        let stream = Arc::new(Stream::new(names, "life", false));
        stream.is_known_by(token_digest);
        let text = Queued {
            model: "model".into(),
            namespace: "n".into(),
            generation: 0,
            token_ids: vec![1, 2],
            origin: Some(Origin::new(&stream).of(choice)),
        };
        let wire = Wire::simulated(marks.clone());
        write(&shared, wire, text).await.unwrap();
        let (_, shown) = metrics.encode();
        let count = |name: &str| {
            let line = shown.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.rsplit_once(' '))
                .map_or("0".into(), |(_, count)| count.to_owned())
        };
        (
            count("spectrie_fleet_published_total"),
            count("spectrie_fleet_dropped_total{reason=\"repeated\""),
        )
    }

    #[tokio::test]
    async fn text_that_a_dead_router_shared_is_not_shared_by_who_goes_on() {
        let marks = Arc::default();
        let [once, again] = [("1", "0"), ("0", "1")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(shares(&marks, "token", 0).await, once);
        assert_eq!(shares(&marks, "token", 0).await, again);
        // Another choice, and another stream of the same name.
        assert_eq!(shares(&marks, "token", 1).await, once);
        assert_eq!(shares(&marks, "other", 0).await, once);
    }

    /// A Redis that does not answer.
    struct Silent;

    impl Bus for Silent {
        fn answer(&self, _: Vec<Vec<u8>>) -> BoxFuture<'static, RedisResult<Value>> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn text_under_way_when_the_connection_is_given_up_is_counted_as_dropped() {
        let config = FleetConfig {
            redis: Some("unix:/nowhere".into()),
            ..FleetConfig::default()
        };
        let metrics = Arc::new(Metrics::new());
        let made = Fleet::new(&config, &LimitsConfig::default(), None, metrics.clone());
        let (fleet, mut texts) = made.unwrap();
        let learn = spectrie_proto::worker_v1::Learn {
            namespace: "n".into(),
            token_ids: vec![1, 2],
        };
        fleet.publish(&ModelKey::from("m"), learn, None);
        let shared = fleet.0.clone().unwrap();
        let wire = Wire::simulated(Arc::new(Silent));
        let sharing = share(&shared, &mut texts, wire);
        let given_up = tokio::time::timeout(Duration::from_secs(1), sharing).await;
        assert!(given_up.is_err());
        let (_, shown) = metrics.encode();
        let dropped = shown
            .lines()
            .find(|line| line.contains("fleet_dropped") && line.contains("\"redis\""));
        assert!(
            dropped.is_some_and(|line| line.ends_with(" 1")),
            "{dropped:?}"
        );
    }
}
