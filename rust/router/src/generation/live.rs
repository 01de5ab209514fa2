//! The ids of running requests.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::error::{ErrorKind, RequestError};
use crate::sync::lock;

/// The set of ids in use. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveIds {
    ids: Arc<Mutex<HashSet<String>>>,
}

impl LiveIds {
    /// Takes an id until the guard is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateRequest`] when a running request has it.
    pub(crate) fn claim(&self, id: &str) -> Result<LiveId, RequestError> {
        if !lock(&self.ids).insert(id.to_owned()) {
            let message = format!("request_id {id:?} is in use by a running request");
            return Err(RequestError {
                resource: Some(Box::new(("request", id.to_owned()))),
                ..RequestError::new(ErrorKind::DuplicateRequest, message)
            });
        }
        Ok(LiveId {
            ids: self.clone(),
            id: id.to_owned(),
        })
    }
}

/// Holds an id.
#[derive(Debug)]
pub(crate) struct LiveId {
    ids: LiveIds,
    id: String,
}

impl Drop for LiveId {
    fn drop(&mut self) {
        lock(&self.ids.ids).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_free_again_when_its_request_ends() {
        let ids = LiveIds::default();
        let held = ids.claim("a").unwrap();
        assert_eq!(
            ids.claim("a").unwrap_err().kind,
            ErrorKind::DuplicateRequest
        );
        drop(held);
        assert!(ids.claim("a").is_ok());
    }
}
