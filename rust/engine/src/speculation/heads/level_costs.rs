//! What the levels of a drafter cost.

use super::info::DrafterInfo;

/// Share of a new measurement.
const LEARNING_RATE: f64 = 0.1;

/// A measurement counts as at most this factor off what was expected, so that a hiccup does not move
/// much.
const MAX_SURPRISE: f64 = 2.0;

/// Milliseconds of a level by its rows: lines between measured points, times how slow the machine is
/// lately.
#[derive(Debug, Clone)]
pub(in crate::speculation) struct LevelCosts {
    rows: Vec<f64>,
    /// Of a first level, and of a later one.
    times_ms: [Vec<f64>; 2],
    slowness: [f64; 2],
}

/// Which times are those of a level; levels count from 1.
fn kind(level: usize) -> usize {
    usize::from(level > 1)
}

impl LevelCosts {
    /// As measured at the start.
    pub(super) fn new(info: &DrafterInfo) -> Self {
        Self {
            rows: info.rows.iter().map(|&rows| rows as f64).collect(),
            times_ms: [info.first_ms.clone(), info.later_ms.clone()],
            slowness: [1.0; 2],
        }
    }

    /// What a level of so many rows takes; levels count from 1.
    pub(super) fn milliseconds(&self, level: usize, rows: usize) -> f64 {
        self.slowness[kind(level)] * self.measured(level, rows as f64)
    }

    /// Corrects what levels take by what one did.
    pub(in crate::speculation) fn observe(&mut self, level: usize, rows: usize, milliseconds: f64) {
        let surprise = milliseconds / self.milliseconds(level, rows);
        if surprise.is_finite() {
            let surprise = surprise.clamp(1.0 / MAX_SURPRISE, MAX_SURPRISE);
            self.slowness[kind(level)] *= 1.0 + LEARNING_RATE * (surprise - 1.0);
        }
    }

    /// On the line through the two points next to `rows`; in proportion beyond the last one.
    fn measured(&self, level: usize, rows: f64) -> f64 {
        let times = &self.times_ms[kind(level)];
        let above = self.rows.partition_point(|&at| at < rows);
        match (above.checked_sub(1), self.rows.get(above)) {
            (None, _) => times[0],
            (Some(below), None) => times[below] * rows / self.rows[below],
            (Some(below), Some(next)) => {
                let share = (rows - self.rows[below]) / (next - self.rows[below]);
                times[below] + share * (times[above] - times[below])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use spectrie_types::Source;

    use super::*;

    fn costs() -> LevelCosts {
        LevelCosts::new(&DrafterInfo {
            source: Source::Head,
            needs_features: true,
            max_levels: 4,
            max_rows: 64,
            rows: vec![2, 4, 8],
            first_ms: vec![1.0, 2.0, 3.0],
            later_ms: vec![0.5, 0.5, 0.5],
            namespaces: None,
        })
    }

    #[test]
    fn levels_cost_what_was_measured_and_lie_on_lines_between() {
        let costs = costs();
        for (rows, expected) in [(1, 1.0), (2, 1.0), (3, 1.5), (6, 2.5), (16, 6.0)] {
            assert!((costs.milliseconds(1, rows) - expected).abs() < 1e-12);
        }
        assert!((costs.milliseconds(2, 3) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_slower_machine_shows_in_its_own_kind_of_level_and_a_hiccup_hardly() {
        let mut costs = costs();
        costs.observe(1, 2, 1000.0);
        assert!(costs.milliseconds(1, 2) < 1.2);
        for _ in 0..50 {
            costs.observe(1, 2, 2.0);
        }
        assert!((costs.milliseconds(1, 2) - 2.0).abs() < 0.1);
        assert!((costs.milliseconds(3, 2) - 0.5).abs() < 1e-12);
    }
}
