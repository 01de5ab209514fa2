//! Plans that contradict themselves are refused, each with the entry at fault.

use crate::support::{Arrays, MAX_CONTEXT, NUM_PAGES, Request};
use spectrie_cpu::{Batch, CpuError};

fn plan() -> Arrays {
    Arrays::new(&[
        Request {
            kv_len: 0,
            rows: 4,
            pages: vec![2],
            parents: None,
        },
        Request {
            kv_len: 20,
            rows: 3,
            pages: vec![5, 6],
            parents: Some(vec![-1, 0, 0]),
        },
    ])
}

fn refusal(change: impl FnOnce(&mut Arrays)) -> String {
    let mut arrays = plan();
    change(&mut arrays);
    Batch::new(&arrays.view(), NUM_PAGES, MAX_CONTEXT)
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

#[test]
fn a_plan_of_chunk_and_tree_is_accepted() {
    assert_eq!(plan().batch().num_rows(), 7);
}

#[test]
fn arrays_of_unequal_length_are_refused() {
    let mut arrays = plan();
    arrays.row_slot.pop();
    let error = Batch::new(&arrays.view(), NUM_PAGES, MAX_CONTEXT).err();
    assert_eq!(
        error,
        Some(CpuError::Length {
            what: "row_slot",
            given: 6,
            expected: 7
        })
    );
}

#[test]
fn entries_out_of_range_are_refused_by_name() {
    for (change, part) in [
        (
            (|a: &mut Arrays| a.page_ids[0] = 96) as fn(&mut Arrays),
            "page_ids[0] is 96",
        ),
        (|a| a.page_ids[0] = -1, "page_ids[0] is -1"),
        (|a| a.row_slot[1] = 40, "row_slot[1] is 40, expected 33"),
        (
            |a| a.row_position[2] = 7,
            "row_position[2] is 7, expected 2",
        ),
        (
            |a| a.row_position[5] = 20,
            "row_position[5] is 20, expected 21",
        ),
        (|a| a.row_parent[4] = 0, "row_parent[4] is 0, expected -1"),
        (|a| a.row_parent[6] = 2, "row_parent[6] is 2, expected 0..2"),
        (|a| a.row_ancestors[6] = 7, "row_ancestors[6] is 7"),
        (
            |a| a.request_row_start[1] = 3,
            "request_row_start[1] is 3, expected 4",
        ),
        (|a| a.request_row_count[1] = 9, "request_row_count[1] is 9"),
        (
            |a| a.request_row_count[1] = 2,
            "rows of requests has 6 elements, expected 7",
        ),
        (|a| a.request_kv_len[1] = -1, "request_kv_len[1] is -1"),
        (
            |a| a.request_kv_len[1] = 30,
            "page_indptr[1] is 3, expected pages for 33",
        ),
        (|a| a.request_kind[0] = 2, "request_kind[0] is 2"),
        (|a| a.page_indptr[1] = 9, "page_indptr"),
        (
            |a| {
                a.kv_move_src = vec![1];
                a.kv_move_dst = vec![96 * 16];
            },
            "kv_move_dst[0] is 1536",
        ),
    ] {
        let message = refusal(change);
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

#[test]
fn two_rows_writing_one_slot_are_refused() {
    let message = refusal(|arrays| {
        arrays.page_ids[2] = 2;
        for row in 4..7 {
            arrays.row_slot[row] = 32 + row as i32;
        }
        arrays.request_kv_len[1] = 16;
        for (row, position) in [(4, 16), (5, 17), (6, 17)] {
            arrays.row_position[row] = position;
            arrays.row_slot[row] = 32 + row as i32 - 4;
        }
    });
    assert!(
        message.contains("a slot that no other row writes"),
        "{message:?}"
    );
}

#[test]
fn trees_of_more_rows_than_an_ancestor_word_has_bits_are_refused() {
    let parents = Some((-1..64).collect());
    let request = Request {
        kv_len: 0,
        rows: 65,
        pages: vec![0, 1, 2, 3, 4],
        parents,
    };
    let arrays = Arrays::new(&[request]);
    let error = Batch::new(&arrays.view(), NUM_PAGES, MAX_CONTEXT).err();
    assert!(error.is_some_and(|error| error.to_string().contains("<= 64 in a tree")));
}
