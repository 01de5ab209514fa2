//! The slow truth that the drafter is tested against: n-gram counts in a map.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proptest::prelude::*;

use crate::calibration::Calibration;
use crate::mixer::{Mixer, logit};
use crate::places::Places;
use crate::score::{ESCAPES, LEVELS, WEIGHTS};
use crate::{
    DraftConfig, DraftMemory, DraftMode, DraftTree, Drafter, MAX_MATCH, MemoryConfig, SEPARATOR,
    Source, TokenId,
};

/// Continuations of every context of up to this many tokens: a match and the deepest draft.
const MAX_CONTEXT: usize = MAX_MATCH + 8;

/// For each context, how often each token followed it.
#[derive(Default)]
struct Counts(HashMap<Vec<TokenId>, BTreeMap<TokenId, u16>>);

impl Counts {
    fn teach(&mut self, text: &[TokenId]) {
        for document in text.split(|&token| token == SEPARATOR) {
            for end in 1..document.len() {
                for length in 1..=end.min(MAX_CONTEXT) {
                    let context = document[end - length..end].to_vec();
                    *self
                        .0
                        .entry(context)
                        .or_default()
                        .entry(document[end])
                        .or_default() += 1;
                }
            }
        }
    }

    fn after(&self, context: &[TokenId], token: TokenId) -> u16 {
        self.0
            .get(context)
            .and_then(|next| next.get(&token))
            .copied()
            .unwrap_or(0)
    }
}

/// What a request may draft from.
struct Truth {
    prompt: Vec<TokenId>,
    /// Own text and shared text.
    counts: [Counts; 2],
}

impl Truth {
    fn new(prompt: &[TokenId], shared: &[Vec<TokenId>]) -> Self {
        let mut counts = [Counts::default(), Counts::default()];
        counts[0].teach(prompt);
        for document in shared {
            counts[1].teach(document);
        }
        Self {
            prompt: prompt.to_vec(),
            counts,
        }
    }

    /// The last `length` tokens before the child of a path, or `None` when there are fewer.
    fn context(&self, path: &[TokenId], length: usize) -> Option<Vec<TokenId>> {
        let tail = self
            .prompt
            .rsplit(|&token| token == SEPARATOR)
            .next()
            .unwrap_or(&[]);
        let tail = &tail[tail.len().saturating_sub(MAX_MATCH)..];
        let whole = [tail, path].concat();
        Some(whole[whole.len().checked_sub(length)?..].to_vec())
    }

    /// Times each token followed the last `length` tokens, own and shared.
    fn followers(&self, path: &[TokenId], length: usize) -> BTreeMap<TokenId, [u16; 2]> {
        let mut followers = BTreeMap::<_, [u16; 2]>::new();
        let Some(context) = self.context(path, length) else {
            return followers;
        };
        for (index, counts) in self.counts.iter().enumerate() {
            for (&token, &count) in counts.0.get(&context).into_iter().flatten() {
                followers.entry(token).or_default()[index] += count;
            }
        }
        followers
    }

    /// Whether every chain could hold all occurrences, so that counts are exact.
    fn is_small(&self) -> bool {
        let Some(context) = self.context(&[], 1) else {
            return true;
        };
        self.counts.iter().all(|counts| {
            counts
                .0
                .get(&context)
                .is_none_or(|next| next.values().sum::<u16>() <= 16)
        })
    }

    /// The blend of the score's formula for `token` after `path`, straight from the counts.
    fn blend(&self, path: &[TokenId], token: TokenId) -> f32 {
        let mut probability = 0.0;
        for (level, &length) in LEVELS.iter().enumerate() {
            // Below the root, only text that also holds the whole path and its context counts.
            let followers = self.followers(path, usize::from(length).max(path.len() + 1));
            if followers.is_empty() {
                break;
            }
            let weigh =
                |seen: [u16; 2]| f32::from(seen[0]) * WEIGHTS[0] + f32::from(seen[1]) * WEIGHTS[1];
            let total: f32 = followers.values().map(|&seen| weigh(seen)).sum();
            let count = followers.get(&token).map_or(0.0, |&seen| weigh(seen));
            let escape = ESCAPES[level] * (followers.len() as f32).sqrt();
            probability = (count + escape * probability) / (total + escape);
        }
        probability
    }

    /// The probability of `token` after `path` if it is the newest continuation as flagged.
    fn probability(&self, path: &[TokenId], token: TokenId, newest: [bool; 2]) -> f32 {
        let followers = self.followers(path, path.len() + 1);
        let sum = |index: usize| -> f32 {
            f32::from(followers.values().map(|seen| seen[index]).sum::<u16>()).ln_1p()
        };
        let seen = followers.get(&token).copied().unwrap_or_default();
        let features = [
            1.0,
            logit(self.blend(path, token)),
            f32::from(seen[0]).ln_1p(),
            f32::from(seen[1]).ln_1p(),
            sum(0),
            sum(1),
            (followers.len() as f32).ln(),
            (path.len() as f32).ln_1p(),
            f32::from(u8::from(newest[0])),
            f32::from(u8::from(newest[1])),
        ];
        Calibration::apply(Mixer::default().probability(&features), 1.0)
    }
}

