//! Questions about draft memory that wait for one worker's answer.

use std::collections::HashMap;
use std::sync::Mutex;

use spectrie_proto::worker_v1::admin_call::Call;
use spectrie_proto::worker_v1::admin_reply::Reply;
use spectrie_proto::worker_v1::{AdminCall, AdminReply};
use tokio::sync::oneshot;

use crate::sync::lock;

#[derive(Debug, Default)]
struct Open {
    last_id: u64,
    waiting: HashMap<u64, oneshot::Sender<Reply>>,
    is_lost: bool,
}

/// The open questions of one worker.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<Open>);

impl Calls {
    /// Makes the message that asks `call`, and what its answer will come through: closed without
    /// one when the worker is lost.
    pub(super) fn open(&self, call: Call) -> (AdminCall, oneshot::Receiver<Reply>) {
        let (sender, receiver) = oneshot::channel();
        let mut open = lock(&self.0);
        // The caller may have stopped waiting; a worker that never answers must not fill this.
        open.waiting.retain(|_, waiting| !waiting.is_closed());
        open.last_id += 1;
        let call_id = open.last_id;
        if !open.is_lost {
            open.waiting.insert(call_id, sender);
        }
        let call = Some(call);
        (AdminCall { call_id, call }, receiver)
    }

    /// Delivers an answer; one without a waiting caller is dropped.
    pub(super) fn answer(&self, reply: AdminReply) {
        let waiting = lock(&self.0).waiting.remove(&reply.call_id);
        if let (Some(waiting), Some(reply)) = (waiting, reply.reply) {
            // Gone in this moment: the same as a moment ago.
            let _ = waiting.send(reply);
        }
    }

    /// Ends every wait, also those that begin later.
    pub(super) fn lose(&self) {
        let mut open = lock(&self.0);
        open.is_lost = true;
        open.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use spectrie_proto::worker_v1::{Done, ListCorpora};

    use super::*;

    fn done(call_id: u64) -> AdminReply {
        AdminReply {
            call_id,
            reply: Some(Reply::Done(Done {})),
        }
    }

    #[tokio::test]
    async fn each_answer_reaches_its_own_question() {
        let calls = Calls::default();
        let (first, first_answer) = calls.open(Call::ListCorpora(ListCorpora {}));
        let (second, second_answer) = calls.open(Call::ListCorpora(ListCorpora {}));
        calls.answer(done(second.call_id));
        calls.answer(done(77));
        assert_eq!(second_answer.await, Ok(Reply::Done(Done {})));
        drop(first_answer);
        calls.answer(done(first.call_id));
        assert!(lock(&calls.0).waiting.is_empty());
    }

    #[tokio::test]
    async fn questions_of_a_lost_worker_end_without_answer() {
        let calls = Calls::default();
        let (_, before) = calls.open(Call::ListCorpora(ListCorpora {}));
        calls.lose();
        let (_, after) = calls.open(Call::ListCorpora(ListCorpora {}));
        assert!(before.await.is_err() && after.await.is_err());
    }
}
