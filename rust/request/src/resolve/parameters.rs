//! The options of a request in the messages of the worker's stream.

use spectrie_proto::{v1, worker_v1};
use spectrie_types::each_sampling_option;
use spectrie_types::options::SamplingParameters;

use crate::model::SamplingDefaults;

/// Every number that decides a token: the request's, else the model's, else the table's.
macro_rules! resolved {
    ($sampling:expr, $model:expr, $table:expr, $words:expr; $($field:ident: $type:ty,)+) => {
        worker_v1::SamplingParameters {
            $( $field: $sampling.$field.or($model.$field).unwrap_or($table.$field), )+
            logit_bias: $sampling.logit_bias,
            bad_words: $words,
        }
    };
}

/// Every number that decides a token, and what the answer may not contain.
pub(super) fn sampling_parameters(
    sampling: v1::Sampling,
    bad_words: Vec<worker_v1::TokenIds>,
    defaults: &SamplingDefaults,
) -> worker_v1::SamplingParameters {
    let (model, table) = (&defaults.0, SamplingParameters::default());
    each_sampling_option!(resolved, sampling, model, table, bad_words)
}

/// The form of the answer.
pub(super) fn worker_structured(structured: v1::Structured) -> worker_v1::Structured {
    use v1::structured::Constraint;
    use worker_v1::structured::Constraint as Worker;
    let constraint = structured.constraint.map(|constraint| match constraint {
        Constraint::JsonSchema(text) => Worker::JsonSchema(text),
        Constraint::JsonObject(wanted) => Worker::JsonObject(wanted),
        Constraint::Regex(text) => Worker::Regex(text),
        Constraint::Grammar(text) => Worker::Grammar(text),
        Constraint::Choice(choices) => Worker::Choice(worker_v1::Choices {
            texts: choices.texts,
        }),
    });
    worker_v1::Structured { constraint }
}

/// The mode to ask for; the worker's own setting when the request says nothing.
pub(super) fn speculation_mode(
    speculation: &v1::Speculation,
) -> Option<worker_v1::SpeculationMode> {
    use worker_v1::SpeculationMode as Worker;
    if speculation.enabled == Some(false) {
        return Some(Worker::Off);
    }
    match speculation.mode() {
        v1::SpeculationMode::Unspecified => speculation.enabled.map(|_| Worker::Auto),
        v1::SpeculationMode::Auto => Some(Worker::Auto),
        v1::SpeculationMode::Off => Some(Worker::Off),
        v1::SpeculationMode::Bfs => Some(Worker::Bfs),
        v1::SpeculationMode::Prob => Some(Worker::Prob),
        v1::SpeculationMode::Tiers => Some(Worker::Tiers),
        v1::SpeculationMode::Eagle2 => Some(Worker::Eagle2),
        v1::SpeculationMode::Chain => Some(Worker::Chain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_is_the_requests_own_or_none() {
        use worker_v1::SpeculationMode as Worker;
        let mode = |enabled, wanted: v1::SpeculationMode| {
            speculation_mode(&v1::Speculation {
                enabled,
                mode: wanted.into(),
                ..Default::default()
            })
        };
        assert_eq!(mode(None, v1::SpeculationMode::Unspecified), None);
        assert_eq!(
            mode(Some(true), v1::SpeculationMode::Unspecified),
            Some(Worker::Auto)
        );
        assert_eq!(
            mode(Some(false), v1::SpeculationMode::Bfs),
            Some(Worker::Off)
        );
        assert_eq!(mode(None, v1::SpeculationMode::Prob), Some(Worker::Prob));
    }
}
