//! The running requests by their names, and what others may do to one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tokio_util::sync::CancellationToken;

use super::reader::Slot;
use crate::error::{ErrorKind, RequestError};
use crate::failover::Outline;
use crate::failover::ResumeToken;
use crate::sync::lock;

/// A tenant, none when everyone may call, and an id that it chose.
pub(super) type Name = (Option<String>, String);

/// Requests that run or wait. Each tenant has names of its own. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveIds {
    by_name: Arc<Mutex<HashMap<Name, Arc<Live>>>>,
}

impl LiveIds {
    /// Takes an id of a tenant until the guard is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateRequest`] when a running request of the tenant has it.
    pub(crate) fn claim(&self, tenant: Option<&str>, id: &str) -> Result<LiveId, RequestError> {
        let name = (tenant.map(str::to_owned), id.to_owned());
        let live = Arc::new(Live::default());
        let mut by_name = lock(&self.by_name);
        if by_name.contains_key(&name) {
            let message = format!("request_id {id:?} is in use by a running request");
            return Err(RequestError {
                resource: Some(Box::new(("request", id.to_owned()))),
                ..RequestError::new(ErrorKind::DuplicateRequest, message)
            });
        }
        by_name.insert(name.clone(), live.clone());
        drop(by_name);
        Ok(LiveId {
            ids: self.clone(),
            name,
            live,
        })
    }

    /// The request of this name.
    pub(super) fn find(&self, tenant: Option<&str>, id: &str) -> Option<Arc<Live>> {
        let name = (tenant.map(str::to_owned), id.to_owned());
        lock(&self.by_name).get(&name).cloned()
    }

    /// Whose requests they are and how they are named, of those with such an id.
    pub(super) fn names(&self, is_meant: impl Fn(&str) -> bool) -> Vec<Name> {
        let by_name = lock(&self.by_name);
        let names = by_name.keys().filter(|(_, name)| is_meant(name));
        names.cloned().collect()
    }

    /// Notes that a namespace was forgotten under its running requests.
    pub(super) fn forget(&self, namespace: &str) {
        for live in lock(&self.by_name).values() {
            let mut state = lock(&live.state);
            state.is_forgotten |= state.namespace.as_deref() == Some(namespace);
        }
    }

    /// The ids of those that give events now.
    #[cfg(test)]
    pub(super) fn streams(&self) -> Vec<String> {
        let by_name = lock(&self.by_name);
        let is_stream = |live: &Arc<Live>| lock(&live.state).stream.strong_count() > 0;
        let streams = by_name.iter().filter(|(_, live)| is_stream(live));
        let mut ids: Vec<_> = streams.map(|((_, id), _)| id.clone()).collect();
        ids.sort();
        ids
    }

    /// How many are in use.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.by_name).len()
    }
}

/// A running request, as others see it.
#[derive(Debug, Default)]
pub(super) struct Live {
    state: Mutex<State>,
    /// Ends a request that is not a stream yet.
    aborted: CancellationToken,
    /// Its name is free again, and what it leaves was left.
    left: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    /// Known once the request is resolved.
    namespace: Option<String>,
    is_forgotten: bool,
    /// Of a stream that its client can go on with.
    outline: Option<Outline>,
    stream: Weak<Slot>,
    /// What ended it while nothing gave its events yet.
    ended: Option<RequestError>,
    /// Who ended it first, and as what.
    ender: Option<(Ender, ErrorKind)>,
}

/// Who ends a running request before its time, its client aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ender {
    /// By `Abort`.
    Operator,
    /// This router, which ends itself.
    Shutdown,
    /// Another connection or router, where the stream goes on.
    Successor,
}

impl Ender {
    /// Its name in metrics.
    pub(super) fn cause(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Shutdown => "shutdown",
            Self::Successor => "moved",
        }
    }
}

impl Live {
    /// Notes which stream gives the request's events.
    pub(super) fn runs_as(&self, stream: &Weak<Slot>) {
        let ended = {
            let mut state = lock(&self.state);
            state.stream = stream.clone();
            state.ended.take()
        };
        if let (Some(error), Some(stream)) = (ended, stream.upgrade()) {
            stream.end(error);
        }
    }

    /// Ends its stream with an error, in the moment that it has one; what it was at is kept, if it
    /// can be gone on with.
    pub(super) fn end(&self, ender: Ender, error: RequestError) {
        let mut state = lock(&self.state);
        state.ender.get_or_insert((ender, error.kind));
        let Some(stream) = state.stream.upgrade() else {
            state.ended.get_or_insert(error);
            return;
        };
        drop(state);
        stream.end(error);
    }

