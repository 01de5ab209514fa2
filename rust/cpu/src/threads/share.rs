//! Items of work in parts that the members of a team take one after the other.

use crate::threads::member::Member;

/// Calls `work` once with each of `0..items`, on some member, in at most `parts_each` parts per member
/// of neighbouring items. Ends without a barrier.
pub(crate) fn share_out(
    member: &Member<'_>,
    items: usize,
    parts_each: usize,
    mut work: impl FnMut(usize),
) {
    let parts = items.min(member.threads() * parts_each);
    member.share(parts, |part| {
        for item in items * part / parts..items * (part + 1) / parts {
            work(item);
        }
    });
}
