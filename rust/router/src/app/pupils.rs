//! All of this router that holds text, as what the fleet teaches and has forget.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use spectrie_proto::worker_v1::Learn;

use crate::failover::Record;
use crate::fleet::{Gone, ModelKey, Pupils};
use crate::generation::Generation;
use crate::workers::Broadcast;

/// The workers, and the requests that run or can be resumed.
pub(super) struct All {
    pub(super) broadcast: Arc<Broadcast>,
    pub(super) generation: Generation,
}

impl Pupils for All {
    fn teach(&self, model: &ModelKey, learn: &Learn) -> usize {
        self.broadcast.teach(model, learn)
    }

    fn forget<'a>(
        &'a self,
        model: &'a ModelKey,
        namespace: &'a str,
        generation: u64,
    ) -> BoxFuture<'a, bool> {
        // Requests and records of other models than it is about keep theirs.
        if self.broadcast.serves(model) {
            self.generation.forget(namespace);
        }
        Pupils::forget(&*self.broadcast, model, namespace, generation)
    }

    fn end_stream(&self, tenant: Option<&str>, id: &str, why: Gone) {
        self.generation.end_stream(tenant, id, why);
    }

    fn left(&self, tenant: Option<&str>, id: &str, owner: &str) -> Option<Record> {
        self.generation.left(tenant, id, owner)
    }
}