    /// Resolves when its name is free again. A stream that was cut has left its record then.
    pub(super) async fn left(&self) {
        self.left.cancelled().await;
    }

    /// Ends the request for good, whether it runs or waits.
    pub(super) fn abort(&self) {
        self.aborted.cancel();
        self.end(Ender::Operator, aborted());
    }

    /// Resolves when the request is to end for good.
    pub(super) async fn until_aborted(&self) -> RequestError {
        self.aborted.cancelled().await;
        aborted()
    }

    /// Where its stream is, if `shown` is the token to go on with it.
    pub(super) fn outline(&self, shown: &ResumeToken) -> Option<Outline> {
        let state = lock(&self.state);
        state
            .outline
            .clone()
            .filter(|outline| outline.token.is(shown))
    }
}

fn aborted() -> RequestError {
    RequestError::new(ErrorKind::Cancelled, "an operator ended the request")
}

/// Holds an id.
#[derive(Debug)]
pub(crate) struct LiveId {
    ids: LiveIds,
    name: Name,
    live: Arc<Live>,
}

impl LiveId {
    /// What others find by the id.
    pub(super) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// The id.
    pub(super) fn id(&self) -> &str {
        &self.name.1
    }

    /// Whose request it is; none when everyone may call.
    pub(super) fn tenant(&self) -> Option<&str> {
        self.name.0.as_deref()
    }

    /// Notes whose draft memory the request uses, and the stream that its client can go on with.
    pub(super) fn is_of(&self, namespace: &str, outline: Option<Outline>) {
        let mut state = lock(&self.live.state);
        state.namespace = Some(namespace.to_owned());
        state.outline = outline;
    }

    /// Notes how many tokens of a choice count, and whether it has ended.
    pub(super) fn counts(&self, index: usize, num_tokens: u32, has_ended: bool) {
        let mut state = lock(&self.live.state);
        let Some(outline) = &mut state.outline else {
            return;
        };
        let noted = outline.num_tokens.get_mut(index);
        if let (Some(count), Some(ended)) = (noted, outline.has_ended.get_mut(index)) {
            (*count, *ended) = (num_tokens, has_ended);
        }
    }

    /// Notes that it cannot be gone on with any more.
    pub(super) fn cannot_be_resumed(&self) {
        lock(&self.live.state).outline = None;
    }

    /// Whether its namespace was forgotten meanwhile.
    pub(super) fn is_forgotten(&self) -> bool {
        lock(&self.live.state).is_forgotten
    }

    /// Notes who ends it, where its stream finds that itself.
    pub(super) fn ends_by(&self, ender: Ender, kind: ErrorKind) {
        lock(&self.live.state).ender.get_or_insert((ender, kind));
    }

    /// Who ended it and as what, if it was not its client.
    pub(super) fn ender(&self) -> Option<(Ender, ErrorKind)> {
        lock(&self.live.state).ender
    }

    /// Whether it was ended for good.
    pub(super) fn is_aborted(&self) -> bool {
        self.live.aborted.is_cancelled()
    }
}

impl Drop for LiveId {
    fn drop(&mut self) {
        lock(&self.ids.by_name).remove(&self.name);
        self.live.left.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ended_a_request_first_is_known() {
        let ids = LiveIds::default();
        let held = ids.claim(None, "a").unwrap();
        assert_eq!(held.ender(), None);
        let error = RequestError::new(ErrorKind::Unavailable, "this server is shutting down");
        held.live().end(Ender::Shutdown, error);
        held.live().abort();
        assert_eq!(
            held.ender(),
            Some((Ender::Shutdown, ErrorKind::Unavailable))
        );
        assert_eq!(Ender::Shutdown.cause(), "shutdown");
    }

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
        assert_eq!(ids.names(|name| name == "a").len(), 3);
        assert!(ids.find(Some("y"), "a").is_some() && ids.find(Some("y"), "b").is_none());
    }

    #[test]
    fn only_requests_of_a_forgotten_namespace_hear_of_it() {
        let ids = LiveIds::default();
        let [first, other] = ["a", "b"].map(|id| ids.claim(None, id).unwrap());
        first.is_of("n", None);
        other.is_of("m", None);
        ids.forget("n");
        assert!(first.is_forgotten() && !other.is_forgotten());
    }
}
