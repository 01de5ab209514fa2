//! The first attempt: requests look for their model and a worker of it, waiting for what is expected.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spectrie_proto::v1::GenerateRequest;
use spectrie_proto::worker_v1::Start;
use spectrie_request::resolve::{check_reach, held_bytes};

use crate::error::RequestError;
use crate::generation::refusal::refused;
use crate::generation::resolve::Resolved;
use crate::generation::wait::{Bounds, Wait};
use crate::generation::{Caller, Generation};
use crate::metrics::Call;
use crate::workers::{ChoiceGuard, Dispatch, Mailbox, Order, Prefix, Refusal, ServedModel};

impl Generation {
    /// The wait of a caller's request, which has not begun.
    pub(in crate::generation) fn wait(&self, caller: &Caller, deadline: Instant) -> Wait<'_> {
        let shared = &self.shared;
        Wait::new(
            shared.registry.changes(),
            &shared.draining,
            shared.waiting.of(caller.tenant()),
            Bounds {
                limit: Duration::from_secs_f64(shared.config.workers.wait_s),
                deadline,
            },
        )
    }

    /// Finds the model, waiting for a worker that is expected, but with no prompt that can never fit it.
    pub(in crate::generation) async fn find_model(
        &self,
        request: &GenerateRequest,
        caller: &Caller,
        wait: &mut Wait<'_>,
    ) -> Result<(Arc<ServedModel>, u32), RequestError> {
        let registry = &self.shared.registry;
        let name = request.model.as_deref();
        loop {
            wait.begin_look();
            match registry.find(name) {
                Ok(found) => return Ok(found),
                Err(Refusal::Coming) => {
                    if let Some((model, max_context)) = registry.remembered(name) {
                        caller.check_model(&model.name)?;
                        check_reach(&model.text, request.prompt.as_ref(), max_context)?;
                    }
                    wait.next(|| held_bytes(request)).await?;
                }
                Err(refusal) => return Err(caller.refused(refusal, name)),
            }
        }
    }

    /// Sends all choices to one worker, waiting for one that is expected.
    pub(in crate::generation) async fn dispatch(
        &self,
        resolved: &Resolved,
        mailbox: &Arc<Mailbox>,
        wait: &mut Wait<'_>,
        call: &Call,
    ) -> Result<Vec<ChoiceGuard>, RequestError> {
        let request = &resolved.request;
        let model = &resolved.model.name;
        // A pass over the prompt, where it decides anything.
        let prefix = if self.shared.registry.places_by_prefix(model) {
            Prefix::new(&request.namespace, &request.prompt_ids)
        } else {
            Prefix::default()
        };
        let order = Order {
            model,
            tenant: request.share(),
            num_choices: request.num_choices as usize,
            needs_context: request.needs_context(),
            cache_key: request.prompt_cache_key.as_deref(),
            prefix: &prefix,
        };
        let start = |index| Start {
            traceparent: call.traceparent(resolved.attempt(index, 0)),
            ..resolved.start(index, 0)
        };
        let dispatch = |index| Dispatch {
            start: start(index),
            mailbox: mailbox.clone(),
            index: index as usize,
            is_alone: false,
        };
        loop {
            wait.begin_look();
            let choices = || (0..request.num_choices).map(dispatch).collect();
            match self
                .shared
                .registry
                .dispatch(&resolved.model, &order, choices)
            {
                Ok(guards) => return Ok(guards),
                Err(Refusal::Coming) => wait.next(|| request.held_bytes()).await?,
                Err(refusal) => return Err(refused(refusal, Some(order.model))),
            }
        }
    }
}
