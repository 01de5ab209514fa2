//! What operators do to requests.

use crate::error::{ErrorKind, RequestError, shown};
use crate::generation::Generation;
use crate::generation::live::Name;
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
        let mut names = self.names(tenant, |name| name == id);
        if names.is_empty() {
            names = self.names(tenant, |name| is_part(name, id));
        }
        let mut tenants: Vec<_> = names.iter().map(|(tenant, _)| tenant).collect();
        tenants.dedup();
        if tenants.len() > 1 {
            let names = tenants.iter().filter_map(|tenant| tenant.as_deref());
            let message = format!(
                "{} tenants have a request {:?}, name one: {}",
                tenants.len(),
                shown(id),
                names.collect::<Vec<_>>().join(", ")
            );
            return Err(RequestError::new(ErrorKind::FailedPrecondition, message));
        }
        let ended = names
            .iter()
            .filter(|(tenant, name)| self.abort_one(tenant.as_deref(), name));
        Ok(ended.count())
    }

    fn abort_one(&self, tenant: Option<&str>, id: &str) -> bool {
        let abort = || {
            let live = self.shared.live.find(tenant, id);
            live.inspect(|live| live.abort()).is_some()
        };
        let was_live = abort();
        let was_kept = lock(&self.shared.records).drop_one(tenant, id);
        self.shared.fleet.withdraw(tenant, id);
        // It may have gone on from its record meanwhile.
        let is_live = abort();
        was_live || was_kept || is_live
    }

    /// The requests of a tenant, or of all, with such ids, sorted.
    fn names(&self, tenant: Option<&str>, is_meant: impl Fn(&str) -> bool) -> Vec<Name> {
        let mut names = self.shared.live.names(&is_meant);
        names.extend(lock(&self.shared.records).names(&is_meant));
        // They may have gone on from their records meanwhile.
        names.extend(self.shared.live.names(&is_meant));
        names.retain(|(one, _)| tenant.is_none() || one.as_deref() == tenant);
        names.sort();
        names.dedup();
        names
    }

    /// Notes that a namespace's text was forgotten: nothing of its requests is kept or taught again.
    pub(crate) fn forget(&self, namespace: &str) {
        self.shared.live.forget(namespace);
        lock(&self.shared.records).forget(namespace);
        self.shared.fleet.withdraw_namespace(namespace);
        // Those that went on from their records meanwhile.
        self.shared.live.forget(namespace);
    }
}

/// Whether `name` is that of one prompt of the call `id`.
fn is_part(name: &str, id: &str) -> bool {
    let number = name
        .strip_prefix(id)
        .and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}
