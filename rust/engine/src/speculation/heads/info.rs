//! What the engine knows of a drafter that the runner calls.

use spectrie_types::Source;

use crate::error::EngineError;

/// A drafter that the runner calls, as it measured it.
///
/// It answers rows: each a token after a known path, with the likeliest tokens that follow. Rows whose
/// parents were asked together are a level.
#[derive(Debug, Clone, PartialEq)]
pub struct DrafterInfo {
    /// What its tokens are credited to: a head, or a model of its own.
    pub source: Source,
    /// Whether it reads the model's features, which are then kept for it; else tokens say all.
    pub needs_features: bool,
    /// Levels that it answers in a step at most.
    pub max_levels: usize,
    /// Rows that it answers in a step at most, all levels together.
    pub max_rows: usize,
    /// Ascending numbers of rows that levels were timed at.
    pub rows: Vec<usize>,
    /// Milliseconds of the first level at each.
    pub first_ms: Vec<f64>,
    /// Milliseconds of a later level at each.
    pub later_ms: Vec<f64>,
    /// Milliseconds that it takes to make keys of so many committed tokens, at each of `rows`; empty for one that
    /// reads features, whose keys are made by forwards.
    pub fill_ms: Vec<f64>,
    /// Whose text it learned: it is asked for requests of these namespaces alone; `None` = of all.
    pub namespaces: Option<Vec<String>>,
}

impl DrafterInfo {
    /// Whether requests of this namespace may draft from it.
    pub(super) fn is_for(&self, namespace: &str) -> bool {
        let named = self.namespaces.as_ref();
        named.is_none_or(|names| names.iter().any(|name| name == namespace))
    }

    /// Checks every value.
    pub(super) fn check(&self) -> Result<(), EngineError> {
        let wrong = |name, given: String, allowed: &str| {
            Err(EngineError::Config {
                name,
                given,
                allowed: allowed.to_owned(),
            })
        };
        if !matches!(self.source, Source::Head | Source::DraftModel) {
            let given = self.source.name().to_owned();
            return wrong("source", given, "head or draft_model");
        }
        for (name, given) in [("max_levels", self.max_levels), ("max_rows", self.max_rows)] {
            if given == 0 {
                return wrong(name, "0".to_owned(), "1 or more");
            }
        }
        if self.rows.is_empty()
            || self.rows[0] == 0
            || self.rows.windows(2).any(|pair| pair[0] >= pair[1])
        {
            let given = format!("{:?}", self.rows);
            return wrong("rows", given, "ascending numbers from 1");
        }
        let num_fills = if self.needs_features {
            0
        } else {
            self.rows.len()
        };
        for (name, times, expected) in [
            ("first_ms", &self.first_ms, self.rows.len()),
            ("later_ms", &self.later_ms, self.rows.len()),
            ("fill_ms", &self.fill_ms, num_fills),
        ] {
            let is_right = |time: &f64| time.is_finite() && *time > 0.0;
            if times.len() != expected || !times.iter().all(is_right) {
                let allowed = match expected {
                    0 => "none for a drafter that reads features",
                    _ => "a finite number above 0 for each of `rows`",
                };
                return wrong(name, format!("{times:?}"), allowed);
            }
        }
        Ok(())
    }
}
