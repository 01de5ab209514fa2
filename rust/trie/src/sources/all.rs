//! All sources that one draft reads, in order of credit.

use std::sync::Arc;

use spectrie_types::Source;

use crate::sources::asked::Asked;
use crate::sources::bigrams::Bigrams;
use crate::sources::corpora::read_budget::ReadBudget;
use crate::sources::recycled::answer::Answer;
use crate::sources::recycled::table::Recycled;
use crate::sources::text::Text;
use crate::store::chains::{Chains, ORDERS, Occurrence, collect};
use crate::store::extent::InsertedRange;
use crate::store::view::View;
use crate::{Corpus, SEPARATOR, TokenId};

/// Origin: the prediction's text.
pub(crate) const PREDICTION: u16 = 0;
/// Origin: the request's own text.
pub(crate) const REQUEST: u16 = 1;
/// Origin: the text of the namespace.
pub(crate) const SHARED: u16 = 2;
/// Origin: the first corpus; others follow.
pub(crate) const CORPUS: u16 = 3;
/// Origin: what only the model's earlier answers hold.
pub(crate) const RECYCLED: u16 = u16::MAX - 2;
/// Origin: what only a head of the model answers.
pub(crate) const HEAD: u16 = u16::MAX - 1;
/// Origin: what only a smaller model answers.
pub(crate) const DRAFT_MODEL: u16 = u16::MAX;

/// Most occurrences taken per order from shared text and corpora, which hold more that begins alike
/// than the request's own text: see [`crate::store::chains::LIMITS`].
pub(crate) const SHARED_LIMITS: [u32; ORDERS.len()] = [24, 64, 32, 16];

/// What one lookup in shared text and corpora took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visits {
    /// Indexes that were looked into, each with tables of its own: one for the text of the
    /// namespace, and one for each corpus.
    pub parts: u32,
    /// Positions that their chains led to.
    pub positions: u32,
}

/// Every log a request may draft from, numbered so that a smaller origin is credited first.
#[derive(Clone, Copy)]
pub(crate) struct AllSources<'a> {
    pub(crate) prediction: &'a Text,
    pub(crate) request: &'a Text,
    pub(crate) shared: Option<&'a View>,
    /// Shared text that this request wrote itself: it is in `request` already.
    pub(crate) excluded: &'a [InsertedRange],
    /// The most useful first.
    pub(crate) corpora: &'a [Arc<Corpus>],
    /// Blocks of corpora that this draft may still read from files.
    pub(crate) reads: &'a ReadBudget,
    /// The model's earlier answers: in this request, then in its namespace.
    pub(crate) recycled: [Option<&'a Recycled>; 2],
    /// What the model says after one token alone.
    pub(crate) bigrams: Option<&'a Bigrams>,
    /// What a drafter of the runner's answered in this step.
    pub(crate) asked: &'a Asked,
}

