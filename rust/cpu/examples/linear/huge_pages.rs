//! Large memory pages for what the plain read is timed on, as packed weights have them.
#![allow(unsafe_code)] // advice about mappings listed by the system

/// Since Linux 6.1; collapses at once instead of in the background.
#[cfg(target_os = "linux")]
const MADV_COLLAPSE: libc::c_int = 25;
/// Mappings below this hold no weights; thread stacks are below it too.
const SMALLEST_BYTES: usize = 16 << 20;
/// Size of a large page on x86-64, and of the default one on aarch64.
const LARGE_PAGE: usize = 2 << 20;

/// Asks for large pages wherever the process has a big anonymous mapping. Content does not change.
/// Where the system refuses or has none, nothing happens.
pub(crate) fn use_huge_pages() {
    #[cfg(target_os = "linux")]
    {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        for (start, len) in maps.lines().filter_map(anonymous_range) {
            advise(start, len);
        }
    }
}

/// Start and length of the whole large pages in a line of `/proc/self/maps`, if it is a big private
/// writable mapping without a file.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn anonymous_range(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (permissions, inode) = (fields.next()?, fields.nth(2)?);
    let name = fields.next().unwrap_or("");
    if permissions != "rw-p" || inode != "0" || !(name.is_empty() || name == "[heap]") {
        return None;
    }
    let start = usize::from_str_radix(start, 16)
        .ok()?
        .next_multiple_of(LARGE_PAGE);
    let end = usize::from_str_radix(end, 16).ok()? / LARGE_PAGE * LARGE_PAGE;
    let len = end.checked_sub(start)?;
    (len >= SMALLEST_BYTES).then_some((start, len))
}

#[cfg(target_os = "linux")]
fn advise(start: usize, len: usize) {
    // SAFETY: neither advice changes content or access; a range unmapped meanwhile gives an error.
    unsafe {
        let address = start as *mut libc::c_void;
        libc::madvise(address, len, libc::MADV_HUGEPAGE);
        libc::madvise(address, len, MADV_COLLAPSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
