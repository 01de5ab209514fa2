//! What one forward costs, by its rows.

use crate::error::EngineError;

/// Share of a new measurement in the running corrections.
const LEARNING_RATE: f64 = 0.05;

/// A single measurement counts as at most this factor off, so that a hiccup does not move the
/// curve.
const MAX_SURPRISE: f64 = 2.0;

/// Rows that cost as much as one while nothing was measured.
const FLAT_ROWS: f64 = 16.0;

/// Milliseconds of a forward as a function of its rows: lines between measured points, corrected
/// while serving.
///
/// The corrections change how much is drafted, never a token.
#[derive(Debug, Clone)]
pub(crate) struct CostCurve {
    points: Vec<Point>,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    rows: f64,
    milliseconds: f64,
}

impl Default for CostCurve {
    /// Flat up to 16 rows, then growing in proportion.
    fn default() -> Self {
        let point = |rows: f64| Point {
            rows,
            milliseconds: (rows / FLAT_ROWS).max(1.0),
        };
        Self {
            points: vec![point(1.0), point(FLAT_ROWS), point(2.0 * FLAT_ROWS)],
        }
    }
}

impl CostCurve {
    /// A curve through `milliseconds` at ascending `rows`.
    pub(crate) fn new(rows: &[usize], milliseconds: &[f64]) -> Result<Self, EngineError> {
        let wrong = |name, given, allowed: &str| {
            Err(EngineError::Config {
                name,
                given,
                allowed: allowed.to_owned(),
            })
        };
        if rows.is_empty() || rows.len() != milliseconds.len() {
            let given = format!("{} rows and {} times", rows.len(), milliseconds.len());
            return wrong("costs", given, "lists of the same length, at least 1");
        }
        if rows[0] == 0 || rows.windows(2).any(|pair| pair[0] >= pair[1]) {
            return wrong("rows", format!("{rows:?}"), "ascending numbers from 1");
        }
        if let Some(time) = milliseconds
            .iter()
            .find(|time| !time.is_finite() || **time <= 0.0)
        {
            return wrong("milliseconds", time.to_string(), "finite numbers above 0");
        }
        let points = rows.iter().zip(milliseconds);
        let points = points.map(|(&rows, &milliseconds)| Point {
            rows: rows as f64,
            milliseconds,
        });
        Ok(Self {
            points: points.collect(),
        })
    }

    /// Expected milliseconds of a forward of `rows` rows; never falls as rows grow.
    pub(crate) fn milliseconds(&self, rows: usize) -> f64 {
        let (left, right, share) = self.bracket(rows as f64);
        // A point measured below its left neighbour is noise.
        let reached = self.points[..=left]
            .iter()
            .fold(0.0, |most: f64, point| most.max(point.milliseconds));
        let line = self.points[left].milliseconds * (1.0 - share)
            + self.points[right].milliseconds * share;
        line.max(reached)
    }

    /// Learns that a forward of `rows` rows took `milliseconds`.
    pub(crate) fn observe(&mut self, rows: usize, milliseconds: f64) {
        if !milliseconds.is_finite() || milliseconds <= 0.0 {
            return;
        }
        let (left, right, share) = self.bracket(rows as f64);
        let ratio = milliseconds / self.milliseconds(rows);
        let ratio = ratio.clamp(1.0 / MAX_SURPRISE, MAX_SURPRISE);
        // All points follow a little (the machine is slower or faster today), the near ones more.
        for (index, point) in self.points.iter_mut().enumerate() {
            let nearness = if index == left {
                1.0 - share.clamp(0.0, 1.0)
            } else if index == right {
                share.clamp(0.0, 1.0)
            } else {
                0.0
            };
            point.milliseconds *= 1.0 + LEARNING_RATE * (0.5 + 0.5 * nearness) * (ratio - 1.0);
        }
    }

    /// The points around `rows` and how far it is from the left to the right one; above 1 beyond
    /// the last.
    fn bracket(&self, rows: f64) -> (usize, usize, f64) {
        let last = self.points.len() - 1;
        let right = self
            .points
            .iter()
            .position(|point| point.rows >= rows)
            .unwrap_or(last);
        if right == 0 {
            return (0, 0, 0.0);
        }
        let left = right - 1;
        let width = self.points[right].rows - self.points[left].rows;
        (left, right, (rows - self.points[left].rows) / width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curve_interpolates_extends_and_never_falls() {
        let curve = CostCurve::new(&[1, 4, 8, 16], &[10.0, 13.0, 12.0, 28.0]).unwrap();
        let at = |rows| curve.milliseconds(rows);
        assert!((at(1) - 10.0).abs() < 1e-9 && (at(2) - 11.0).abs() < 1e-9);
        assert!((at(16) - 28.0).abs() < 1e-9 && (at(20) - 36.0).abs() < 1e-9);
        assert!((1..40).all(|rows| at(rows) <= at(rows + 1)));
    }

    #[test]
    fn measurements_move_the_curve_towards_them() {
        let mut curve = CostCurve::new(&[1, 16], &[10.0, 20.0]).unwrap();
        for _ in 0..500 {
            curve.observe(16, 60.0);
            curve.observe(1, 10.0);
        }
        assert!(
            (curve.milliseconds(16) - 60.0).abs() < 6.0,
            "{}",
            curve.milliseconds(16)
        );
        assert!(
            (curve.milliseconds(1) - 10.0).abs() < 2.0,
            "{}",
            curve.milliseconds(1)
        );
    }

    #[test]
    fn curves_that_are_none_are_refused() {
        for (rows, times) in [
            (vec![], vec![]),
            (vec![1], vec![]),
            (vec![2, 2], vec![1.0, 1.0]),
            (vec![1], vec![0.0]),
        ] {
            assert!(CostCurve::new(&rows, &times).is_err());
        }
    }
}
