//! The ids of running requests.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::error::{ErrorKind, RequestError};
use crate::sync::lock;

/// A tenant, none when everyone may call, and an id that it chose.
type Name = (Option<String>, String);

/// The set of ids in use. Each tenant has its own. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveIds {
    names: Arc<Mutex<HashSet<Name>>>,
}

impl LiveIds {
    /// Takes an id of a tenant until the guard is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateRequest`] when a running request of the tenant has it.
    pub(crate) fn claim(&self, tenant: Option<&str>, id: &str) -> Result<LiveId, RequestError> {
        let name = (tenant.map(str::to_owned), id.to_owned());
        if !lock(&self.names).insert(name.clone()) {
            let message = format!("request_id {id:?} is in use by a running request");
            return Err(RequestError {
                resource: Some(Box::new(("request", id.to_owned()))),
                ..RequestError::new(ErrorKind::DuplicateRequest, message)
            });
        }
        Ok(LiveId {
            ids: self.clone(),
            name,
        })
    }

    /// How many are in use.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.names).len()
    }
}

/// Holds an id.
#[derive(Debug)]
pub(crate) struct LiveId {
    ids: LiveIds,
    name: Name,
}

impl Drop for LiveId {
    fn drop(&mut self) {
        lock(&self.ids.names).remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_free_again_when_its_request_ends() {
        let ids = LiveIds::default();
        let held = ids.claim(Some("x"), "a").unwrap();
        assert_eq!(
            ids.claim(Some("x"), "a").unwrap_err().kind,
            ErrorKind::DuplicateRequest
        );
        drop(held);
        assert!(ids.claim(Some("x"), "a").is_ok());
    }

    #[test]
    fn ids_of_one_tenant_are_free_for_every_other() {
        let ids = LiveIds::default();
        let tenants = [Some("x"), Some("y"), None];
        let held = tenants.map(|tenant| ids.claim(tenant, "a"));
        assert!(held.iter().all(Result::is_ok));
        assert!(ids.claim(Some("y"), "a").is_err());
    }
}
