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
pub(crate) fn anonymous_range(line: &str) -> Option<(usize, usize)> {
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
