//! When things happened to one request.

/// Moments of a request, in seconds on the clock of `plan`.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "the unit is part of each name")]
pub(crate) struct Timeline {
    arrived_s: f64,
    admitted_s: Option<f64>,
    first_token_s: Option<f64>,
    /// When it came, was last given prompt rows or lost its pages.
    waiting_since_s: f64,
}

/// How long its parts took, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the unit is part of each name")]
pub(crate) struct Durations {
    pub(crate) queue_ns: u64,
    pub(crate) prefill_ns: u64,
    pub(crate) decode_ns: u64,
}

impl Timeline {
    /// The timeline of a request that came just then.
    pub(crate) fn new(arrived_s: f64) -> Self {
        Self {
            arrived_s,
            admitted_s: None,
            first_token_s: None,
            waiting_since_s: arrived_s,
        }
    }

    pub(crate) fn arrived_s(&self) -> f64 {
        self.arrived_s
    }

    /// Since when it has been given nothing.
    pub(crate) fn waiting_since_s(&self) -> f64 {
        self.waiting_since_s
    }

    /// Notes that it starts to wait anew.
    pub(crate) fn wait_from(&mut self, now_s: f64) {
        self.waiting_since_s = now_s;
    }

    /// Notes that it was admitted; only the first time counts.
    pub(crate) fn admit(&mut self, now_s: f64) {
        self.admitted_s.get_or_insert(now_s);
    }

    /// Notes that it emitted a token; only the first one counts.
    pub(crate) fn emit(&mut self, now_s: f64) {
        self.first_token_s.get_or_insert(now_s);
    }

    /// How long its parts took, if it ends now.
    pub(crate) fn durations(&self, now_s: f64) -> Durations {
        let admitted_s = self.admitted_s.unwrap_or(now_s);
        let first_token_s = self.first_token_s.unwrap_or(now_s);
        let of_prefill = nanoseconds(admitted_s, first_token_s);
        let of_decode = nanoseconds(first_token_s, now_s);
        Durations {
            queue_ns: nanoseconds(self.arrived_s, admitted_s),
            prefill_ns: self.admitted_s.map_or(0, |_| of_prefill),
            decode_ns: self.first_token_s.map_or(0, |_| of_decode),
        }
    }
}

fn nanoseconds(from_s: f64, to_s: f64) -> u64 {
    ((to_s - from_s).max(0.0) * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_a_request_never_came_to_take_no_time() {
        let mut timeline = Timeline::new(1.0);
        let parts = |timeline: &Timeline, now_s| {
            let durations = timeline.durations(now_s);
            [
                durations.queue_ns,
                durations.prefill_ns,
                durations.decode_ns,
            ]
        };
        assert_eq!(parts(&timeline, 3.0), [2_000_000_000, 0, 0]);
        timeline.admit(2.0);
        timeline.admit(2.5);
        assert_eq!(parts(&timeline, 3.0), [1_000_000_000, 1_000_000_000, 0]);
        timeline.emit(4.0);
        assert_eq!(
            parts(&timeline, 4.5),
            [1_000_000_000, 2_000_000_000, 500_000_000]
        );
        assert_eq!(parts(&timeline, 0.0)[2], 0);
    }
}
