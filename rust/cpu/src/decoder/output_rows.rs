//! Which rows of a block go through the head, and where their logits go.

use crate::error::CpuError;

/// One row of a block whose logits are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutputRow {
    /// Row of the block.
    pub(crate) row: usize,
    /// Which of the batch's top rows it is.
    pub(crate) top: Option<usize>,
}

/// The output rows of one block: those whose logits are kept, then the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OutputRows {
    pub(crate) rows: Vec<OutputRow>,
    /// Where the first row's logits go. Logits that are not kept lie after those that are, where the
    /// next block's overwrite them.
    pub(crate) first_logits: usize,
    /// How many are kept.
    pub(crate) num_kept: usize,
}

/// The output rows of each block of `block_rows` rows of a batch of `num_rows`.
///
/// # Errors
/// [`CpuError::Entry`] where `sample_rows` or `top_rows` do not ascend or leave the batch.
pub(crate) fn output_rows(
    num_rows: usize,
    block_rows: usize,
    sample_rows: &[i32],
    top_rows: &[i32],
) -> Result<Vec<OutputRows>, CpuError> {
    let samples = ascending("sample_rows", sample_rows, num_rows)?;
    let tops = ascending("top_rows", top_rows, num_rows)?;
    let mut blocks = vec![OutputRows::default(); num_rows.div_ceil(block_rows)];
    for &row in &samples {
        let top = tops.binary_search(&row).ok();
        let block = &mut blocks[row / block_rows];
        block.num_kept += 1;
        block.rows.push(OutputRow {
            row: row % block_rows,
            top,
        });
    }
    for (top, &row) in tops.iter().enumerate() {
        if samples.binary_search(&row).is_err() {
            blocks[row / block_rows].rows.push(OutputRow {
                row: row % block_rows,
                top: Some(top),
            });
        }
    }
    let mut done = 0;
    for block in &mut blocks {
        block.first_logits = done;
        done += block.num_kept;
    }
    Ok(blocks)
}

fn ascending(what: &'static str, rows: &[i32], num_rows: usize) -> Result<Vec<usize>, CpuError> {
    let mut checked: Vec<usize> = Vec::with_capacity(rows.len());
    for (index, &row) in rows.iter().enumerate() {
        let min_row = checked.last().map_or(0, |last| last + 1);
        match usize::try_from(row) {
            Ok(row) if (min_row..num_rows).contains(&row) => checked.push(row),
            _ => {
                return Err(CpuError::Entry {
                    what,
                    index,
                    given: i64::from(row),
                    expected: format!("{min_row}..{num_rows}, rows in ascending order"),
                });
            }
        }
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(output: &OutputRows) -> Vec<(usize, Option<usize>)> {
        output.rows.iter().map(|row| (row.row, row.top)).collect()
    }

    #[test]
    fn kept_rows_come_first_and_follow_each_other_over_blocks() {
        let blocks = output_rows(10, 4, &[1, 5, 7], &[0, 1, 4, 5, 7, 9]).expect("ascending rows");
        assert_eq!(rows(&blocks[0]), [(1, Some(1)), (0, Some(0))]);
        assert_eq!(rows(&blocks[1]), [(1, Some(3)), (3, Some(4)), (0, Some(2))]);
        assert_eq!(rows(&blocks[2]), [(1, Some(5))]);
        let places: Vec<_> = blocks
            .iter()
            .map(|b| (b.first_logits, b.num_kept))
            .collect();
        assert_eq!(places, [(0, 1), (1, 2), (3, 0)]);
    }

    #[test]
    fn rows_out_of_order_or_of_the_batch_are_refused() {
        for (samples, tops, message) in [
            (&[1, 1][..], &[][..], "sample_rows[1] is 1, expected 2..3"),
            (&[], &[3], "top_rows[0] is 3, expected 0..3"),
            (&[-1], &[], "sample_rows[0] is -1, expected 0..3"),
        ] {
            let error = output_rows(3, 4, samples, tops)
                .expect_err("bad rows")
                .to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
