//! An answer's body on its way out.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::answers::{Answers, Unread};
use super::places::Place;
use super::turn::Turn;
use crate::sync::lock;

/// Most that is given at once. What was given is the connection's until the client takes it; the rest can still be
/// dropped. So a piece of more is a copy: it would keep all of it in memory.
const PIECE_BYTES: usize = 16 << 10;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A body in pieces, with what is dropped after its last one. Where its client takes nothing for too long, the
/// rest is dropped, and the body ends with an error if it is asked for more.
///
/// The default one is empty.
#[derive(Debug)]
pub(crate) struct Answer<B, H>(Option<Sending<B, H>>);

#[derive(Debug)]
struct Sending<B, H> {
    left: Arc<Left<B, H>>,
    /// It is listed among all until dropped.
    answers: Answers,
    id: u64,
}

/// Who takes an answer.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// Its turns.
    pub(crate) turn: Turn,
    /// Whose it is, where keys are set.
    pub(crate) tenant: Option<Arc<str>>,
    /// Of its connection.
    pub(crate) place: Option<Place>,
}

/// What is left of a body.
#[derive(Debug)]
struct Left<B, H> {
    parts: Mutex<Option<Parts<B, H>>>,
    turn: Turn,
    tenant: Option<Arc<str>>,
    place: Option<Place>,
}

#[derive(Debug)]
struct Parts<B, H> {
    body: B,
    /// What the body gave and is not given yet.
    rest: Bytes,
    /// Whether this is the end of more than a piece.
    is_cut_up: bool,
    /// Bytes of the last piece.
    num_given: u64,
    _held: H,
}

impl<B, H> Default for Answer<B, H> {
    fn default() -> Self {
        Self(None)
    }
}

impl<B, H> Answer<B, H>
where
    B: Body<Data = Bytes> + Send + 'static,
    H: Send + 'static,
{
    /// Lists `body` among `answers`, with what lasts as long as it does.
    pub(crate) fn new(answers: &Answers, body: B, held: H, client: Client) -> Self {
        let turn = client.turn;
        turn.set_clients();
        let parts = Parts {
            body,
            rest: Bytes::new(),
            is_cut_up: false,
            num_given: 0,
            _held: held,
        };
        let left = Arc::new(Left {
            parts: Mutex::new(Some(parts)),
            turn,
            tenant: client.tenant,
            place: client.place,
        });
        let listed: Arc<dyn Unread> = left.clone();
        Self(Some(Sending {
            id: answers.add(Arc::downgrade(&listed)),
            answers: answers.clone(),
            left,
        }))
    }
}

impl<B, H> Drop for Sending<B, H> {
    fn drop(&mut self) {
        self.answers.remove(self.id);
        let mut parts = lock(&self.left.parts);
        // A sweep that still looks at it finds that it is no client's turn.
        self.left.turn.set_ours();
        let rest = parts.take();
        drop(parts);
        if let (None, Some(place)) = (&rest, &self.left.place) {
            place.unstick();
        }
    }
}

impl<B, H> Unread for Left<B, H>
where
    B: Body<Data = Bytes> + Send,
    H: Send,
{
    fn turn(&self) -> &Turn {
        &self.turn
    }

    fn tenant(&self) -> Option<&Arc<str>> {
        self.tenant.as_ref()
    }

    fn num_bytes(&self) -> u64 {
        let parts = lock(&self.parts);
        let held = |parts: &Parts<B, H>| parts.num_given + parts.size_hint().lower();
        parts.as_ref().map_or(0, held)
    }

    fn cut(&self, begun: u64) -> bool {
        let mut parts = lock(&self.parts);
        if self.turn.begun() != Some(begun) {
            return false;
        }
        let Some(dropped) = parts.take() else {
            return false;
        };
        self.turn.set_ours();
        if let Some(place) = &self.place {
            place.stick();
        }
        drop(parts);
        drop(dropped);
        true
    }
}

impl<B: Body<Data = Bytes>, H> Parts<B, H> {
    fn size_hint(&self) -> SizeHint {
        let num_bytes = self.rest.len() as u64;
        let of_body = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower() + num_bytes);
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + num_bytes);
        }
        hint
    }
}

