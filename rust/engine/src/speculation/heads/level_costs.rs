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
    /// Of a first level, of a later one, and of keys that are made up.
    times_ms: [Vec<f64>; 3],
    slowness: [f64; 3],
}

/// Which times are those of keys that are made up.
const FILL: usize = 2;

/// Which times are those of a level; levels count from 1.
fn kind(level: usize) -> usize {
    usize::from(level > 1)
}

impl LevelCosts {
    /// As measured at the start.
    pub(super) fn new(info: &DrafterInfo) -> Self {
        Self {
            rows: info.rows.iter().map(|&rows| rows as f64).collect(),
            times_ms: [
                info.first_ms.clone(),
                info.later_ms.clone(),
                info.fill_ms.clone(),
            ],
            slowness: [1.0; 3],
        }
    }

    /// What a level of so many rows takes; levels count from 1.
    pub(super) fn milliseconds(&self, level: usize, rows: usize) -> f64 {
        self.slowness[kind(level)] * self.measured(kind(level), rows as f64)
    }

    /// What it takes to make keys of so many tokens.
    pub(super) fn fill_ms(&self, tokens: usize) -> f64 {
        if tokens == 0 || self.times_ms[FILL].is_empty() {
            return 0.0;
        }
        self.slowness[FILL] * self.measured(FILL, tokens as f64)
    }

    /// The part of a level's time that a step like it takes again: `share_ms` of what it takes to make up keys of
    /// `filled` tokens.
    pub(in crate::speculation) fn recurring(
        &self,
        level: usize,
        rows: usize,
        filled: usize,
        share_ms: f64,
    ) -> f64 {
        let level_ms = self.milliseconds(level, rows.max(1));
        let all_ms = level_ms + self.fill_ms(filled);
        ((level_ms + share_ms) / all_ms).min(1.0)
    }

    /// Corrects what levels take by what one did before which keys of so many tokens were made up.
    pub(in crate::speculation) fn observe(
        &mut self,
        level: usize,
        rows: usize,
        filled: usize,
        milliseconds: f64,
    ) {
        let level_ms = if rows > 0 {
            self.milliseconds(level, rows)
        } else {
            0.0
        };
        let surprise = milliseconds / (level_ms + self.fill_ms(filled));
        if surprise.is_finite() {
            let surprise = surprise.clamp(1.0 / MAX_SURPRISE, MAX_SURPRISE);
            for (kind, is_part) in [(kind(level), rows > 0), (FILL, filled > 0)] {
                if is_part {
                    self.slowness[kind] *= 1.0 + LEARNING_RATE * (surprise - 1.0);
                }
            }
        }
    }

    /// On the line through the two points next to `rows`; in proportion beyond the last one.
    fn measured(&self, kind: usize, rows: f64) -> f64 {
        let times = &self.times_ms[kind];
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
            needs_features: false,
            max_levels: 4,
            max_rows: 64,
            rows: vec![2, 4, 8],
            first_ms: vec![1.0, 2.0, 3.0],
            later_ms: vec![0.5, 0.5, 0.5],
            fill_ms: vec![0.1, 0.2, 0.4],
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
    fn what_is_made_up_is_learned_from_levels_beside_it() {
        let mut costs = costs();
        let both_ms = costs.milliseconds(1, 2) + costs.fill_ms(16);
        assert!((both_ms - 1.8).abs() < 1e-12);
        for _ in 0..100 {
            costs.observe(1, 2, 16, 3.6);
            costs.observe(1, 0, 16, 1.6);
        }
        assert!((costs.fill_ms(16) - 1.6).abs() < 0.1);
        assert!((costs.milliseconds(1, 2) - 2.0).abs() < 0.1);
        assert!(costs.fill_ms(0) <= 0.0);
    }

    #[test]
    fn a_slower_machine_shows_in_its_own_kind_of_level_and_a_hiccup_hardly() {
        let mut costs = costs();
        costs.observe(1, 2, 0, 1000.0);
        assert!(costs.milliseconds(1, 2) < 1.2);
        for _ in 0..50 {
            costs.observe(1, 2, 0, 2.0);
        }
        assert!((costs.milliseconds(1, 2) - 2.0).abs() < 0.1);
        assert!((costs.milliseconds(3, 2) - 0.5).abs() < 1e-12);
    }
}
