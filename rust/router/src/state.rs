//! What the handlers of every API share.

use std::sync::Arc;

use crate::access::{ApiKeys, Bodies, Turns};
use crate::config::RouterConfig;
use crate::generation::Generation;
use crate::listen::Answers;
use crate::metrics::{Calls, Metrics};

/// What every API handler needs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AppState {
    /// Runs requests.
    pub generation: Generation,
    /// Says who calls.
    pub keys: Arc<ApiKeys>,
    /// Bounds what arrives.
    pub bodies: Bodies,
    /// Bounds what arrives, and what is answered, where no key is asked for.
    pub open_bodies: Bodies,
    /// The same for calls that last.
    pub lasting_bodies: Bodies,
    /// Ends what nobody reads.
    pub(crate) answers: Answers,
    /// Says which long body is parsed next.
    pub(crate) long_bodies: Turns,
    /// Says what each call did.
    pub(crate) calls: Calls,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// The router's configuration.
    pub config: Arc<RouterConfig>,
}
