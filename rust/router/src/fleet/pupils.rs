//! The workers of this router, as the fleet knows them.

use futures_util::future::BoxFuture;
use spectrie_proto::worker_v1::Learn;

use super::keys::ModelKey;
use crate::failover::Record;

/// Why a stream is to end here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Its client asks another router for it.
    Wanted,
    /// It goes on at another router.
    Lost,
}

/// Those who are taught, and who forget.
pub(crate) trait Pupils: Send + Sync + 'static {
    /// Passes text on to all workers of a model; the number that lag, and did not get it.
    fn teach(&self, model: &ModelKey, learn: &Learn) -> usize;

    /// Has all workers of a model forget this generation of a namespace that have not yet; whether
    /// there are any and all did.
    fn forget<'a>(
        &'a self,
        model: &'a ModelKey,
        namespace: &'a str,
        generation: u64,
    ) -> BoxFuture<'a, bool>;

    /// Ends a tenant's stream, if it runs; does nothing where no streams are.
    fn end_stream(&self, tenant: Option<&str>, id: &str, why: Gone) {
        let _ = (tenant, id, why);
    }

    /// The record of a tenant's stream, if it is still the one that `owner` left here.
    fn left(&self, tenant: Option<&str>, id: &str, owner: &str) -> Option<Record> {
        let _ = (tenant, id, owner);
        None
    }
}
