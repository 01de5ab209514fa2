//! The slow truth that the drafter is tested against: n-gram counts in a map.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proptest::prelude::*;

use spectrie_types::Source;

use crate::score::evidence::LEVELS;
use crate::score::scorer::{BLENDS, ESCAPES};
use crate::sources::all::AllSources;
use crate::{
    DraftConfig, DraftMemory, DraftMode, DraftTree, Drafter, MAX_MATCH, MemoryConfig, SEPARATOR,
    TokenId,
};

/// Continuations of every context of up to this many tokens: a match and the deepest draft.
const MAX_CONTEXT: usize = MAX_MATCH + 8;

/// For each context, how often each token followed it.
#[derive(Default)]
struct Counts(HashMap<Vec<TokenId>, BTreeMap<TokenId, u16>>);

impl Counts {
    fn insert(&mut self, text: &[TokenId]) {
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
        counts[0].insert(prompt);
        for document in shared {
            counts[1].insert(document);
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

    /// The blend of the score's formula for `token` at the root, straight from the counts,
    /// weighted by `weights`.
    fn blend(&self, token: TokenId, weights: [f32; 2]) -> f32 {
        let mut probability = 0.0;
        for (level, &length) in LEVELS.iter().enumerate() {
            let mut followers = self.followers(&[], usize::from(length));
            let weigh =
                |seen: [u16; 2]| f32::from(seen[0]) * weights[0] + f32::from(seen[1]) * weights[1];
            followers.retain(|_, &mut seen| weigh(seen) > 0.0);
            if followers.is_empty() {
                break;
            }
            let total: f32 = followers.values().map(|&seen| weigh(seen)).sum();
            let count = followers.get(&token).map_or(0.0, |&seen| weigh(seen));
            let escape = ESCAPES[level] * (followers.len() as f32).sqrt();
            probability = (count + escape * probability) / (total + escape);
        }
        probability
    }
}

/// Every drafted token follows its path somewhere in the source it is credited to, or, where the
/// mode takes hints, comes from the request's own text: nothing is invented.
fn assert_sound(truth: &Truth, mode: DraftMode, tree: &DraftTree) -> Result<(), TestCaseError> {
    for (index, node) in tree.nodes.iter().enumerate() {
        let mut path = tree.path_tokens(index as u32);
        path.pop();
        let context = truth.context(&path, path.len() + 1);
        let context = context.ok_or_else(|| TestCaseError::fail("a draft without context"))?;
        let own = truth.counts[0].after(&context, node.token);
        let shared = truth.counts[1].after(&context, node.token);
        let is_hint = mode == DraftMode::Auto
            && node.source == Source::Request
            && truth.prompt.contains(&node.token);
        let credited = if node.source == Source::Request {
            own
        } else {
            shared
        };
        prop_assert!(
            credited > 0 || is_hint,
            "{:?} never follows {:?}",
            node.token,
            context
        );
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
        assert_sound(&Truth::new(&prompt, &shared), mode, &tree)?;
    }

    #[test]
    fn all_that_ever_followed_the_last_token_is_drafted(
        prompt in text(1..70),
        shared in prop::collection::vec(text(2..40), 0..3),
    ) {
        let truth = Truth::new(&prompt, &shared);
        prop_assume!(truth.is_small());
        let tree = drafter(DraftMode::Auto, &prompt, &shared).draft(1000, 0.0);
        let drafted: Vec<_> = tree.nodes.iter().filter(|n| n.depth == 1).map(|n| n.token).collect();
        for follower in truth.followers(&[], 1).into_keys() {
            prop_assert!(drafted.contains(&follower), "{follower} is not in {drafted:?}");
        }
    }

    #[test]
    fn evidence_follows_from_the_counts(
        prompt in text(1..70),
        shared in prop::collection::vec(text(2..40), 0..3),
    ) {
        let truth = Truth::new(&prompt, &shared);
        prop_assume!(truth.is_small());
        let evidence = drafter(DraftMode::Auto, &prompt, &shared).root_evidence();
        for (token, seen) in truth.followers(&[], 1) {
            let found = evidence.iter().find(|(candidate, _)| *candidate == token);
            let Some((_, found)) = found else {
                return Err(TestCaseError::fail(format!("{token} has no evidence")));
            };
            let [own, shared] = found.counts;
            prop_assert_eq!([own[0], shared[0]], seen);
            for kind in [1, 2] {
                let blend = truth.blend(token, BLENDS[kind]);
                prop_assert!((found.blends[kind] - blend).abs() < 1e-4, "{found:?} {blend}");
            }
            let sums = truth.followers(&[], 1).into_values();
            let both = sums.fold([0, 0], |sum, seen| [sum[0] + seen[0], sum[1] + seen[1]]);
            if both[0] > 0 && both[1] > 0 {
                let blend = truth.blend(token, BLENDS[0]);
                prop_assert!((found.blends[0] - blend).abs() < 1e-4, "{found:?} {blend}");
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
fn sources_of_origins_match_the_credit_order() {
    let sources: Vec<_> = (0..5).map(AllSources::source).collect();
    assert_eq!(
        sources,
        [
            Source::Prediction,
            Source::Request,
            Source::Shared,
            Source::Corpus,
            Source::Corpus
        ]
    );
}
