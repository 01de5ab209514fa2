//! Where a choice goes, and which of those that wait for a worker goes first.

/// A ready worker, as placing sees it.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is true or false beside any of the others"
)]
pub(crate) struct Candidate<'a> {
    pub(crate) id: &'a str,
    pub(crate) fingerprint: &'a str,
    /// Longest prompt plus answer, in tokens.
    pub(crate) max_context: u32,
    /// Choices that run or wait there.
    pub(crate) num_choices: usize,
    /// No choice runs or waits there, nor one whose cancelling it has not confirmed.
    pub(crate) is_idle: bool,
    /// Choices it runs at once, at least 1.
    pub(crate) max_running: usize,
    /// A choice runs there that must be alone.
    pub(crate) is_reserved: bool,
    /// It takes no new choices and ends with those it has.
    pub(crate) is_draining: bool,
    /// It fails what it is given: any other is preferred.
    pub(crate) is_ejected: bool,
}

impl Candidate<'_> {
    /// Whether it takes anything that fits.
    fn is_open(&self) -> bool {
        !self.is_reserved && !self.is_draining
    }
}

/// What a choice asks of a worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Need {
    /// Prompt and answer, in tokens.
    pub(crate) context: u32,
    /// Numeric fingerprint under which its tokens were computed: such a worker is preferred.
    pub(crate) fingerprint: Option<String>,
    /// Whether no other worker may take it: its client has tokens that are computed again.
    pub(crate) is_bound: bool,
    /// Id of a worker that refused it or failed it: any other is preferred.
    pub(crate) avoid: Option<String>,
    /// Whether that worker failed it: then even one that is ejected is preferred, which may be well
    /// again. One that only refused it is better waited for.
    pub(crate) has_failed_there: bool,
    /// Whether nothing else may run there until it has a token.
    pub(crate) alone: bool,
}

/// The index of the worker that a choice goes to; `cleared` names the worker that is kept free of
/// new choices until one that must be alone finds it idle. Of equal workers the first is taken.
pub(crate) fn choose(
    candidates: &[Candidate<'_>],
    need: &Need,
    cleared: Option<&str>,
) -> Option<usize> {
    let is_open = |candidate: &Candidate<'_>| {
        let is_free = if need.alone {
            candidate.is_idle
        } else {
            cleared != Some(candidate.id)
        };
        let fingerprint = need.fingerprint.as_deref().filter(|_| need.is_bound);
        let computes_so = fingerprint.is_none_or(|wanted| wanted == candidate.fingerprint);
        let fits = candidate.max_context >= need.context && computes_so;
        fits && candidate.is_open() && is_free
    };
    let rank = |candidate: &Candidate<'_>| {
        let is_other = |wanted: &str| wanted != candidate.fingerprint;
        let is_avoided = need.avoid.as_deref() == Some(candidate.id);
        (
            is_avoided && need.has_failed_there,
            candidate.is_ejected,
            is_avoided,
            need.fingerprint.as_deref().is_some_and(is_other),
            candidate.num_choices * 1024 / candidate.max_running.max(1),
        )
    };
    let open = candidates.iter().enumerate();
    open.filter(|(_, candidate)| is_open(candidate))
        .min_by_key(|(_, candidate)| rank(candidate))
        .map(|(index, _)| index)
}

/// Choices that lost their worker and wait for another, in order.
///
/// Each is placed as soon as any worker may take it, before any new request. Those that must be
/// alone go first: an idle worker is soonest found where one has just joined.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    waiting: Vec<(Need, T)>,
    cleared: Option<String>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
            cleared: None,
        }
    }
}

impl<T> Queue<T> {
    /// Adds a choice behind the others.
    pub(crate) fn push(&mut self, need: Need, choice: T) {
        self.waiting.push((need, choice));
    }

    /// Puts a choice back before the others: its worker died in the moment that it was placed.
    pub(crate) fn push_front(&mut self, need: Need, choice: T) {
        self.waiting.insert(0, (need, choice));
    }

