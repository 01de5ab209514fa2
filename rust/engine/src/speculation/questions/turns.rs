//! Whose turn it is among the drafters of a step.

/// The turns of one step. Each request is asked about by one drafter.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Those whose turn is to come.
    pub(super) waiting: Vec<usize>,
    /// Those that may be asked for what their answers are worth.
    pub(super) buying: Vec<usize>,
    /// The one that is to be tried, and on which request.
    pub(super) tried: Option<(usize, usize)>,
    now: Option<usize>,
    /// Whether it is tried, in place of one that is worth more.
    is_trial: bool,
    /// Who is asked about each request.
    pub(super) asked: Vec<Option<usize>>,
}

impl Turns {
    pub(super) fn new(num_candidates: usize) -> Self {
        Self {
            asked: vec![None; num_candidates],
            ..Self::default()
        }
    }

    /// Lets a drafter have a turn; it `buys` if it may be asked for what its answers are worth.
    pub(super) fn add(&mut self, drafter: usize, buys: bool) {
        self.waiting.push(drafter);
        if buys {
            self.buying.push(drafter);
        }
    }

    /// Notes the drafter that is to be tried, and on which request.
    pub(super) fn set_tried(&mut self, drafter: usize, candidate: usize) {
        self.tried = Some((drafter, candidate));
    }

    /// Whose turn it is.
    pub(super) fn now(&self) -> Option<usize> {
        self.now
    }

    /// The only request that may ask in this turn, if that is to try a drafter.
    pub(super) fn only(&self) -> Option<usize> {
        let (_, candidate) = self.tried.filter(|_| self.is_trial)?;
        Some(candidate)
    }

    /// Whether a request may be asked about by the one whose turn it is.
    pub(super) fn may_ask(&self, candidate: usize) -> bool {
        self.asked[candidate].is_none_or(|asked| Some(asked) == self.now)
    }

    /// Notes that a request is asked about.
    pub(super) fn note_asked(&mut self, candidate: usize) {
        self.asked[candidate] = self.now;
    }

    pub(super) fn begin(&mut self, drafter: usize, is_trial: bool) {
        self.waiting.retain(|&waiting| waiting != drafter);
        self.now = Some(drafter);
        self.is_trial = is_trial;
    }
}
