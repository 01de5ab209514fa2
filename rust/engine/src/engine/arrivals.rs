//! What arrived since the last step.

use super::handle::Engine;
use super::inbox::Command;
use crate::scheduling::Scheduler;

impl Engine {
    /// Takes what arrived since the last plan, unless a step is in the making.
    pub(super) fn drain(&self, core: &mut Scheduler, now_s: f64) {
        if core.is_in_flight() || core.is_prepared() {
            return;
        }
        // One moment for all: who was handed in first must not seem to have come later.
        let (commands, drained_s) = {
            let mut inbox = self.shared.inbox();
            let drained_s = self.shared.clock.now_s();
            inbox.num_submits = 0;
            inbox.planned = Some((now_s, drained_s));
            (std::mem::take(&mut inbox.commands), drained_s)
        };
        for command in commands {
            match command {
                Command::Submit(request, since_s) => {
                    let waited_s = (drained_s - since_s).max(0.0);
                    core.submit(*request, now_s - waited_s, now_s);
                }
                Command::Cancel(cancel) => core.cancel(&cancel, now_s),
                Command::Forget(namespace) => core.forget(&namespace),
            }
        }
    }
}
