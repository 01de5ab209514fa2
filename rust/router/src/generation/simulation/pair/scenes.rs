//! What two routers do in scenes that no dice bring about often.

use std::time::Duration;

use super::super::client::Ask;
use super::super::on_a_clock;
use super::super::report::Report;
use super::client::Roamer;
use super::world::Pair;
use crate::sync::lock;

/// Milliseconds until a router that lost Redis has it again.
const BACK_MS: u64 = 1_000;

impl Pair {
    /// Two routers with a worker each, and what a client asks for.
    async fn begun() -> Result<(Self, Ask), String> {
        let mut pair = Self::new(1, None);
        pair.world.join(0)?;
        pair.world.join(1)?;
        pair.pass_time(50).await;
        let ask = loop {
            let ask = pair.world.new_ask();
            if ask.poison_at.is_none() && ask.num_choices == 1 {
                break ask;
            }
        };
        pair.world.was_cut(&ask);
        Ok((pair, ask))
    }

    /// A client asks the first router.
    fn ask_first(&mut self, ask: &Ask) {
        let first = lock(&self.doors)[0].clone();
        self.clients
            .push(Roamer::start(ask.clone(), &self.doors, first, 1));
    }

    /// Until the last client that asked has its answer.
    async fn end_last(&mut self) -> Result<(), String> {
        while !self.clients.last().unwrap().reading.is_finished() {
            self.calm_turn()?;
            self.pass_time(20).await;
        }
        let client = self.clients.last().unwrap();
        lock(&client.seen).check(&client.ask).map(drop)
    }

    /// Whether a router gives the events of a stream.
    fn runs(&self, site: usize, ask: &Ask) -> bool {
        let running = self.world.sites[site].generation.shared.live.streams();
        running.contains(&ask.name)
    }
}

/// Plays a scene of two routers and what a client asks for.
fn play(scene: impl AsyncFnOnce(&mut Pair, &Ask) -> Result<(), String>) {
    let whole = async {
        let (mut pair, ask) = Pair::begun().await?;
        scene(&mut pair, &ask).await?;
        Ok(Report::default())
    };
    on_a_clock(whole).unwrap();
}

#[test]
fn older_stream_of_its_name_ends_none_whose_first_words_are_lost() {
    play(async |pair, ask| {
        pair.ask_first(ask);
        pair.end_last().await?;
        pair.pass_time(300).await;
        assert_eq!(pair.redis.names("spectrie:1:stream:").len(), 1);
        pair.world.sites[0].attempts.clear();
        pair.ask_first(ask);
        for _ in 0..20 {
            // It begins, and its first words are sent, at this same moment.
            tokio::task::yield_now().await;
        }
        assert!(pair.runs(0, ask));
        pair.routers[0].line.lose(Duration::from_millis(100));
        pair.pass_time(BACK_MS).await;
        assert!(pair.runs(0, ask), "a stream is ended by an older one");
        pair.end_last().await?;
        Ok(())
    });
}

#[test]
fn stream_that_was_left_without_redis_outlives_its_router_once_redis_is_back() {
    play(async |pair, ask| {
        pair.routers[0].line.lose(Duration::from_millis(500));
        pair.pass_time(10).await;
        pair.ask_first(ask);
        pair.pass_time(100).await;
        // It is with no one until its router is gone.
        pair.clients[0].cut(Duration::from_secs(2), true);
        pair.pass_time(1_500).await;
        pair.lose_router(0);
        pair.pass_time(2_000).await;
        assert!(
            pair.runs(1, ask),
            "what was left without Redis was not written"
        );
        Ok(())
    });
}

#[test]
fn stream_without_tokens_outlives_its_router_after_a_flush() {
    play(async |pair, ask| {
        pair.ask_first(ask);
        pair.pass_time(300).await;
        assert!(pair.runs(0, ask));
        pair.redis.flush();
        pair.pass_time(500).await;
        pair.lose_router(0);
        pair.pass_time(3_000).await;
        assert!(pair.runs(1, ask), "what was flushed was not written again");
        Ok(())
    });
}
