//! What one forward costs, by its rows and by the cached tokens that they read.

use std::collections::VecDeque;

use super::rising::rising;
use super::shape::CostShape;
use super::size::ForwardSize;
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

/// Milliseconds of a forward as a function of its size, corrected while serving.
///
/// Three parts: lines or stairs between measured points for the rows, prices for the cached tokens that
/// rows and tiles read, and the speed of the machine now, which multiplies all. Within fifty forwards of a change of speed every
/// size is predicted to 10 % again. The first two parts are corrected slowly, by what a forward took
/// beside its neighbours in time.
///
/// The corrections change how much is drafted, never a token.
#[derive(Debug, Clone)]
pub(crate) struct CostCurve {
    /// None costs less than the one before it.
    points: Vec<Point>,
    shape: CostShape,
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
        let points = [1.0, FLAT_ROWS, 2.0 * FLAT_ROWS].map(point);
        Self::through(points.to_vec(), CostShape::default())
    }
}

impl CostCurve {
    /// A curve through `milliseconds` at ascending `rows`, of the given shape beside them.
    pub(crate) fn new(
        rows: &[usize],
        milliseconds: &[f64],
        shape: CostShape,
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
        for (name, price) in [
            ("ms_per_key", shape.ms_per_key),
            ("ms_per_read", shape.ms_per_read),
        ] {
            if !price.is_finite() || price < 0.0 {
                return wrong(name, price.to_string(), "a finite number, at least 0");
            }
        }
        if shape.tile_rows == 0 {
            return wrong("tile_rows", "0".to_owned(), "1 or more rows");
        }
        let points = rows.iter().zip(milliseconds).map(|(&rows, &milliseconds)| {
            let of_keys = shape.milliseconds(shape.timed(rows));
            Point {
                rows: rows as f64,
                milliseconds: (milliseconds - of_keys).max(LEAST_OF_ROWS * milliseconds),
                age: 0,
            }
        });
        Ok(Self::through(points.collect(), shape))
    }

    fn through(mut points: Vec<Point>, shape: CostShape) -> Self {
        keep_rising(&mut points);
        Self {
            points,
            shape,
            slowness: 1.0,
            recent: VecDeque::new(),
        }
    }

    /// Expected milliseconds of a forward; never falls as rows or keys grow.
    pub(crate) fn milliseconds(&self, size: ForwardSize) -> f64 {
        self.slowness * self.unscaled(size)
    }

    /// Expected milliseconds of `from` alone and with one, two ... of `more`; in time proportional to
    /// their number.
    pub(crate) fn milliseconds_with(
        &self,
        from: ForwardSize,
        more: impl Iterator<Item = ForwardSize>,
    ) -> Vec<f64> {
        let mut size = from;
        let mut times = vec![self.milliseconds(size)];
        times.extend(more.map(|one| {
            size = size + one;
            self.milliseconds(size)
        }));
        times
    }

    /// Expected milliseconds that rows of this size add to a forward of one row.
    pub(crate) fn work_ms(&self, size: ForwardSize) -> f64 {
        let one = self.chunk(0, 1);
        self.milliseconds(size + one) - self.milliseconds(one)
    }

    /// The size of so many prompt rows after `kv_len` cached tokens.
    pub(crate) fn chunk(&self, kv_len: usize, rows: usize) -> ForwardSize {
        ForwardSize::of_chunk(kv_len, rows, self.tile_rows())
    }

    /// Rows of a request that read its cached tokens together.
    pub(crate) fn tile_rows(&self) -> usize {
        self.shape.tile_rows
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
        let whole = self.unscaled(size);
        let of_rows = self.shape.ms_per_key * size.kv_tokens as f64 / whole;
        let of_tiles = self.shape.ms_per_read * size.kv_reads as f64 / whole;
        self.shape.ms_per_key *= (LEARNING_RATE * of_rows * surprise).exp();
        self.shape.ms_per_read *= (LEARNING_RATE * of_tiles * surprise).exp();
        let share_of_keys = of_rows + of_tiles;
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
        // Otherwise points that are measured the wrong way round would go on apart, each never reaching its time.
        keep_rising(&mut self.points);
    }

    /// What a forward takes beside the machine's speed.
    fn unscaled(&self, size: ForwardSize) -> f64 {
        let (left, right, share) = self.bracket(size.rows as f64);
        let (low, high) = (
            self.points[left].milliseconds,
            self.points[right].milliseconds,
        );
        let line = low + (high - low) * share;
        // Rounded, it could lie on the other side of the point.
        let of_rows = if share <= 1.0 {
            line.min(high)
        } else {
            line.max(high)
        };
        of_rows + self.shape.milliseconds(size)
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
        let is_stair = rows <= self.shape.stair_rows as f64 && rows <= self.points[right].rows;
        if right == 0 || is_stair {
            return (right, right, 0.0);
        }
        let left = right - 1;
        let width = self.points[right].rows - self.points[left].rows;
        (left, right, (rows - self.points[left].rows) / width)
    }
}

