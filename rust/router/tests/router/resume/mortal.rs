//! A router that can be stopped and killed beside others of the same test.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use spectrie_router::RouterConfig;
use tokio::runtime::{Builder, Runtime};

use crate::support::fake_redis::FakeRedis;
use crate::support::{TestRouter, get, within};

/// A router on a thread of its own, which can be stopped or killed.
pub(super) struct Mortal {
    pub(super) router: TestRouter,
    runtime: Option<Runtime>,
}

impl Mortal {
    pub(super) async fn start(redis: &FakeRedis) -> Self {
        Self::with(redis, |_| {}).await
    }

    pub(super) async fn with(
        redis: &FakeRedis,
        change: impl FnOnce(&mut RouterConfig) + Send + 'static,
    ) -> Self {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let address = redis.address();
        let router = runtime.spawn(async move {
            TestRouter::with(|config| {
                config.fleet.redis = Some(address);
                change(config);
            })
            .await
        });
        let router = router.await.unwrap();
        connected(&router, 1).await;
        Self {
            router,
            runtime: Some(runtime),
        }
    }

    /// Ends it as SIGKILL does: it says nothing more.
    pub(super) fn kill(&mut self, redis: &FakeRedis) {
        self.runtime.take().unwrap().shutdown_background();
        redis.end_lives();
    }

    /// Stops it as SIGSTOP does, until what this gives is dropped.
    pub(super) async fn stop(&self) -> Sender<()> {
        let (go_on, stopped_until) = channel();
        let (sender, stopped) = tokio::sync::oneshot::channel();
        let runtime = self.runtime.as_ref().unwrap();
        runtime.spawn(async move {
            sender.send(()).unwrap();
            let _ = stopped_until.recv();
        });
        within(stopped).await.unwrap();
        go_on
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub(super) async fn metric(router: &TestRouter, name: &str) -> u64 {
    let text = get(router.bound.http.as_deref().unwrap(), "/metrics").await;
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split(' ').next_back()?.parse().ok())
        .unwrap_or(0)
}

pub(super) async fn wait_for(router: &TestRouter, name: &str, value: u64) {
    within(async {
        while metric(router, name).await != value {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

pub(super) async fn connected(router: &TestRouter, value: u64) {
    wait_for(router, "spectrie_fleet_connected", value).await;
}
