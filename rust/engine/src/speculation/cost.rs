//! What one forward costs, by its rows and by the cached tokens that they read.

use std::collections::VecDeque;

use super::forward_size::ForwardSize;
use crate::error::EngineError;

/// Share of a new measurement in the correction of a point that is measured all the time.
const LEARNING_RATE: f64 = 0.05;

/// Most that one measurement weighs at a point that nothing was measured at for long.
const MAX_LEARNING_RATE: f64 = 0.4;

/// Share of a measurement that points far from it take over.
const FAR_SHARE: f64 = 0.1;

/// A single measurement counts as at most this factor off the speed of its time, so that a hiccup
/// does not move the curve.
const MAX_SURPRISE: f64 = 2.0;

/// Forwards whose median gives the speed of the machine now. A change shows after eight of them, and
/// a few hiccups do not move it.
const WINDOW: usize = 15;

/// Rows that cost as much as one while nothing was measured.
const FLAT_ROWS: f64 = 16.0;

/// Share of a measured time that is left to the rows, however much their keys are said to cost.
const LEAST_OF_ROWS: f64 = 0.1;

/// What reading the cache costs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ContextCost {
    /// Cached tokens of each row when the forwards were timed.
    pub measured_tokens: usize,
    /// Milliseconds for each row and cached token; 0 when unknown.
    pub ms_per_key: f64,
}

/// Milliseconds of a forward as a function of its size, corrected while serving.
///
/// Three parts: lines between measured points for the rows, a price for each cached token read, and
/// the speed of the machine now, which multiplies both. Within fifty forwards of a change of speed every
/// size is predicted to 10 % again. The first two parts are corrected slowly, by what a forward took
/// beside its neighbours in time.
///
/// The corrections change how much is drafted, never a token.
#[derive(Debug, Clone)]
pub(crate) struct CostCurve {
    points: Vec<Point>,
    ms_per_key: f64,
    /// Time of a forward over what points and keys say: above 1 while the machine is slower.
    slowness: f64,
    /// The last forwards, the newest at the back.
    recent: VecDeque<Measurement>,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    rows: f64,
    milliseconds: f64,
    /// Forwards since one was measured near here.
    age: u32,
}

#[derive(Debug, Clone, Copy)]
struct Measurement {
    size: ForwardSize,
    milliseconds: f64,
}

impl Default for CostCurve {
    /// Flat up to 16 rows, then growing in proportion.
    fn default() -> Self {
        let point = |rows: f64| Point {
            rows,
            milliseconds: (rows / FLAT_ROWS).max(1.0),
            age: 0,
        };
        Self {
            points: vec![point(1.0), point(FLAT_ROWS), point(2.0 * FLAT_ROWS)],
            ms_per_key: 0.0,
            slowness: 1.0,
            recent: VecDeque::new(),
        }
    }
}

impl CostCurve {
    /// A curve through `milliseconds` at ascending `rows`, measured at the context of `context`.
    pub(crate) fn new(
        rows: &[usize],
        milliseconds: &[f64],
        context: ContextCost,
    ) -> Result<Self, EngineError> {
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
        if !context.ms_per_key.is_finite() || context.ms_per_key < 0.0 {
            let given = context.ms_per_key.to_string();
            return wrong("ms_per_key", given, "a finite number, at least 0");
        }
        let points = rows.iter().zip(milliseconds).map(|(&rows, &milliseconds)| {
            let of_keys = context.ms_per_key * (rows * context.measured_tokens) as f64;
            Point {
                rows: rows as f64,
                milliseconds: (milliseconds - of_keys).max(LEAST_OF_ROWS * milliseconds),
                age: 0,
            }
        });
        Ok(Self {
            points: points.collect(),
            ms_per_key: context.ms_per_key,
            ..Self::default()
        })
    }

    /// Expected milliseconds of a forward; never falls as rows or keys grow.
    pub(crate) fn milliseconds(&self, size: ForwardSize) -> f64 {
        self.slowness * self.unscaled(size)
    }

    /// Expected milliseconds of `from` alone and with one, two ... of `more` rows, each of which
    /// reads this many cached tokens; in time proportional to their number.
    pub(crate) fn milliseconds_with(
        &self,
        from: ForwardSize,
        more: impl Iterator<Item = usize>,
    ) -> Vec<f64> {
        let mut size = from;
        let mut times = vec![self.milliseconds(size)];
        times.extend(more.map(|kv_tokens| {
            size.rows += 1;
            size.kv_tokens += kv_tokens;
            self.milliseconds(size)
        }));
        times
    }

