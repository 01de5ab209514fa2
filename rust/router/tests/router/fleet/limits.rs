//! Limits of keys that routers share.

use std::time::Instant;

use super::{PROMPT, wait_for_metric};
use crate::support::fake_redis::{FakeRedis, Mood};
use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, keys_file, request, within};
use sha2::Digest as _;
use tonic::Request;

#[tokio::test]
async fn routers_spend_one_limit_and_each_its_own_while_redis_is_silent() {
    const LIMIT: usize = 20;
    let redis = FakeRedis::start();
    let keys = keys_file(&format!(
        "[[keys]]\ntenant = \"ann\"\nsha256 = \"{:x}\"\nrequests_per_minute = {LIMIT}\n",
        sha2::Sha256::digest("ann-key")
    ));
    let mut routers = Vec::new();
    for _ in 0..2 {
        let router = TestRouter::with(|config| {
            config.fleet.redis = Some(redis.address());
            config.access.api_keys_file = Some(keys.clone());
            config.access.open_introspection = true;
        })
        .await
        .shown("ann-key");
        let worker = router.worker(FakeWorker::default()).await;
        wait_for_metric(&router, "spectrie_fleet_connected", |n| n == 1).await;
        routers.push((router, worker));
    }
    std::fs::remove_file(keys).unwrap();
    let is_granted = async |router: &TestRouter| {
        let mut asked = Request::new(request(PROMPT));
        let key = "Bearer ann-key".parse().unwrap();
        asked.metadata_mut().insert("authorization", key);
        let answer = within(router.client().await.generate(asked)).await;
        if let Err(status) = &answer {
            assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
        }
        answer.is_ok()
    };
    let mut num_granted = 0;
    let begun = Instant::now();
    for _ in 0..LIMIT {
        for (router, _) in &routers {
            num_granted += usize::from(is_granted(router).await);
        }
    }
    // Beyond the limit comes what is asked while the first answers of Redis are under way, and the limit
    // fills up again, one in three seconds.
    let refilled = begun.elapsed().as_secs() as usize / 3;
    assert!(
        (LIMIT - 1..=LIMIT + 4 + 2 * refilled).contains(&num_granted),
        "{num_granted}"
    );
    redis.set(Mood::Silent);
    for (router, _) in &routers {
        wait_for_metric(router, "spectrie_fleet_connected", |n| n == 0).await;
        // Each has spent about half of the limit by its own count.
        assert!(is_granted(router).await);
    }
}