    /// The choices that wait, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter().map(|(_, choice)| choice)
    }

    /// Drops the choices that nothing waits for any more.
    pub(crate) fn retain(&mut self, is_awaited: impl Fn(&T) -> bool) {
        self.waiting.retain(|(_, choice)| is_awaited(choice));
    }

    /// Removes all.
    pub(crate) fn take(&mut self) -> Vec<(Need, T)> {
        self.cleared = None;
        std::mem::take(&mut self.waiting)
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The worker that is kept free of new choices.
    pub(crate) fn cleared(&self) -> Option<&str> {
        self.cleared.as_deref()
    }

    /// Takes out the next choice that can be placed, with the index of its worker.
    ///
    /// Gives `None` when no waiting choice can be placed, and then decides which worker to clear.
    pub(crate) fn next(&mut self, candidates: &[Candidate<'_>]) -> Option<(usize, Need, T)> {
        for alone in [true, false] {
            for place in 0..self.waiting.len() {
                let need = &self.waiting[place].0;
                if need.alone != alone {
                    continue;
                }
                if let Some(worker) = choose(candidates, need, self.cleared.as_deref()) {
                    let (need, choice) = self.waiting.remove(place);
                    return Some((worker, need, choice));
                }
            }
            if alone {
                self.cleared = self.clear(candidates);
            }
        }
        None
    }

    /// The worker to keep free of new choices: one that a choice that must be alone waits for, if
    /// others can take the new ones.
    fn clear(&self, candidates: &[Candidate<'_>]) -> Option<String> {
        let (need, _) = self.waiting.iter().find(|(need, _)| need.alone)?;
        let may_clear = |candidate: &&Candidate<'_>| {
            candidate.is_open() && candidate.max_context >= need.context
        };
        let mut fitting: Vec<_> = candidates.iter().filter(may_clear).collect();
        if fitting.len() < 2 {
            return None;
        }
        fitting.sort_by_key(|candidate| {
            let is_cleared = self.cleared.as_deref() == Some(candidate.id);
            (!is_cleared, candidate.num_choices)
        });
        fitting.first().map(|candidate| candidate.id.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(id: &str, num_choices: usize) -> Candidate<'_> {
        Candidate {
            id,
            fingerprint: "f",
            max_context: 100,
            num_choices,
            is_idle: num_choices == 0,
            max_running: 8,
            is_reserved: false,
            is_draining: false,
            is_ejected: false,
        }
    }

    fn alone() -> Need {
        Need {
            alone: true,
            ..Need::default()
        }
    }

    #[test]
    fn other_worker_then_equal_fingerprint_then_least_load_decide() {
        let other = Candidate {
            fingerprint: "g",
            ..worker("c", 0)
        };
        let candidates = [worker("a", 2), worker("b", 3), other];
        let mut need = Need {
            fingerprint: Some("f".into()),
            ..Need::default()
        };
        assert_eq!(choose(&candidates, &need, None), Some(0));
        need.avoid = Some("a".into());
        assert_eq!(choose(&candidates, &need, None), Some(1));
        need.avoid = Some("b".into());
        assert_eq!(choose(&candidates[1..], &need, None), Some(1));
        assert_eq!(choose(&candidates[1..2], &need, None), Some(0));
        assert_eq!(choose(&candidates, &Need::default(), None), Some(2));
    }

    #[test]
    fn workers_that_drain_take_nothing_and_are_not_cleared() {
        let draining = Candidate {
            is_draining: true,
            ..worker("a", 0)
        };
        let candidates = [draining, worker("b", 5)];
        assert_eq!(choose(&candidates, &Need::default(), None), Some(1));
        assert_eq!(choose(&candidates, &alone(), None), None);
        let mut queue = Queue::default();
        queue.push(alone(), 1);
        assert!(queue.next(&candidates).is_none());
        assert_eq!(queue.cleared(), None);
    }

    #[test]
    fn ejected_worker_is_taken_only_before_the_one_that_failed_the_choice() {
        let ejected = Candidate {
            is_ejected: true,
            ..worker("a", 0)
        };
        let candidates = [ejected, worker("b", 5)];
        let refused = Need {
            avoid: Some("b".into()),
            ..Need::default()
        };
        assert_eq!(choose(&candidates, &Need::default(), None), Some(1));
        assert_eq!(choose(&candidates, &refused, None), Some(1));
        assert_eq!(choose(&candidates[..1], &refused, None), Some(0));
        let failed = Need {
            has_failed_there: true,
            ..refused
        };
        assert_eq!(choose(&candidates, &failed, None), Some(0));
        assert_eq!(choose(&candidates[1..], &failed, None), Some(0));
    }

    #[test]
    fn reserved_cleared_and_small_workers_take_nothing() {
        let reserved = Candidate {
            is_reserved: true,
            ..worker("a", 1)
        };
        let candidates = [reserved, worker("b", 5)];
        assert_eq!(choose(&candidates, &Need::default(), None), Some(1));
        assert_eq!(choose(&candidates, &Need::default(), Some("b")), None);
        let long = Need {
            context: 101,
            ..Need::default()
        };
        assert_eq!(choose(&candidates, &long, None), None);
    }

    #[test]
    fn choice_that_must_be_alone_goes_first_and_only_to_an_idle_worker() {
        let mut queue = Queue::default();
        queue.push(Need::default(), 1);
        queue.push(alone(), 2);
        let (place, _, choice) = queue.next(&[worker("a", 0)]).unwrap();
        assert_eq!((place, choice), (0, 2));
        queue.push(alone(), 3);
        let (_, _, choice) = queue.next(&[worker("a", 1)]).unwrap();
        assert_eq!(choice, 1);
        assert!(queue.next(&[worker("a", 1)]).is_none());
    }

    #[test]
    fn worker_is_cleared_only_beside_another_and_stays_the_same() {
        let mut queue = Queue::default();
        queue.push(alone(), 1);
        assert!(queue.next(&[worker("a", 1)]).is_none());
        assert_eq!(queue.cleared(), None);
        assert!(queue.next(&[worker("a", 3), worker("b", 2)]).is_none());
        assert_eq!(queue.cleared(), Some("b"));
        assert!(queue.next(&[worker("a", 1), worker("b", 2)]).is_none());
        assert_eq!(queue.cleared(), Some("b"));
        let (place, ..) = queue.next(&[worker("a", 1), worker("b", 0)]).unwrap();
        assert_eq!(place, 1);
        assert!(queue.next(&[worker("a", 1), worker("b", 1)]).is_none());
        assert_eq!(queue.cleared(), None);
    }
}