    /// Learns that a forward took `milliseconds`.
    pub(crate) fn observe(&mut self, size: ForwardSize, milliseconds: f64) {
        if !milliseconds.is_finite() || milliseconds <= 0.0 || size.rows == 0 {
            return;
        }
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(Measurement { size, milliseconds });
        // Forwards not yet seen count as the last word on the speed.
        let mut ratios = [self.slowness; WINDOW];
        for (ratio, one) in ratios.iter_mut().zip(&self.recent) {
            *ratio = one.milliseconds / self.unscaled(one.size);
        }
        let mut sorted = ratios;
        sorted.sort_by(f64::total_cmp);
        self.slowness = sorted[WINDOW / 2];
        // Judged by the forwards before and after it: a machine that changed its speed in between
        // changed theirs too.
        if let Some(&middle) = self.recent.get(WINDOW / 2) {
            let most = MAX_SURPRISE.ln();
            let surprises = ratios.map(|ratio| (ratio / self.slowness).ln().clamp(-most, most));
            // What all have in common is the machine's: with it, each size would drift from the
            // others wherever times scatter more to one side.
            let common = surprises.iter().sum::<f64>() / WINDOW as f64;
            self.correct(middle.size, surprises[WINDOW / 2] - common);
        }
    }

    /// Moves points and keys by what a forward of this size took too long, as a logarithm.
    fn correct(&mut self, size: ForwardSize, surprise: f64) {
        // Each part answers for its share of the time.
        let share_of_keys = self.ms_per_key * size.kv_tokens as f64 / self.unscaled(size);
        self.ms_per_key *= (LEARNING_RATE * share_of_keys * surprise).exp();
        let (left, right, share) = self.bracket(size.rows as f64);
        let share = share.clamp(0.0, 1.0);
        for (index, point) in self.points.iter_mut().enumerate() {
            let nearness = if index == left {
                1.0 - share
            } else if index == right {
                share
            } else {
                0.0
            };
            let rate = (LEARNING_RATE * f64::from(point.age + 1)).min(MAX_LEARNING_RATE);
            let weight = (rate * nearness).max(FAR_SHARE * LEARNING_RATE);
            point.milliseconds *= (weight * (1.0 - share_of_keys) * surprise).exp();
            point.age = if nearness >= 0.5 {
                0
            } else {
                point.age.saturating_add(1)
            };
        }
    }

