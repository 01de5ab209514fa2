//! The workers that have dialled in: who they are, what they hold, how they are lost.

mod artifacts;
mod broadcast;
mod calls;
mod corpus_list;
mod drain;
mod listener;
mod mailbox;
mod model;
mod outgoing;
mod parked;
mod placing;
mod registry;
mod routes;
mod session;
mod worker;

pub(crate) use broadcast::{Answer, Broadcast, Failure};
pub(crate) use corpus_list::CorpusList;
pub(crate) use drain::Undrained;
pub(crate) use listener::WorkerListener;
pub(crate) use mailbox::{Inbox, Lesson, Mailbox};
pub(crate) use model::ServedModel;
pub(crate) use placing::{Order, Prefix, Refusal};
pub(crate) use registry::{Registry, ejection};
pub(crate) use session::SessionContext;
pub(crate) use worker::{ChoiceGuard, Dispatch, Worker};

#[cfg(test)]
pub(crate) use artifacts::{Artifacts, TOKENIZER};
#[cfg(test)]
pub(crate) use outgoing::{Outgoing, channel};