/// Moves points to the nearest that never fall.
fn keep_rising(points: &mut [Point]) {
    let times = rising(points.iter().map(|point| point.milliseconds));
    for (point, time) in points.iter_mut().zip(times) {
        point.milliseconds = time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(rows: &[usize], milliseconds: &[f64]) -> CostCurve {
        CostCurve::new(rows, milliseconds, CostShape::default()).unwrap()
    }

    fn rows(rows: usize) -> ForwardSize {
        ForwardSize::of_tree(0, rows, 1)
    }

    #[test]
    fn curve_interpolates_extends_and_never_falls() {
        let curve = curve(&[1, 4, 8, 16], &[10.0, 13.0, 12.0, 28.0]);
        let at = |count| curve.milliseconds(rows(count));
        assert!((at(1) - 10.0).abs() < 1e-9 && (at(4) - 12.5).abs() < 1e-9);
        assert!((at(16) - 28.0).abs() < 1e-9 && (at(20) - 35.75).abs() < 1e-9);
        assert!((1..40).all(|rows| at(rows) <= at(rows + 1)));
        let times = curve.milliseconds_with(rows(3), std::iter::repeat_n(rows(1), 30));
        assert!((0..=30).all(|more| (times[more] - at(3 + more)).abs() < 1e-9));
    }

    #[test]
    fn keys_cost_what_they_did_at_the_measured_context() {
        let shape = CostShape {
            measured_tokens: 256,
            ms_per_key: 0.001,
            ..CostShape::default()
        };
        let curve = CostCurve::new(&[1, 8], &[10.0, 14.0], shape).unwrap();
        let at = |rows, tokens| curve.milliseconds(ForwardSize::of_tree(tokens, rows, 1));
        assert!((at(1, 256) - 10.0).abs() < 1e-9 && (at(8, 256) - 14.0).abs() < 1e-9);
        assert!((at(8, 4352) - 14.0 - 8.0 * 4.096).abs() < 1e-9);
        assert!(at(8, 0) < at(8, 256));
    }

    #[test]
    fn curves_that_are_none_are_refused() {
        for (rows, times) in [
            (vec![], vec![]),
            (vec![1], vec![]),
            (vec![2, 2], vec![1.0, 1.0]),
            (vec![1], vec![0.0]),
        ] {
            assert!(CostCurve::new(&rows, &times, CostShape::default()).is_err());
        }
        let good = CostShape::default();
        for shape in [
            CostShape {
                ms_per_key: f64::NAN,
                ..good
            },
            CostShape {
                ms_per_read: -1.0,
                ..good
            },
            CostShape {
                tile_rows: 0,
                ..good
            },
        ] {
            assert!(CostCurve::new(&[1], &[1.0], shape).is_err(), "{shape:?}");
        }
    }

    #[test]
    fn up_to_the_last_stair_a_forward_takes_as_long_as_the_next_size() {
        let shape = CostShape {
            stair_rows: 8,
            ..CostShape::default()
        };
        let curve = CostCurve::new(&[1, 4, 8, 16], &[10.0, 11.0, 12.0, 20.0], shape).unwrap();
        for (count, expected) in [
            (1, 10.0),
            (2, 11.0),
            (4, 11.0),
            (5, 12.0),
            (8, 12.0),
            (12, 16.0),
            (24, 28.0),
        ] {
            let at = curve.milliseconds(rows(count));
            assert!((at - expected).abs() < 1e-9, "{count} rows: {at}");
        }
    }

    #[test]
    fn rows_of_a_tile_share_the_price_of_reading() {
        let shape = CostShape {
            measured_tokens: 100,
            ms_per_read: 0.001,
            tile_rows: 16,
            ..CostShape::default()
        };
        // Timed with rows in one tile, then two.
        let curve = CostCurve::new(&[1, 32], &[10.0, 13.2], shape).unwrap();
        let of = |kv_len, rows| curve.milliseconds(ForwardSize::of_tree(kv_len, rows, 16));
        assert!((of(100, 1) - 10.0).abs() < 1e-9 && (of(100, 32) - 13.2).abs() < 1e-9);
        assert!((of(10_100, 1) - 20.0).abs() < 1e-9);
        assert!((of(10_100, 16) - of(100, 16) - 10.0).abs() < 1e-9);
        assert!((of(10_100, 17) - of(100, 17) - 20.0).abs() < 1e-9);
        let apart: ForwardSize = (0..32).map(|_| ForwardSize::of_tree(100, 1, 16)).sum();
        assert!((curve.milliseconds(apart) - 13.2 - 30.0 * 0.1).abs() < 1e-9);
    }
}
