//! Values by name against the rows of a table.

use super::{OptionRow, Value, Violations, nearest};

/// Every name of `values` that is unknown or missing, every value of a wrong type or out of range.
#[must_use]
pub fn check(rows: &[&OptionRow], values: &[(String, Value)]) -> Violations {
    let mut violations = Violations::default();
    for (name, value) in values {
        let Some(row) = rows.iter().find(|row| row.field == name) else {
            let close = nearest(name, rows.iter().map(|row| row.field));
            let message = close.map_or_else(
                || "no option; docs/options.md lists them".to_owned(),
                |close| format!("no option; did you mean {close}?"),
            );
            violations.push(name, message);
            continue;
        };
        row.check(value, &mut violations);
    }
    let is_given = |row: &OptionRow| values.iter().any(|(name, _)| name == row.field);
    for row in rows.iter().filter(|row| row.is_required && !is_given(row)) {
        violations.push(row.field, "missing; it must be given");
    }
    violations
}
