//! What a packed step depends on beside the plan.

use crate::error::EngineError;

/// The model that a device computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceShape {
    group: usize,
    kv_heads: usize,
    windows: Vec<Option<usize>>,
    vocabulary_size: usize,
}

impl DeviceShape {
    /// A model with `group` query heads for each key-value head on this rank and `kv_heads` of these
    /// before ranks share them. Its layers have these `windows`: keys that a row sees, its own
    /// included, `None` for all; one that comes again counts once.
    ///
    /// # Errors
    /// [`EngineError::Config`]: a number is 0, or there is no window.
    pub fn new(
        group: usize,
        kv_heads: usize,
        windows: &[Option<usize>],
        vocabulary_size: usize,
    ) -> Result<Self, EngineError> {
        let least_window = windows.iter().flatten().min();
        for (name, given) in [
            ("group", group),
            ("kv_heads", kv_heads),
            ("number of windows", windows.len()),
            ("window", least_window.copied().unwrap_or(1)),
            ("vocabulary", vocabulary_size),
        ] {
            at_least(1, name, given)?;
        }
        let mut distinct: Vec<Option<usize>> = Vec::with_capacity(windows.len());
        for &window in windows {
            if !distinct.contains(&window) {
                distinct.push(window);
            }
        }
        Ok(Self {
            group,
            kv_heads,
            windows: distinct,
            vocabulary_size,
        })
    }

    /// Query heads of a key-value head, on this rank.
    pub fn group(&self) -> usize {
        self.group
    }

    /// Key-value heads of the whole model.
    pub fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// Distinct windows of its layers, in the order they were given.
    pub fn windows(&self) -> &[Option<usize>] {
        &self.windows
    }

    /// Tokens of the vocabulary.
    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary_size
    }
}

/// Rows, nodes times the group, of the tiles that attention's programs take. No bit of a result
/// depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileRows {
    /// Of requests of at most 64 rows.
    pub part: usize,
    /// Of longer ones.
    pub prompt: usize,
}

impl TileRows {
    /// Nodes of a tile of each kind, at least one.
    pub(super) fn nodes(self, group: usize) -> Result<Self, EngineError> {
        at_least(group, "part_rows", self.part)?;
        at_least(group, "prompt_rows", self.prompt)?;
        Ok(Self {
            part: self.part / group,
            prompt: self.prompt / group,
        })
    }
}

fn at_least(least: usize, name: &'static str, given: usize) -> Result<(), EngineError> {
    if given >= least {
        return Ok(());
    }
    Err(EngineError::Config {
        name,
        given: given.to_string(),
        allowed: format!("{least} or more"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_come_again_count_once() {
        let shape = DeviceShape::new(4, 2, &[Some(128), None, Some(128)], 50).unwrap();
        assert_eq!(shape.windows(), [Some(128), None]);
    }

    #[test]
    fn numbers_that_cannot_be_are_refused_by_name() {
        let refused = [
            (DeviceShape::new(0, 1, &[None], 5), "group is 0"),
            (DeviceShape::new(1, 0, &[None], 5), "kv_heads is 0"),
            (DeviceShape::new(1, 1, &[], 5), "number of windows is 0"),
            (DeviceShape::new(1, 1, &[None, Some(0)], 5), "window is 0"),
            (DeviceShape::new(1, 1, &[None], 0), "vocabulary is 0"),
        ];
        for (shape, begin) in refused {
            let message = shape.unwrap_err().to_string();
            assert_eq!(message, format!("{begin}; allowed: 1 or more"));
        }
        let tiles = TileRows {
            part: 16,
            prompt: 4,
        };
        let message = tiles.nodes(7).unwrap_err().to_string();
        assert_eq!(message, "prompt_rows is 4; allowed: 7 or more");
        assert_eq!(tiles.nodes(4).unwrap(), TileRows { part: 4, prompt: 1 });
    }
}
