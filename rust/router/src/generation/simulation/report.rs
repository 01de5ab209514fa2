//! What schedules brought about.

/// What happened in schedules, to choices that had tokens where that is a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) requests: usize,
    pub(super) resumed: usize,
    pub(super) deaths: usize,
    pub(super) stalls: usize,
    pub(super) drains: usize,
    pub(super) refusals: usize,
    pub(super) faults: usize,
    pub(super) late: usize,
    pub(super) convicted: usize,
    pub(super) dropped: usize,
    pub(super) cut: usize,
}

impl Report {
    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.resumed += other.resumed;
        self.deaths += other.deaths;
        self.stalls += other.stalls;
        self.drains += other.drains;
        self.refusals += other.refusals;
        self.faults += other.faults;
        self.late += other.late;
        self.convicted += other.convicted;
        self.dropped += other.dropped;
        self.cut += other.cut;
    }
}
