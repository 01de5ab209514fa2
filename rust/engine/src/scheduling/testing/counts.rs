//! What happened in random traffic.

/// Counts of events, to check that the traffic reached the intended cases.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) ended: u64,
    pub(super) by_deadline: u64,
    pub(super) shared_pages: u64,
    pub(super) copies: u64,
    pub(super) early_plans: u64,
    pub(super) features_from_pages: u64,
    /// Keys that a drafter made up; requests that had some of them, or had a part made and were not asked yet.
    pub(super) made_up: u64,
    pub(super) made_up_behind_others: u64,
    pub(super) made_up_unasked: u64,
    pub(super) rows_left_out: u64,
    pub(super) rows_passed: u64,
    pub(super) asked_late: u64,
    pub(super) features_kept: u64,
    /// Levels, and those behind a first one.
    pub(super) levels: u64,
    pub(super) deep_levels: u64,
    pub(super) heads_given_up: u64,
    pub(super) given_up_beside_others: u64,
    /// Levels behind one of another drafter in the same step.
    pub(super) turns: u64,
    /// Steps of engines while they had a head.
    pub(super) steps_with_head: u64,
    /// Answers that were refused.
    pub(super) refused_answers: u64,
    /// Tokens of a head that were accepted.
    pub(super) from_head: u64,
    pub(super) rows_again: u64,
    pub(super) longest_wait: usize,
}

impl Counts {
    /// Adds those of another engine.
    pub(super) fn add(&mut self, other: &Self) {
        self.ended += other.ended;
        self.by_deadline += other.by_deadline;
        self.shared_pages += other.shared_pages;
        self.copies += other.copies;
        self.early_plans += other.early_plans;
        self.features_from_pages += other.features_from_pages;
        self.made_up += other.made_up;
        self.made_up_behind_others += other.made_up_behind_others;
        self.made_up_unasked += other.made_up_unasked;
        self.rows_left_out += other.rows_left_out;
        self.rows_passed += other.rows_passed;
        self.asked_late += other.asked_late;
        self.features_kept += other.features_kept;
        self.levels += other.levels;
        self.deep_levels += other.deep_levels;
        self.heads_given_up += other.heads_given_up;
        self.given_up_beside_others += other.given_up_beside_others;
        self.turns += other.turns;
        self.steps_with_head += other.steps_with_head;
        self.refused_answers += other.refused_answers;
        self.from_head += other.from_head;
        self.rows_again += other.rows_again;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
    }
}
