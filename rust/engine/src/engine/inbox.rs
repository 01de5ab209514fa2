//! What arrived since the last plan.

use std::collections::{HashSet, VecDeque};

use crate::error::EngineError;
use crate::output::Load;
use crate::request::Request;
use crate::scheduling::Cancel;

#[derive(Debug)]
pub(crate) enum Command {
    /// A request, and when it came by our clock.
    Submit(Box<Request>, f64),
    Cancel(Cancel),
    Forget(String),
}

/// Requests and commands that the next plan takes, and the bounds of what is held.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) commands: VecDeque<Command>,
    /// Handles of requests that have not ended, those in `commands` included.
    pub(crate) held: HashSet<u64>,
    pub(crate) num_submits: usize,
    /// Bytes of the token ids of submitted requests that `load` does not count yet.
    submitted_bytes: usize,
    pub(crate) load: Load,
    /// The time of the last plan, as its caller says and by our clock.
    pub(crate) planned: Option<(f64, f64)>,
    max_held: usize,
    max_waiting_bytes: usize,
}

impl Inbox {
    /// An empty one that holds up to `max_held` requests, and token ids of up to
    /// `max_waiting_bytes` of those that wait.
    pub(crate) fn new(max_held: usize, max_waiting_bytes: usize, load: &Load) -> Self {
        Self {
            commands: VecDeque::new(),
            held: HashSet::new(),
            num_submits: 0,
            submitted_bytes: 0,
            load: *load,
            planned: None,
            max_held,
            max_waiting_bytes,
        }
    }

    /// Bytes of the token ids of requests that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.load.waiting_bytes + self.submitted_bytes
    }

    /// Takes a request that came at `now_s`.
    ///
    /// # Errors
    /// [`EngineError::DuplicateHandle`], [`EngineError::Full`] or [`EngineError::NoWaitingRoom`].
    pub(crate) fn submit(&mut self, request: Request, now_s: f64) -> Result<(), EngineError> {
        if self.held.contains(&request.handle) {
            return Err(EngineError::DuplicateHandle {
                handle: request.handle,
            });
        }
        if self.held.len() >= self.max_held {
            return Err(EngineError::Full {
                what: "requests",
                limit: self.max_held,
            });
        }
        let (given, waiting) = (request.id_bytes(), self.waiting_bytes());
        if waiting > 0 && waiting + given > self.max_waiting_bytes {
            return Err(EngineError::NoWaitingRoom {
                given,
                waiting,
                limit: self.max_waiting_bytes,
            });
        }
        self.submitted_bytes += given;
        self.held.insert(request.handle);
        self.num_submits += 1;
        let submit = Command::Submit(Box::new(request), now_s);
        self.commands.push_back(submit);
        Ok(())
    }

    /// Takes out the commands that end one of the requests that are known already.
    pub(crate) fn take_cancels(&mut self, is_known: impl Fn(u64) -> bool) -> Vec<Cancel> {
        let mut cancels = Vec::new();
        self.commands.retain(|command| match command {
            Command::Cancel(cancel) if is_known(cancel.handle) => {
                cancels.push(*cancel);
                false
            }
            _ => true,
        });
        cancels
    }

    /// Takes the load after what was taken out of here is in it.
    pub(crate) fn publish(&mut self, load: &Load) {
        self.load = *load;
        let submits = self.commands.iter().map(|command| match command {
            Command::Submit(request, _) => request.id_bytes(),
            Command::Cancel(_) | Command::Forget(_) => 0,
        });
        self.submitted_bytes = submits.sum();
    }
}