impl AllSources<'_> {
    /// Which corpus an origin is, if it is one.
    pub(crate) fn corpus_index(origin: u16) -> Option<usize> {
        (CORPUS..RECYCLED)
            .contains(&origin)
            .then(|| usize::from(origin - CORPUS))
    }

    /// Whether an origin is what only the model's earlier answers hold.
    pub(crate) fn is_recycled(origin: u16) -> bool {
        origin == RECYCLED
    }

    /// The corpus of an origin, if it is one.
    pub(crate) fn corpus(&self, origin: u16) -> Option<&Corpus> {
        let corpus = self.corpora.get(Self::corpus_index(origin)?)?;
        Some(&**corpus)
    }

    /// The source an origin is credited to.
    pub(crate) fn source(origin: u16) -> Source {
        match origin {
            PREDICTION => Source::Prediction,
            REQUEST => Source::Request,
            RECYCLED => Source::Recycled,
            HEAD => Source::Head,
            DRAFT_MODEL => Source::DraftModel,
            SHARED => Source::Shared,
            _ => Source::Corpus,
        }
    }

    /// Occurrences of the ends of `context`: up to the first of `limits` from each of the request's
    /// own texts, and up to the second from shared text and corpora.
    pub(crate) fn collect(
        &self,
        context: &[TokenId],
        limits: [[u32; ORDERS.len()]; 2],
        occurrences: &mut Vec<Occurrence>,
    ) -> Visits {
        let mut visits = Visits::default();
        occurrences.clear();
        let [own, mut wanted] = limits;
        collect(
            self.prediction,
            PREDICTION,
            context,
            &mut own.clone(),
            occurrences,
        );
        collect(
            self.request,
            REQUEST,
            context,
            &mut own.clone(),
            occurrences,
        );
        if let Some(shared) = self.shared.filter(|shared| !shared.blocks().is_empty()) {
            let first = occurrences.len();
            visits.parts += 1;
            visits.positions += collect(shared, SHARED, context, &mut wanted, occurrences);
            self.drop_own(shared, first, occurrences);
        }
        for (index, corpus) in self.corpora.iter().enumerate() {
            if wanted == [0; ORDERS.len()] {
                break;
            }
            let origin = CORPUS + index as u16;
            let corpus = corpus.reader(self.reads);
            visits.parts += 1;
            visits.positions += collect(&corpus, origin, context, &mut wanted, occurrences);
        }
        visits
    }

    /// Takes the request's own text out of the occurrences from `first` on.
    fn drop_own(&self, shared: &View, first: usize, occurrences: &mut Vec<Occurrence>) {
        if self.excluded.is_empty() {
            return;
        }
        let is_own = |position| {
            let (block, cell) = shared.place(position);
            self.excluded.iter().any(|own| own.holds(block, cell))
        };
        occurrences
            .extract_if(first.., |occurrence| is_own(occurrence.position))
            .for_each(drop);
    }

    /// The answers of a drafter of the runner's, and nothing that text or the model said before.
    pub(crate) fn answers_alone(self) -> Self {
        Self {
            shared: None,
            corpora: &[],
            recycled: [None; 2],
            bigrams: None,
            ..self
        }
    }

    /// Whether the model has answered anything, or a drafter of the runner's.
    pub(crate) fn has_answers(&self) -> bool {
        let earlier = self.bigrams.is_some() || self.recycled.iter().any(Option::is_some);
        earlier || self.asked.root().is_some()
    }

    /// What the model said before of the pair, of the last token, and of it in a document of its
    /// own.
    pub(crate) fn answers(&self, before: Option<TokenId>, last: TokenId) -> [Option<Answer>; 3] {
        let mut answers = [
            None,
            None,
            self.bigrams.and_then(|bigrams| bigrams.after(last)),
        ];
        for recycled in self.recycled.iter().flatten() {
            for (answer, found) in answers.iter_mut().zip(recycled.get(before, last)) {
                *answer = answer.or(found);
            }
        }
        answers
    }

    /// What the model said before of the pair.
    pub(crate) fn after_pair(&self, before: Option<TokenId>, last: TokenId) -> Option<Answer> {
        let mut recycled = self.recycled.iter().flatten();
        recycled.find_map(|recycled| recycled.after_pair(before, last))
    }

    /// The occurrence one token further on, or `None` at the end of its document.
    pub(crate) fn advance(&self, occurrence: Occurrence) -> Option<Occurrence> {
        let position = occurrence.position + 1;
        let next = match occurrence.origin {
            PREDICTION => read(self.prediction, position)?,
            REQUEST => read(self.request, position)?,
            SHARED => read(self.shared?, position)?,
            origin => read(&self.corpus(origin)?.reader(self.reads), position)?,
        };
        let matched = occurrence.matched + 1;
        (next != SEPARATOR).then_some(Occurrence {
            position,
            next,
            matched,
            ..occurrence
        })
    }
}

fn read<C: Chains>(chains: &C, position: u32) -> Option<TokenId> {
    (position < chains.end()).then(|| chains.token(position))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_corpus_or_none() {
        for other in [PREDICTION, REQUEST, SHARED] {
            assert_eq!(AllSources::corpus_index(other), None);
        }
        assert_eq!(AllSources::corpus_index(CORPUS + 2), Some(2));
        for answers in [RECYCLED, HEAD, DRAFT_MODEL] {
            let corpus = AllSources::corpus_index(answers);
            assert_eq!(corpus, None, "no text, so nobody to credit");
        }
    }
}
