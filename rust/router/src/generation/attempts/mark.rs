//! Where a client is in a choice.

use spectrie_request::AnswerDelta;

/// Where a client is in a choice, by the positions of its events.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::generation) struct Mark {
    /// It has the events up to this.
    pub(in crate::generation) position: u32,
    /// Tokens up to this were counted where it got them: it may say that it has more than it has.
    pub(in crate::generation) counted: u32,
    /// Whether these come again.
    pub(in crate::generation) repeats: bool,
}

impl Mark {
    /// Whether the event at this position is sent.
    pub(in crate::generation) fn sends(self, position: u32) -> bool {
        self.repeats || position > self.position
    }

    /// What comes behind `num_tokens`, in the part that the client has, if it has any, and the rest: no
    /// event is on both sides.
    pub(in crate::generation) fn split(
        self,
        mut delta: AnswerDelta,
        num_tokens: u32,
    ) -> (Option<AnswerDelta>, AnswerDelta) {
        let num_had = self.position.saturating_sub(num_tokens) as usize;
        let num_had = num_had.min(delta.token_ids.len());
        if num_had == 0 {
            return (None, delta);
        }
        let rest = AnswerDelta {
            text: String::new(),
            token_ids: delta.token_ids.split_off(num_had),
            sources: delta.sources.split_off(num_had.min(delta.sources.len())),
            logprobs: delta.logprobs.split_off(num_had.min(delta.logprobs.len())),
        };
        (Some(delta), rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(token_ids: &[u32]) -> AnswerDelta {
        AnswerDelta {
            text: String::new(),
            token_ids: token_ids.to_vec(),
            sources: vec![1; token_ids.len()],
            logprobs: Vec::new(),
        }
    }

    #[test]
    fn no_event_is_on_both_sides_of_a_mark() {
        let mark = Mark {
            position: 5,
            counted: 0,
            repeats: false,
        };
        for (before, num_had) in [(0, 3), (3, 2), (4, 1), (5, 0), (9, 0)] {
            let (had, rest) = mark.split(delta(&[1, 2, 3]), before);
            let had = had.map_or(Vec::new(), |had| had.token_ids);
            assert_eq!(had.len(), num_had, "{before}");
            assert_eq!([had, rest.token_ids].concat(), [1, 2, 3]);
            assert_eq!(rest.sources.len(), 3 - num_had);
        }
        assert!(mark.sends(6) && !mark.sends(5));
    }
}
