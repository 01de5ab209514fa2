//! The known name that a wrong one was probably meant to be.

/// The known name with the fewest changed characters, if a third of `given` or less differs.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let best = known
        .into_iter()
        .map(|name| (distance(given, name), name))
        .min_by_key(|&(distance, _)| distance)?;
    (best.0 * 3 <= given.len()).then_some(best.1)
}

/// Insertions, deletions and replacements that turn one text into the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, left) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_are_recognised_and_foreign_ones_are_not() {
        let known = ["max_context", "max_running", "recycle"];
        assert_eq!(nearest("max_contxt", known), Some("max_context"));
        assert_eq!(nearest("recicle", known), Some("recycle"));
        assert_eq!(nearest("colour", known), None);
    }
}
