//! Large pages of the linear bench: which mappings get them, and that content survives.
//! A bench with a main of its own runs no tests.

#[path = "../../benches/linear/huge_pages.rs"]
mod advice;

use advice::{anonymous_range, use_huge_pages};

#[test]
fn only_big_private_anonymous_mappings_are_taken() {
    let range = anonymous_range("7f0000100000-7f0004300000 rw-p 00000000 00:00 0 ");
    assert_eq!(range, Some((0x7f00_0020_0000, 0x0400_0000)));
    for other in [
        "7f0000100000-7f0000300000 rw-p 00000000 00:00 0",
        "7f0000100000-7f0004300000 r--p 00000000 00:00 0",
        "7f0000100000-7f0004300000 rw-p 00000000 08:01 77 /some/file",
        "7f0000100000-7f0004300000 rw-p 00000000 00:00 0 [stack]",
        "nonsense",
    ] {
        assert_eq!(anonymous_range(other), None, "{other}");
    }
}

#[test]
fn content_survives_the_advice() {
    let data: Vec<u32> = (0..8 << 20).collect();
    use_huge_pages();
    assert!(
        data.iter()
            .enumerate()
            .all(|(i, &value)| i == value as usize)
    );
}
