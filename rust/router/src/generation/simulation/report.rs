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
    /// Routers that died or stood still, and cuts of their connections to Redis.
    pub(super) routers_lost: usize,
    pub(super) routers_stopped: usize,
    pub(super) lines_cut: usize,
    /// Routers that were asked to end, and how often Redis forgot everything.
    pub(super) routers_drained: usize,
    pub(super) flushed: usize,
    /// Streams that ran at more than one router; that no router knew any more.
    pub(super) moved: usize,
    pub(super) forsaken: usize,
    /// Schedules after which every token was counted once.
    pub(super) exact: usize,
    /// Texts that were shared, and that were not though their answers ended well.
    pub(super) taught: usize,
    pub(super) untaught: usize,
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
        self.routers_lost += other.routers_lost;
        self.routers_stopped += other.routers_stopped;
        self.lines_cut += other.lines_cut;
        self.routers_drained += other.routers_drained;
        self.flushed += other.flushed;
        self.moved += other.moved;
        self.forsaken += other.forsaken;
        self.exact += other.exact;
        self.taught += other.taught;
        self.untaught += other.untaught;
    }
}
