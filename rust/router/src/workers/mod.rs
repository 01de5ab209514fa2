//! The workers that have dialled in: who they are, what they hold, how they are lost.

mod artifacts;
mod calls;
mod fleet;
mod hub;
mod mailbox;
mod model;
mod outgoing;
mod registry;
mod roster;
mod session;
mod worker;

pub(crate) use fleet::{Answer, Failure, Fleet};
pub(crate) use hub::Hub;
pub(crate) use mailbox::{Inbox, Mailbox};
pub(crate) use model::ServedModel;
pub(crate) use registry::{Order, Refusal, Registry};
pub(crate) use roster::Roster;
pub(crate) use session::SessionContext;
pub(crate) use worker::{ChoiceGuard, Dispatch};
