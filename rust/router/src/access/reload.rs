//! Following a keys file while the router serves.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::ApiKeys;

/// How often the file is read: a changed key is in force, and a removed one refused, so much later.
const EVERY: Duration = Duration::from_secs(1);

/// Reads the file of `keys` again and again until `shutdown`.
pub(crate) async fn follow(keys: Arc<ApiKeys>, shutdown: CancellationToken) {
    while !keys.is_open() {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let keys = keys.clone();
        // Only a panic fails here; the keys before stay in force, and the next reading may do.
        let _ = tokio::task::spawn_blocking(move || keys.reload()).await;
    }
    shutdown.cancelled().await;
}