/// Every drafted token follows its path somewhere in the source it is credited to: nothing is
/// invented.
fn assert_sound(truth: &Truth, tree: &DraftTree) -> Result<(), TestCaseError> {
    for (index, node) in tree.nodes.iter().enumerate() {
        let mut path = tree.path_tokens(index as u32);
        path.pop();
        let context = truth.context(&path, path.len() + 1);
        let context = context.ok_or_else(|| TestCaseError::fail("a draft without context"))?;
        let own = truth.counts[0].after(&context, node.token);
        let shared = truth.counts[1].after(&context, node.token);
        let credited = if node.source == Source::Request {
            own
        } else {
            shared
        };
        prop_assert!(credited > 0, "{:?} never follows {:?}", node.token, context);
        // A bounded walk may have missed the own text's old occurrences.
        prop_assert!(!truth.is_small() || own == 0 || node.source == Source::Request);
    }
    Ok(())
}

fn text(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<TokenId>> {
    let token = prop_oneof![40 => 0_u32..9, 1 => Just(SEPARATOR)];
    prop::collection::vec(token, length)
}

fn mode() -> impl Strategy<Value = DraftMode> {
    prop_oneof![
        Just(DraftMode::Auto),
        Just(DraftMode::Bfs),
        Just(DraftMode::Prob)
    ]
}

fn drafter(mode: DraftMode, prompt: &[TokenId], shared: &[Vec<TokenId>]) -> Drafter {
    let memory = DraftMemory::new(MemoryConfig::default()).unwrap();
    let namespace = memory.namespace("default");
    for document in shared {
        namespace.insert(document);
    }
    let config = DraftConfig {
        mode,
        max_depth: 7,
        ..DraftConfig::default()
    };
    let mut drafter = Drafter::new(config, Some(Arc::clone(&namespace)));
    drafter.push_prompt(prompt);
    drafter
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_drafted_path_was_taught(
        mode in mode(),
        prompt in text(1..120),
        shared in prop::collection::vec(text(2..60), 0..5),
        nodes in 1_usize..63,
    ) {
        let tree = drafter(mode, &prompt, &shared).draft(nodes, 0.0);
        assert_sound(&Truth::new(&prompt, &shared), &tree)?;
    }

    #[test]
    fn first_tokens_are_all_that_ever_followed_the_last_token(
        prompt in text(1..70),
        shared in prop::collection::vec(text(2..40), 0..3),
    ) {
        let truth = Truth::new(&prompt, &shared);
        prop_assume!(truth.is_small());
        let tree = drafter(DraftMode::Auto, &prompt, &shared).draft(1000, 0.0);
        let drafted: Vec<_> = tree.nodes.iter().filter(|n| n.depth == 1).map(|n| n.token).collect();
        let mut sorted = drafted.clone();
        sorted.sort_unstable();
        let followers: Vec<_> = truth.followers(&[], 1).into_keys().collect();
        prop_assert_eq!(sorted, followers);
    }

    #[test]
    fn values_follow_from_the_counts(
        prompt in text(1..70),
        shared in prop::collection::vec(text(2..40), 0..3),
    ) {
        let truth = Truth::new(&prompt, &shared);
        prop_assume!(truth.is_small());
        let tree = drafter(DraftMode::Auto, &prompt, &shared).draft(1000, 0.0);
        for (index, node) in tree.nodes.iter().enumerate() {
            let mut path = tree.path_tokens(index as u32);
            path.pop();
            let above = node.parent.map_or(1.0, |parent| tree.nodes[parent as usize].value);
            let said = node.value / above;
            // Which continuation is the newest is not in the counts: any flags may hold.
            let flags = [[false, false], [false, true], [true, false], [true, true]];
            let allowed: Vec<_> =
                flags.iter().map(|&newest| truth.probability(&path, node.token, newest)).collect();
            // A node whose children's probabilities exceed one together is scaled down.
            let most = allowed[3];
            prop_assert!(said <= most + 1e-3, "{said} of {allowed:?}");
            let sum: f32 = truth
                .followers(&path, path.len() + 1)
                .keys()
                .map(|&token| truth.probability(&path, token, [true, true]))
                .sum();
            if sum <= 1.0 {
                prop_assert!(
                    allowed.iter().any(|value| (value - said).abs() < 1e-3 * value.max(0.01)),
                    "{said} is none of {allowed:?}"
                );
            }
        }
    }

    #[test]
    fn drafts_depend_only_on_what_was_pushed(
        prompt in text(1..60),
        output in text(1..30),
        cuts in prop::collection::vec(1_usize..5, 1..30),
    ) {
        let mut whole = drafter(DraftMode::Auto, &prompt, &[]);
        whole.push_output(&output);
        let mut pieces = drafter(DraftMode::Auto, &prompt, &[]);
        let mut rest = &output[..];
        for cut in cuts {
            let (now, later) = rest.split_at(cut.min(rest.len()));
            pieces.push_output(now);
            rest = later;
        }
        pieces.push_output(rest);
        prop_assert_eq!(whole.draft(16, 0.0), pieces.draft(16, 0.0));
    }
}

#[test]
fn sources_of_places_match_the_credit_order() {
    let sources: Vec<_> = (0..4).map(Places::source).collect();
    assert_eq!(
        sources,
        [
            Source::Prediction,
            Source::Request,
            Source::Shared,
            Source::Shared
        ]
    );
}
