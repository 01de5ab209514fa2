//! Tasks beside the servers: whatever becomes of one, serving goes on.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;

/// How long a task that panicked waits, so that one that always does costs next to nothing.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs what `begin` gives until it ends, and anew where it panics; `what` names it in the log.
pub(super) async fn lasting(what: &'static str, mut begin: impl AsyncFnMut()) {
    while let Err(panic) = AssertUnwindSafe(begin()).catch_unwind().await {
        tracing::error!(
            task = what,
            reason = said(panic.as_ref()),
            "a task panicked and begins anew"
        );
        tokio::time::sleep(PAUSE).await;
    }
}

/// Runs `task` until it ends or panics; `what` names it in the log, with what serving lacks then.
pub(super) async fn once(what: &'static str, task: impl Future<Output = ()>) {
    if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
        tracing::error!(
            task = what,
            reason = said(panic.as_ref()),
            "a task panicked and is over"
        );
    }
}

/// What a panic said, if it did.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("not said")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_goes_on_with_what_it_had() {
        let (sender, mut queue) = tokio::sync::mpsc::unbounded_channel();
        for item in [1, 2, 3, 4] {
            sender.send(item).unwrap();
        }
        drop(sender);
        let mut taken = Vec::new();
        let task = lasting("takes", async || {
            while let Some(item) = queue.recv().await {
                taken.push(item);
                assert!(item % 2 == 1, "{item} is even");
            }
        });
        task.await;
        assert_eq!(taken, [1, 2, 3, 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_runs_once_ends_alone() {
        once("breaks", async { panic!("as asked") }).await;
        once("ends", async {}).await;
    }

    #[test]
    fn a_panic_is_shown_as_it_was_said() {
        assert_eq!(said(&"word"), "word");
        assert_eq!(said(&String::from("text")), "text");
        assert_eq!(said(&7), "not said");
    }
}
