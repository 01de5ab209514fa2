//! How tokens are drawn, and what is reported of them.

use spectrie_proto::v1;
use spectrie_types::each_sampling_option;
use spectrie_types::limits::{
    MAX_BAD_WORD_BYTES, MAX_BAD_WORDS, MAX_CHOICES, MAX_LOGIT_BIAS_ENTRIES, MAX_TOP_LOGPROBS,
};
use spectrie_types::options::SamplingParameters;

use super::checker::Checker;

/// Most entries of `logit_bias` that are named as bad: a status holds few kilobytes.
const MAX_NAMED_BIASES: usize = 16;

/// Refuses the numbers that are out of the range of their row.
macro_rules! check_numbers {
    ($checker:expr, $sampling:expr; $($field:ident: $type:ty,)+) => {
        $(
            if let Some(value) = $sampling.$field {
                check_number($checker, stringify!($field), f64::from(value));
            }
        )+
    };
}

/// Checks how tokens are drawn.
pub(super) fn check_sampling(checker: &mut Checker, sampling: &v1::Sampling) {
    each_sampling_option!(check_numbers, checker, sampling);
    if let Some(n) = sampling.n {
        checker.check((1..=MAX_CHOICES).contains(&n), "sampling.n", || {
            format!("given {n}; allowed: 1 to {MAX_CHOICES}")
        });
    }
    let count = sampling.logit_bias.len();
    checker.check(
        count <= MAX_LOGIT_BIAS_ENTRIES,
        "sampling.logit_bias",
        || format!("given {count} entries; allowed: up to {MAX_LOGIT_BIAS_ENTRIES}"),
    );
    let mut biases: Vec<_> = sampling.logit_bias.iter().collect();
    biases.retain(|(_, bias)| !(-100.0..=100.0).contains(*bias));
    biases.sort_unstable_by_key(|(id, _)| **id);
    for (id, bias) in biases.into_iter().take(MAX_NAMED_BIASES) {
        let field = format!("sampling.logit_bias[{id}]");
        checker.refuse(field, format!("given {bias}; allowed: -100 to 100"));
    }
    check_bad_words(checker, &sampling.bad_words);
}

fn check_number(checker: &mut Checker, name: &str, value: f64) {
    let mut rows = SamplingParameters::rows().iter();
    let row = rows.find(|row| row.field == name);
    if let Some(message) = row.and_then(|row| row.refusal(value)) {
        checker.refuse(format!("sampling.{name}"), message);
    }
}

fn check_bad_words(checker: &mut Checker, words: &[String]) {
    let count = words.len();
    checker.check(count <= MAX_BAD_WORDS, "sampling.bad_words", || {
        format!("given {count} texts; allowed: up to {MAX_BAD_WORDS}")
    });
    for (index, word) in words.iter().take(MAX_BAD_WORDS).enumerate() {
        if !(1..=MAX_BAD_WORD_BYTES).contains(&word.len()) {
            checker.refuse(
                format!("sampling.bad_words[{index}]"),
                format!(
                    "given {} bytes; allowed: 1 to {MAX_BAD_WORD_BYTES}",
                    word.len()
                ),
            );
        }
    }
}

/// Checks what the answer carries.
pub(super) fn check_output(checker: &mut Checker, output: &v1::Output) {
    for (field, count) in [
        ("output.logprobs", output.logprobs),
        ("output.prompt_logprobs", output.prompt_logprobs),
    ] {
        let count = count.unwrap_or(0);
        checker.check(count <= MAX_TOP_LOGPROBS, field, || {
            format!("given {count}; allowed: 0 to {MAX_TOP_LOGPROBS}")
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(check: impl FnOnce(&mut Checker)) -> Vec<String> {
        let mut checker = Checker::default();
        check(&mut checker);
        let violations = checker.into_violations().into_iter();
        violations.map(|violation| violation.field).collect()
    }

    #[test]
    fn typical_mass_is_above_zero_and_at_most_one() {
        let check = |value| {
            let sampling = v1::Sampling {
                typical_p: Some(value),
                ..Default::default()
            };
            fields(|checker| check_sampling(checker, &sampling)).is_empty()
        };
        assert!(check(0.5) && check(1.0));
        assert!(!check(0.0) && !check(1.5) && !check(f32::NAN));
    }

    #[test]
    fn biases_out_of_range_are_each_named_by_token() {
        let check = |logit_bias: &[(u32, f32)]| {
            let sampling = v1::Sampling {
                logit_bias: logit_bias.iter().copied().collect(),
                ..Default::default()
            };
            fields(|checker| check_sampling(checker, &sampling))
        };
        assert_eq!(
            check(&[(8, -500.0), (5, 100.0), (7, 101.0)]),
            ["sampling.logit_bias[7]", "sampling.logit_bias[8]"]
        );
        let many: Vec<_> = (0..100).map(|id| (id, 101.0)).collect();
        assert_eq!(check(&many).len(), MAX_NAMED_BIASES);
    }

    #[test]
    fn barred_texts_are_counted_and_measured() {
        let check = |bad_words: Vec<String>| {
            let sampling = v1::Sampling {
                bad_words,
                ..Default::default()
            };
            fields(|checker| check_sampling(checker, &sampling))
        };
        assert!(check(vec!["x".repeat(MAX_BAD_WORD_BYTES); MAX_BAD_WORDS]).is_empty());
        assert_eq!(
            check(vec!["x".into(), String::new(), "x".repeat(129)]),
            ["sampling.bad_words[1]", "sampling.bad_words[2]"]
        );
        assert_eq!(check(vec!["x".into(); 65]), ["sampling.bad_words"]);
    }

    #[test]
    fn log_probabilities_of_at_most_twenty_tokens_are_reported() {
        let output = |logprobs, prompt_logprobs| v1::Output {
            logprobs: Some(logprobs),
            prompt_logprobs: Some(prompt_logprobs),
            ..Default::default()
        };
        assert!(fields(|checker| check_output(checker, &output(0, 20))).is_empty());
        assert_eq!(
            fields(|checker| check_output(checker, &output(21, 99))),
            ["output.logprobs", "output.prompt_logprobs"]
        );
    }
}
