//! Wiring: what the servers share.

use std::sync::Arc;

use crate::auth::ApiKeys;
use crate::config::RouterConfig;
use crate::generation::Generation;
use crate::metrics::Metrics;

/// What every API handler needs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AppState {
    /// Runs requests.
    pub generation: Generation,
    /// Says who calls.
    pub keys: Arc<ApiKeys>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// What the router was told.
    pub config: Arc<RouterConfig>,
}