impl<B, H> Body for Answer<B, H>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Error>,
    H: Unpin,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Some(sending) = &self.0 else {
            return Poll::Ready(None);
        };
        let mut parts = lock(&sending.left.parts);
        let Some(parts) = parts.as_mut() else {
            let message = "the rest was dropped, because nothing of the answer was taken for long";
            return Poll::Ready(Some(Err(message.into())));
        };
        if parts.rest.is_empty() {
            match Pin::new(&mut parts.body).poll_frame(context) {
                Poll::Pending => {
                    sending.left.turn.set_ours();
                    return Poll::Pending;
                }
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        parts.is_cut_up = data.len() > PIECE_BYTES;
                        parts.rest = data;
                    }
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                Poll::Ready(last) => {
                    return Poll::Ready(last.map(|frame| frame.map_err(Into::into)));
                }
            }
        }
        sending.left.turn.set_clients();
        let num_bytes = parts.rest.len().min(PIECE_BYTES);
        let piece = parts.rest.split_to(num_bytes);
        parts.num_given = num_bytes as u64;
        let piece = if parts.is_cut_up {
            Bytes::copy_from_slice(&piece)
        } else {
            piece
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        let Some(sending) = &self.0 else {
            return true;
        };
        let parts = lock(&sending.left.parts);
        let ends = |parts: &Parts<B, H>| parts.rest.is_empty() && parts.body.is_end_stream();
        parts.as_ref().is_some_and(ends)
    }

    fn size_hint(&self) -> SizeHint {
        let Some(sending) = &self.0 else {
            return SizeHint::with_exact(0);
        };
        let parts = lock(&sending.left.parts);
        parts.as_ref().map_or_else(SizeHint::new, Parts::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};
    use std::time::{Duration, Instant};

    use super::super::places::Places;
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(120);

    fn answers() -> Answers {
        Answers::new(PATIENCE, 1 << 20)
    }

    fn full(answers: &Answers, text: &Bytes, held: Arc<()>) -> Answer<Full<Bytes>, Arc<()>> {
        Answer::new(answers, Full::new(text.clone()), held, Client::default())
    }

    #[tokio::test]
    async fn an_answer_comes_whole_in_pieces_and_holds_until_it_is_dropped() {
        let (answers, held) = (answers(), Arc::new(()));
        let text: Bytes = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut answer = full(&answers, &text, held.clone());
        assert_eq!(answer.size_hint().exact(), Some(400_000));
        let first = answer.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first.len(), PIECE_BYTES);
        assert_eq!(
            answer.size_hint().exact(),
            Some((400_000 - PIECE_BYTES) as u64)
        );
        let rest = (&mut answer).collect().await.unwrap().to_bytes();
        assert_eq!([first, rest].concat(), text);
        assert!(answer.is_end_stream() && Arc::strong_count(&held) == 2);
        drop(answer);
        assert_eq!((Arc::strong_count(&held), answers.len()), (1, 0));
    }

    #[tokio::test]
    async fn what_nobody_takes_is_dropped_and_cannot_be_taken_for_whole() {
        let (answers, held) = (answers(), Arc::new(()));
        let text = Bytes::from(vec![7; 100_000]);
        let mut answer = full(&answers, &text, held.clone());
        answer.frame().await.unwrap().unwrap();
        answers.sweep(Instant::now() + PATIENCE / 2);
        assert_eq!(Arc::strong_count(&held), 2);
        answers.sweep(Instant::now() + PATIENCE);
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(!answer.is_end_stream() && answer.size_hint().exact().is_none());
        let error = answer.frame().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("was dropped"), "{error}");
    }

    /// Bytes of which it can be seen when they are freed.
    struct Owner(Arc<Vec<u8>>);

    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    #[tokio::test]
    async fn what_was_given_of_a_dropped_answer_keeps_no_more_in_memory() {
        let (answers, owned) = (answers(), Arc::new(vec![7; 100_000]));
        let text = Bytes::from_owner(Owner(owned.clone()));
        let mut answer = Answer::new(&answers, Full::new(text), (), Client::default());
        let _piece = answer.frame().await.unwrap().unwrap();
        let Some(sending) = &answer.0 else {
            panic!("it is not empty");
        };
        assert_eq!(sending.left.num_bytes(), 100_000);
        answers.sweep(Instant::now() + PATIENCE);
        assert_eq!(Arc::strong_count(&owned), 1);
    }

    #[tokio::test]
    async fn an_answer_that_was_taken_just_now_is_not_dropped() {
        let (answers, held) = (answers(), Arc::new(()));
        let text = Bytes::from(vec![7; 100_000]);
        let mut answer = full(&answers, &text, held.clone());
        let Some(left) = answer.0.as_ref().map(|sending| sending.left.clone()) else {
            panic!("it is not empty");
        };
        let begun = left.turn.begun().unwrap();
        std::thread::sleep(Duration::from_millis(1));
        answer.frame().await.unwrap().unwrap();
        assert!(!left.cut(begun));
        assert!(left.cut(left.turn.begun().unwrap()));
        assert_eq!((left.turn.begun(), left.num_bytes()), (None, 0));
    }

    #[tokio::test]
    async fn a_connection_with_many_dropped_answers_is_closed() {
        let places = Places::new(1, 0, PATIENCE);
        let place = places.take().unwrap();
        let answers = answers();
        let text = Bytes::from(vec![7; 100_000]);
        let unread = || {
            let client = Client {
                place: Some(place.clone()),
                ..Client::default()
            };
            Answer::new(&answers, Full::new(text.clone()), (), client)
        };
        for _ in 0..10 {
            let one = unread();
            answers.sweep(Instant::now() + PATIENCE);
            drop(one);
        }
        let _few = [(); 4].map(|()| unread());
        answers.sweep(Instant::now() + PATIENCE);
        assert!(!place.close().is_cancelled());
        let _more = unread();
        answers.sweep(Instant::now() + PATIENCE);
        assert!(place.close().is_cancelled());
    }

    #[tokio::test]
    async fn an_answer_that_waits_for_its_next_part_is_no_unread_one() {
        let (answers, held) = (answers(), Arc::new(()));
        let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Frame<Bytes>, Error>>(1);
        let parts =
            http_body_util::StreamBody::new(tokio_stream::wrappers::ReceiverStream::new(receiver));
        let mut answer = Answer::new(&answers, parts, held.clone(), Client::default());
        assert!(futures_util::poll!(answer.frame()).is_pending());
        answers.sweep(Instant::now() + 2 * PATIENCE);
        assert_eq!(Arc::strong_count(&held), 2);
        sender
            .send(Ok(Frame::data(Bytes::from_static(b"abc"))))
            .await
            .unwrap();
        let data = answer.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(data, "abc");
        answers.sweep(Instant::now() + 2 * PATIENCE);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
