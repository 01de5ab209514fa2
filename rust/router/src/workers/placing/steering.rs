//! Which worker a `prompt_cache_key` prefers.
//!
//! Each key ranks the workers in an order of its own (rendezvous hashing): one that joins or leaves
//! moves only the keys that it wins or won. A key is a preference and never a wall: it shares no
//! memory, and a worker that is too busy is passed over.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::failover::Candidate;

/// How far a worker may be loaded beyond the mean and still be preferred, as a ratio: 5 / 4.
const SLACK: (usize, usize) = (5, 4);

/// The index of the worker that a tenant's key prefers among those that are open, unless it is too
/// busy: it has no free place, and more than a quarter above the mean of all.
pub(in crate::workers) fn preferred(
    candidates: &[Candidate<'_>],
    is_open: impl Fn(&Candidate<'_>) -> bool,
    key: (&str, &str),
    num_choices: usize,
) -> Option<usize> {
    let rank = |candidate: &Candidate<'_>| {
        let mut hasher = DefaultHasher::new();
        (key, candidate.id).hash(&mut hasher);
        hasher.finish()
    };
    let open = candidates.iter().enumerate();
    let open: Vec<_> = open.filter(|(_, candidate)| is_open(candidate)).collect();
    let (index, wanted) = *open.iter().max_by_key(|(_, candidate)| rank(candidate))?;
    let places: usize = open.iter().map(|(_, one)| one.max_running).sum();
    let held: usize = open.iter().map(|(_, one)| one.num_choices).sum();
    let (load, own) = (wanted.num_choices + num_choices, wanted.max_running);
    // load / own <= 5/4 * (held + num_choices) / places, without fractions.
    let is_even = load * places * SLACK.1 <= (held + num_choices) * own * SLACK.0;
    (load <= own || is_even).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: [&str; 4] = ["0", "1", "2", "3"];

    /// Workers of two places each, with so many choices.
    fn workers(loads: &[usize]) -> Vec<Candidate<'static>> {
        let ids = IDS.iter().zip(loads);
        ids.map(|(id, num_choices)| Candidate {
            id,
            fingerprint: "",
            max_context: 1,
            num_choices: *num_choices,
            max_running: 2,
            is_idle: *num_choices == 0,
            is_reserved: false,
            is_draining: false,
        })
        .collect()
    }

    fn wanted(loads: &[usize], key: &str) -> Option<usize> {
        preferred(&workers(loads), |_| true, ("ann", key), 1)
    }

    #[test]
    fn keys_keep_their_worker_when_another_one_goes() {
        let mut moved = 0;
        for key in 0..200 {
            let key = key.to_string();
            let before = wanted(&[0; 4], &key).unwrap();
            let after = wanted(&[0; 3], &key).unwrap();
            assert!(before == after || before == 3);
            moved += usize::from(before != after);
        }
        assert!((1..100).contains(&moved), "{moved} of 200");
    }

    #[test]
    fn keys_of_two_tenants_have_nothing_in_common() {
        let of = |tenant, key: &str| preferred(&workers(&[0; 4]), |_| true, (tenant, key), 1);
        let differs = |key: &i32| of("ann", &key.to_string()) != of("bob", &key.to_string());
        assert!((0..200).filter(differs).count() > 100);
    }

    #[test]
    fn busy_worker_is_passed_over_while_others_have_less() {
        let first = wanted(&[0, 0], "k").unwrap();
        let mut loads = [0, 0];
        loads[first] = 2;
        assert_eq!(
            wanted(&loads, "k"),
            None,
            "no place, and more than the mean"
        );
        assert_eq!(wanted(&[2, 2], "k"), Some(first), "as busy as the other");
    }

    #[test]
    fn worker_that_is_not_open_is_not_preferred() {
        let first = wanted(&[0, 0], "k").unwrap();
        let is_open = |one: &Candidate<'_>| one.id != IDS[first];
        let other = preferred(&workers(&[0, 0]), is_open, ("ann", "k"), 1);
        assert_eq!(other, Some(1 - first));
    }
}
