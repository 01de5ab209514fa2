//! What a client that wants to go on is checked against, whether its stream runs or was cut.

use std::sync::Arc;

use spectrie_proto::worker_v1::Hello;

use super::go_on::{Resume, unknown};
use super::mark::Mark;
use crate::error::{ErrorKind, RequestError};
use crate::failover::Outline;
use crate::generation::refusal::RETRY_DELAY;
use crate::generation::{Caller, Generation};
use crate::workers::ServedModel;

/// Events behind the tokens of a choice: the end of its text, and its end.
const NUM_ENDS: usize = 2;

impl Outline {
    /// Where the client is, by choice.
    ///
    /// # Errors
    /// A choice or a position that the stream does not have.
    fn marks(&self, resume: &Resume) -> Result<Vec<Mark>, RequestError> {
        let mark = Mark {
            position: 0,
            counted: 0,
            repeats: resume.repeats,
        };
        let mut marks = vec![mark; self.num_tokens.len()];
        for &(index, position) in &resume.starting_after {
            let num_tokens = self.num_tokens.get(index as usize);
            let last = num_tokens.map(|num_tokens| *num_tokens as usize + NUM_ENDS);
            match (marks.get_mut(index as usize), last) {
                (Some(mark), Some(last)) if position as usize <= last => mark.position = position,
                (_, last) => {
                    let message = match last {
                        Some(last) => {
                            format!("given {position} of choice {index}; allowed: 0 to {last}")
                        }
                        None => format!("given choice {index} of {}", self.num_tokens.len()),
                    };
                    return Err(RequestError::invalid("starting_after", message));
                }
            }
        }
        Ok(marks)
    }
}

impl Generation {
    /// Whether a stream may go on as it is asked for: where its client is, and its model.
    ///
    /// # Errors
    /// As [`Generation::resume`], but for what the key or the tenant has in flight.
    pub(super) fn check(
        &self,
        outline: &Outline,
        resume: &Resume,
        caller: &Caller,
    ) -> Result<(Vec<Mark>, Arc<ServedModel>), RequestError> {
        if resume.repeats && !outline.has_form {
            return Err(unknown());
        }
        let marks = outline.marks(resume)?;
        caller.check_model(&outline.model)?;
        caller.check_priority(outline.priority)?;
        let hello = Hello {
            model: outline.model.clone(),
            model_hash: outline.model_hash.clone(),
            ..Hello::default()
        };
        let registry = &self.shared.registry;
        let model = registry.known_model(&hello, &outline.model_digest);
        let model = model.ok_or_else(|| {
            if registry.find(Some(&outline.model)).is_err() {
                // Of a router that has just begun, or whose workers have.
                let message = format!("no worker of {:?} is ready: try again", outline.model);
                return RequestError::retry(ErrorKind::Unavailable, message, RETRY_DELAY);
            }
            let message = format!("other weights are served as {:?} now", outline.model);
            RequestError::new(ErrorKind::FailedPrecondition, message)
        })?;
        Ok((marks, model))
    }
}
