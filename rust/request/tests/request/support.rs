//! A model without weights: its tokenizer's tokens are single bytes, and the end.

use spectrie_proto::v1;
use spectrie_proto::v1::generate_request::Prompt;
use spectrie_request::{
    Caller, Model, Naming, Refusal, ResolvedRequest, SamplingDefaults, resolve,
};
use spectrie_text::TextFiles;

pub(crate) use crate::byte_tokenizer::END_TOKEN;
use crate::byte_tokenizer::{CHAT_TEMPLATE, tokenizer_json};

/// Longest prompt plus answer.
pub(crate) const MAX_CONTEXT: u32 = 64;

/// Tokenizer and, when asked for, a chat template.
pub(crate) fn files(with_template: bool) -> TextFiles {
    let template = with_template.then_some(CHAT_TEMPLATE.as_bytes());
    TextFiles::from_bytes(tokenizer_json().as_bytes(), None, template).unwrap()
}

/// The model of `files`.
pub(crate) fn model<'a>(files: &'a TextFiles, defaults: &'a SamplingDefaults) -> Model<'a> {
    Model {
        name: "bytes",
        vocabulary_size: END_TOKEN + 1,
        max_context: MAX_CONTEXT,
        text: files,
        defaults,
    }
}

/// A request of a text.
pub(crate) fn text(text: &str) -> v1::GenerateRequest {
    v1::GenerateRequest {
        prompt: Some(Prompt::Text(text.into())),
        ..Default::default()
    }
}

/// Resolves a request of a caller without a key.
pub(crate) fn resolved(request: v1::GenerateRequest) -> Result<ResolvedRequest, Refusal> {
    let (files, defaults) = (files(true), SamplingDefaults::default());
    let caller = Caller {
        tenant: None,
        naming: Naming::Refused,
    };
    resolve("r".into(), request, model(&files, &defaults), caller)
}
