//! What operators do to requests.

use crate::error::{ErrorKind, RequestError, shown};
use crate::generation::Generation;
use crate::sync::lock;

/// What an answer over HTTP puts before its request's name.
const PREFIXES: [&str; 2] = ["chatcmpl-", "cmpl-"];

impl Generation {
    /// Ends a request for good: one that waits, runs, or was cut and might be resumed; of a call with
    /// several prompts every one. Gives how many ended. `id` may be an HTTP answer's.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], or several tenants have one of this id and none is named.
    pub(crate) fn abort(&self, tenant: Option<&str>, id: &str) -> Result<usize, RequestError> {
        let ids = PREFIXES.iter().filter_map(|prefix| id.strip_prefix(prefix));
        for id in [id].into_iter().chain(ids) {
            let num_ended = self.abort_exactly(tenant, id)?;
            if num_ended > 0 {
                return Ok(num_ended);
            }
        }
        let message = format!("no request {:?} runs, waits or can be resumed", shown(id));
        Err(RequestError::new(ErrorKind::NotFound, message))
    }

    fn abort_exactly(&self, tenant: Option<&str>, id: &str) -> Result<usize, RequestError> {
        let first_part = format!("{id}-0");
        let mut tenants = self.tenants_of(id);
        let has_parts = tenants.is_empty();
        if has_parts {
            tenants = self.tenants_of(&first_part);
        }
        if let Some(tenant) = tenant {
            tenants.retain(|one| one.as_deref() == Some(tenant));
        }
        match tenants.as_slice() {
            [] => Ok(0),
            [tenant] if has_parts => {
                let mut num_ended = 0;
                while self.abort_one(tenant.as_deref(), &format!("{id}-{num_ended}")) {
                    num_ended += 1;
                }
                Ok(num_ended)
            }
            [tenant] => Ok(usize::from(self.abort_one(tenant.as_deref(), id))),
            several => {
                let names = several.iter().flatten().map(String::as_str);
                let message = format!(
                    "{} tenants have a request {:?}, name one: {}",
                    several.len(),
                    shown(id),
                    names.collect::<Vec<_>>().join(", ")
                );
                Err(RequestError::new(ErrorKind::FailedPrecondition, message))
            }
        }
    }

    fn abort_one(&self, tenant: Option<&str>, id: &str) -> bool {
        let live = self.shared.live.find(tenant, id);
        let is_live = live.is_some();
        if let Some(live) = live {
            live.abort();
        }
        let was_kept = lock(&self.shared.records).drop_one(tenant, id);
        is_live || was_kept
    }

    fn tenants_of(&self, id: &str) -> Vec<Option<String>> {
        let mut tenants = self.shared.live.tenants_of(id);
        tenants.extend(lock(&self.shared.records).tenants_of(id));
        tenants.sort();
        tenants.dedup();
        tenants
    }

    /// Notes that a namespace's text was forgotten: nothing of its requests is kept or taught again.
    pub(crate) fn forget(&self, namespace: &str) {
        self.shared.live.forget(namespace);
        lock(&self.shared.records).forget(namespace);
    }
}
