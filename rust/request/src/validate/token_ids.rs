//! Token ids against the vocabulary.

use spectrie_proto::v1;

use super::checker::Checker;
use crate::Violation;

/// Violations of a bare list of token ids, named `field`.
pub fn check_id_list(field: &str, ids: &[u32], vocabulary_size: u32) -> Vec<Violation> {
    let mut checker = Checker::default();
    check_ids(&mut checker, field, ids, vocabulary_size);
    checker.into_violations()
}

/// Refuses token ids at or above `vocabulary_size`, at most one per list.
pub(super) fn check_token_ids(
    checker: &mut Checker,
    request: &v1::GenerateRequest,
    vocabulary_size: u32,
) {
    if let Some(v1::generate_request::Prompt::TokenIds(prompt)) = &request.prompt {
        check_ids(checker, "token_ids.ids", &prompt.ids, vocabulary_size);
    }
    if let Some(stopping) = &request.stopping {
        let field = "stopping.stop_token_ids";
        check_ids(checker, field, &stopping.stop_token_ids, vocabulary_size);
    }
    if let Some(sampling) = &request.sampling
        && let Some((id, _)) = sampling.logit_bias.range(vocabulary_size..).next()
    {
        refuse_id(checker, "sampling.logit_bias".into(), *id, vocabulary_size);
    }
    let prediction = request.speculation.as_ref();
    let prediction = prediction.and_then(|speculation| speculation.prediction.as_ref());
    if let Some(v1::prediction::Content::TokenIds(prediction)) =
        prediction.and_then(|prediction| prediction.content.as_ref())
    {
        let field = "speculation.prediction.token_ids.ids";
        check_ids(checker, field, &prediction.ids, vocabulary_size);
    }
}

/// Refuses the first id outside the vocabulary.
fn check_ids(checker: &mut Checker, field: &str, ids: &[u32], vocabulary_size: u32) {
    if let Some((index, id)) = ids
        .iter()
        .enumerate()
        .find(|(_, id)| **id >= vocabulary_size)
    {
        refuse_id(checker, format!("{field}[{index}]"), *id, vocabulary_size);
    }
}

/// Describes the allowed ids.
fn refuse_id(checker: &mut Checker, field: String, id: u32, vocabulary_size: u32) {
    let largest = vocabulary_size.saturating_sub(1);
    checker.refuse(
        field,
        format!("given token id {id}; allowed: 0 to {largest}"),
    );
}
