//! What levels after the first earn in the steps in which a drafter is asked.

/// Least share of a new step; the first ones count alike.
const LEARNING_RATE: f64 = 0.1;

/// Milliseconds that later levels are expected to earn above their price for each row of a first one: a running mean.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LaterLevels {
    mean_ms: f64,
    steps: f64,
    /// Rows of the last first level, and what later ones have earned since.
    open: Option<(f64, f64)>,
}

impl LaterLevels {
    /// Takes a first level of so many rows, which ends the step before.
    pub(super) fn begin(&mut self, rows: usize) {
        if let Some((rows, earned_ms)) = self.open.take() {
            self.steps += 1.0;
            let share = LEARNING_RATE.max(1.0 / self.steps);
            self.mean_ms += share * (earned_ms / rows - self.mean_ms);
        }
        self.open = (rows > 0).then_some((rows as f64, 0.0));
    }

    /// Takes what a later level promises above its price.
    pub(super) fn add(&mut self, earned_ms: f64) {
        if let Some((_, sum)) = &mut self.open {
            *sum += earned_ms;
        }
    }

    /// What later levels are expected to earn behind a first one of so many rows.
    pub(super) fn expected_ms(&self, rows: usize) -> f64 {
        rows as f64 * self.mean_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_levels_count_for_the_first_one_they_follow() {
        let mut later = LaterLevels::default();
        assert!(later.expected_ms(4) <= 0.0);
        for _ in 0..100 {
            later.begin(2);
            later.add(3.0);
            later.add(1.0);
        }
        assert!((later.expected_ms(3) - 6.0).abs() < 0.01);
        for _ in 0..100 {
            later.begin(1);
        }
        assert!(later.expected_ms(3) < 0.01);
    }
}
