//! The order in which a request asks corpora.

use std::sync::Arc;

use crate::Corpus;

/// Share of a corpus's merit that stays at each draft.
const KEEP: f32 = 0.98;

/// The corpora of a request, those that served it best lately in front: occurrences are bounded
/// over all corpora, so one that does not fit must not use up the places of one that does.
#[derive(Debug, Default)]
pub(crate) struct CorpusOrder {
    corpora: Vec<Arc<Corpus>>,
    /// Accepted tokens of each, decayed.
    merits: Vec<f32>,
}

impl CorpusOrder {
    /// Takes the corpora as they are now, in order of merit, then of all tokens ever accepted.
    pub(crate) fn sort(&mut self, corpora: &[Arc<Corpus>]) {
        if corpora.is_empty() && self.corpora.is_empty() {
            return;
        }
        let merit = |corpus: &Arc<Corpus>| {
            let index = self.corpora.iter().position(|own| Arc::ptr_eq(own, corpus));
            index.map_or(0.0, |index| self.merits[index] * KEEP)
        };
        let mut sorted: Vec<(f32, Arc<Corpus>)> = corpora
            .iter()
            .map(|corpus| (merit(corpus), Arc::clone(corpus)))
            .collect();
        sorted.sort_by(|(a, left), (b, right)| {
            let ever = right.accepted_tokens().cmp(&left.accepted_tokens());
            b.total_cmp(a).then(ever)
        });
        (self.merits, self.corpora) = sorted.into_iter().unzip();
    }

    /// The corpora, the best first.
    pub(crate) fn corpora(&self) -> &[Arc<Corpus>] {
        &self.corpora
    }

    /// Notes that the model accepted a draft token of the corpus at `index`.
    pub(crate) fn credit(&mut self, index: usize) {
        if let (Some(merit), Some(corpus)) = (self.merits.get_mut(index), self.corpora.get(index)) {
            *merit += 1.0;
            corpus.credit(1);
        }
    }
}
