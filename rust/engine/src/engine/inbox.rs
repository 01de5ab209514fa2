//! What arrived since the last plan.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use spectrie_trie::tenant_of;
use spectrie_types::{Holdings, Standing};

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

/// A request that has not ended.
#[derive(Debug)]
struct Held {
    tenant: Arc<str>,
    bytes: usize,
}

/// Requests and commands that the next plan takes, and the bounds of what is held.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) commands: VecDeque<Command>,
    /// Requests that have not ended, by handle, those in `commands` included.
    held: HashMap<u64, Held>,
    /// What each tenant has of these: their number, and the bytes of their token ids.
    counts: Holdings,
    bytes: Holdings,
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
            held: HashMap::new(),
            counts: Holdings::default(),
            bytes: Holdings::default(),
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

    /// Whether a request has not ended.
    pub(crate) fn holds(&self, handle: u64) -> bool {
        self.held.contains_key(&handle)
    }

    /// Notes that a request ended.
    pub(crate) fn release(&mut self, handle: u64) {
        if let Some(held) = self.held.remove(&handle) {
            self.counts.take(&held.tenant, 1);
            self.bytes.take(&held.tenant, held.bytes);
        }
    }

    /// Takes a request that came at `now_s`. A tenant that holds no more than an equal part of a bound
    /// is not refused, however much the others hold ([`Holdings`]).
    ///
    /// # Errors
    /// [`EngineError::DuplicateHandle`], [`EngineError::Full`] or [`EngineError::NoWaitingRoom`].
    pub(crate) fn submit(&mut self, request: Request, now_s: f64) -> Result<(), EngineError> {
        if self.holds(request.handle) {
            return Err(EngineError::DuplicateHandle {
                handle: request.handle,
            });
        }
        let namespace = &request.namespace;
        let tenant = request.tenant.as_deref();
        let tenant = tenant.unwrap_or_else(|| tenant_of(namespace));
        let standing = self.counts.standing(tenant);
        let too_many = standing.excess(1, self.max_held, self.max_held) > 0;
        if too_many {
            return Err(EngineError::Full {
                what: "requests",
                limit: self.max_held,
            });
        }
        let (given, waiting) = (request.id_bytes(), self.waiting_bytes());
        // What runs counts as the tenant's own too: which of its requests wait is known at a plan.
        let standing = Standing {
            total: waiting,
            ..self.bytes.standing(tenant)
        };
        let limit = self.max_waiting_bytes;
        if waiting > 0 && standing.excess(given, limit, limit) > 0 {
            return Err(EngineError::NoWaitingRoom {
                given,
                waiting,
                limit,
            });
        }
        self.submitted_bytes += given;
        self.counts.add(tenant, 1);
        let held = Held {
            tenant: self.bytes.add(tenant, given),
            bytes: given,
        };
        self.held.insert(request.handle, held);
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