    fn unscaled(&self, size: ForwardSize) -> f64 {
        let (left, right, share) = self.bracket(size.rows as f64);
        // A point measured below its left neighbour is noise.
        let reached = self.points[..=left]
            .iter()
            .fold(0.0, |most: f64, point| most.max(point.milliseconds));
        let line = self.points[left].milliseconds * (1.0 - share)
            + self.points[right].milliseconds * share;
        line.max(reached) + self.ms_per_key * size.kv_tokens as f64
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

    fn curve(rows: &[usize], milliseconds: &[f64]) -> CostCurve {
        CostCurve::new(rows, milliseconds, ContextCost::default()).unwrap()
    }

    fn rows(rows: usize) -> ForwardSize {
        ForwardSize { rows, kv_tokens: 0 }
    }

    /// A deterministic number in 0..1.
    fn unit(index: u64) -> f64 {
        (spectrie_types::seed::splitmix(index) >> 11) as f64 / (1_u64 << 53) as f64
    }

    #[test]
    fn curve_interpolates_extends_and_never_falls() {
        let curve = curve(&[1, 4, 8, 16], &[10.0, 13.0, 12.0, 28.0]);
        let at = |count| curve.milliseconds(rows(count));
        assert!((at(1) - 10.0).abs() < 1e-9 && (at(2) - 11.0).abs() < 1e-9);
        assert!((at(16) - 28.0).abs() < 1e-9 && (at(20) - 36.0).abs() < 1e-9);
        assert!((1..40).all(|rows| at(rows) <= at(rows + 1)));
        let times = curve.milliseconds_with(rows(3), std::iter::repeat_n(0, 30));
        assert!((0..=30).all(|more| (times[more] - at(3 + more)).abs() < 1e-9));
    }

    #[test]
    fn keys_cost_what_they_did_at_the_measured_context() {
        let context = ContextCost {
            measured_tokens: 256,
            ms_per_key: 0.001,
        };
        let curve = CostCurve::new(&[1, 8], &[10.0, 14.0], context).unwrap();
        let at = |rows, tokens| {
            let kv_tokens = rows * tokens;
            curve.milliseconds(ForwardSize { rows, kv_tokens })
        };
        assert!((at(1, 256) - 10.0).abs() < 1e-9 && (at(8, 256) - 14.0).abs() < 1e-9);
        assert!((at(8, 4352) - 14.0 - 8.0 * 4.096).abs() < 1e-9);
        assert!(at(8, 0) < at(8, 256));
    }

    #[test]
    fn measurements_move_the_curve_towards_them() {
        let mut curve = curve(&[1, 16], &[10.0, 20.0]);
        for _ in 0..500 {
            curve.observe(rows(16), 60.0);
            curve.observe(rows(1), 10.0);
        }
        for (count, truth) in [(16, 60.0), (1, 10.0)] {
            let at = curve.milliseconds(rows(count));
            assert!((at / truth - 1.0).abs() < 0.1, "{count} rows: {at}");
        }
    }

    #[test]
    fn a_machine_that_changes_its_speed_is_followed_within_fifty_forwards() {
        let truth = |rows: usize| 9.0 + rows as f64;
        for factor in [2.0, 0.5, 5.0] {
            let mut curve = curve(&[1, 4, 16, 64], &[10.0, 13.0, 25.0, 73.0]);
            let mut step = 0;
            let mut run = |curve: &mut CostCurve, factor: f64, steps: u64| {
                for _ in 0..steps {
                    step += 1;
                    let count = 1 + (unit(step) * 20.0) as usize;
                    let noise = 0.95 + 0.1 * unit(step + 1_000_000);
                    curve.observe(rows(count), factor * truth(count) * noise);
                }
            };
            for (factor, steps) in [(1.0, 200), (factor, 50), (1.0, 50)] {
                run(&mut curve, factor, steps);
                for count in [1, 2, 4, 8, 16, 40] {
                    let off = curve.milliseconds(rows(count)) / (factor * truth(count));
                    assert!((off - 1.0).abs() < 0.1, "x{factor}, {count} rows: {off}");
                }
            }
        }
    }

    #[test]
    fn hiccups_do_not_move_the_curve() {
        let mut curve = curve(&[1, 16], &[10.0, 20.0]);
        for step in 0..300 {
            let hiccup = if step % 10 == 0 { 30.0 } else { 1.0 };
            curve.observe(rows(16), 20.0 * hiccup);
            let at = curve.milliseconds(rows(16)) / curve.milliseconds(rows(1));
            assert!((at - 2.0).abs() < 0.3, "after {step}: {at}");
        }
        assert!((curve.milliseconds(rows(16)) - 20.0).abs() < 3.0);
    }

    #[test]
    fn a_point_that_is_seldom_measured_learns_more_from_each_measurement() {
        // One row is measured in holdout steps alone, and is half as dear as it was.
        let mut curve = curve(&[1, 16], &[10.0, 20.0]);
        for step in 0..1000 {
            if step % 100 == 50 {
                curve.observe(rows(1), 5.0);
            } else {
                curve.observe(rows(16), 20.0);
            }
        }
        let at = curve.milliseconds(rows(1));
        assert!((at - 5.0).abs() < 1.0, "{at}");
        assert!((curve.milliseconds(rows(16)) - 20.0).abs() < 1.0);
    }

    #[test]
    fn the_price_of_keys_is_corrected_by_long_and_short_contexts() {
        let context = ContextCost {
            measured_tokens: 0,
            ms_per_key: 0.001,
        };
        let mut curve = CostCurve::new(&[1, 16], &[10.0, 20.0], context).unwrap();
        let truth =
            |size: ForwardSize| 10.0 + (size.rows - 1) as f64 / 1.5 + 0.003 * size.kv_tokens as f64;
        let size = |step: u64| {
            let rows = 1 + step as usize % 16;
            let kv_tokens = rows * if unit(step) < 0.5 { 100 } else { 3000 };
            ForwardSize { rows, kv_tokens }
        };
        for step in 0..2000 {
            curve.observe(size(step), truth(size(step)));
        }
        for step in 0..32 {
            let off = curve.milliseconds(size(step)) / truth(size(step));
            assert!((off - 1.0).abs() < 0.15, "{:?}: {off}", size(step));
        }
    }

    #[test]
    fn curves_that_are_none_are_refused() {
        for (rows, times) in [
            (vec![], vec![]),
            (vec![1], vec![]),
            (vec![2, 2], vec![1.0, 1.0]),
            (vec![1], vec![0.0]),
        ] {
            assert!(CostCurve::new(&rows, &times, ContextCost::default()).is_err());
        }
        let context = ContextCost {
            measured_tokens: 1,
            ms_per_key: f64::NAN,
        };
        assert!(CostCurve::new(&[1], &[1.0], context).is_err());
    }
}
