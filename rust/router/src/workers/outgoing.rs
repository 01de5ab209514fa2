//! What the router sends to one worker: orders first, learned text when there is room.
//!
//! Orders that must not overtake learned text follow it.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use spectrie_proto::worker_v1::{Learn, RouterMessage, router_message::Message};
use tokio::sync::mpsc;
use tonic::{Code, Status};

/// Learned sequences that may wait for one worker; more are dropped.
const LEARN_QUEUE: usize = 256;

/// The sending side.
///
/// Orders are unbounded here because admission bounds them: a start and a cancel per choice.
#[derive(Debug)]
pub(crate) struct Sender {
    orders: mpsc::UnboundedSender<Result<RouterMessage, Status>>,
    learnt: mpsc::Sender<Message>,
}

impl Sender {
    /// Queues an order; `false` when the worker's stream is gone.
    pub(crate) fn order(&self, message: Message) -> bool {
        self.orders
            .send(Ok(RouterMessage {
                message: Some(message),
            }))
            .is_ok()
    }

    /// Queues learned text; `false` when it was dropped because the worker lags.
    pub(crate) fn learn(&self, learn: Learn) -> bool {
        self.learnt.try_send(Message::Learn(learn)).is_ok()
    }

    /// Queues an order after all learned text that waits, as soon as there is room.
    pub(crate) async fn order_after_learnt(&self, message: Message) {
        // A worker that has already left receives nothing more.
        let _ = self.learnt.send(message).await;
    }

    /// Ends the stream with `status`, which may be good.
    pub(crate) fn end(&self, status: Status) {
        // A worker that already went has no use for the reason.
        let _ = self.orders.send(Err(status));
    }
}

/// The stream that tonic sends.
#[derive(Debug)]
pub(crate) struct Outgoing {
    orders: mpsc::UnboundedReceiver<Result<RouterMessage, Status>>,
    learnt: mpsc::Receiver<Message>,
}

/// The two ends of a worker's queue.
pub(crate) fn channel() -> (Sender, Outgoing) {
    let (orders, orders_receiver) = mpsc::unbounded_channel();
    let (learnt, learnt_receiver) = mpsc::channel(LEARN_QUEUE);
    (
        Sender { orders, learnt },
        Outgoing {
            orders: orders_receiver,
            learnt: learnt_receiver,
        },
    )
}

impl Stream for Outgoing {
    type Item = Result<RouterMessage, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.orders.poll_recv(context) {
            Poll::Ready(Some(Err(end))) if end.code() == Code::Ok => return Poll::Ready(None),
            Poll::Ready(order) => return Poll::Ready(order),
            Poll::Pending => {}
        }
        match self.learnt.poll_recv(context) {
            Poll::Ready(Some(message)) => Poll::Ready(Some(Ok(RouterMessage {
                message: Some(message),
            }))),
            // The senders live together: the end of the orders marks the end of the stream.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}
