//! Whether prompt and answer fit: into the context, and into a message.

use spectrie_proto::v1;

use crate::refusal::{Refusal, RefusalKind};

/// Most log-probabilities of a prompt: about 7 MB as a message.
const MAX_PROMPT_LOGPROBS: usize = 1 << 18;

/// The number of tokens to generate, once prompt and answer are known to fit.
pub(super) fn max_tokens(
    num_prompt_tokens: usize,
    stopping: &v1::Stopping,
    max_context: u32,
) -> Result<u32, Refusal> {
    let too_long = |field, message| Refusal::new(RefusalKind::ContextLength, field, message);
    let prompt_tokens = u32::try_from(num_prompt_tokens).unwrap_or(u32::MAX);
    if prompt_tokens >= max_context {
        let longest = max_context.saturating_sub(1);
        let message = format!("given a prompt of {prompt_tokens} tokens; allowed: 1 to {longest}");
        return Err(too_long("prompt", message));
    }
    let rest = max_context - prompt_tokens;
    let max_tokens = stopping.max_tokens.unwrap_or(rest);
    if max_tokens > rest {
        let message = format!(
            "given {max_tokens} after a prompt of {prompt_tokens} tokens; allowed: 1 to {rest} \
             (the context is {max_context} tokens)"
        );
        return Err(too_long("stopping.max_tokens", message));
    }
    let min_tokens = stopping.min_tokens.unwrap_or(0);
    if min_tokens > max_tokens {
        return Err(Refusal::invalid(
            "stopping.min_tokens",
            format!("given {min_tokens}; allowed: up to {max_tokens}, the rest of the context"),
        ));
    }
    Ok(max_tokens)
}

/// Refuses prompts whose log-probabilities would make a larger message than a stream carries.
pub(super) fn check_prompt_logprobs(
    num_prompt_tokens: usize,
    num_top: Option<u32>,
) -> Result<(), Refusal> {
    let Some(num_top) = num_top else {
        return Ok(());
    };
    let num_values = num_prompt_tokens.saturating_mul(num_top as usize + 1);
    if num_values > MAX_PROMPT_LOGPROBS {
        let message = format!(
            "given {num_top} for a prompt of {num_prompt_tokens} tokens; allowed: up to \
             {MAX_PROMPT_LOGPROBS} log-probabilities in all, one and {num_top} for each token"
        );
        return Err(Refusal::invalid("output.prompt_logprobs", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_max_tokens_is_the_rest_of_the_context() {
        let stopping = |max_tokens, min_tokens| v1::Stopping {
            max_tokens,
            min_tokens,
            ..Default::default()
        };
        let none = stopping(None, None);
        assert_eq!(max_tokens(10, &none, 100), Ok(90));
        for (num_prompt_tokens, stopping, kind, field, words) in [
            (100, none, RefusalKind::ContextLength, "prompt", "1 to 99"),
            (
                10,
                stopping(Some(91), None),
                RefusalKind::ContextLength,
                "stopping.max_tokens",
                "given 91 after a prompt of 10 tokens; allowed: 1 to 90",
            ),
            (
                10,
                stopping(None, Some(91)),
                RefusalKind::InvalidField,
                "stopping.min_tokens",
                "given 91; allowed: up to 90",
            ),
        ] {
            let refusal = max_tokens(num_prompt_tokens, &stopping, 100).unwrap_err();
            let violation = &refusal.violations[0];
            assert_eq!((refusal.kind, violation.field.as_str()), (kind, field));
            assert!(violation.message.contains(words), "{violation}");
        }
    }

    #[test]
    fn log_probabilities_of_a_prompt_are_bounded_in_all() {
        assert_eq!(check_prompt_logprobs(1 << 18, None), Ok(()));
        assert_eq!(check_prompt_logprobs(1 << 18, Some(0)), Ok(()));
        let refusal = check_prompt_logprobs(1 << 17, Some(2)).unwrap_err();
        assert_eq!(refusal.violations[0].field, "output.prompt_logprobs");
    }
}
