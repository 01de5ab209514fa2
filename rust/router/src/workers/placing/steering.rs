//! Which worker a `prompt_cache_key` prefers.
//!
//! Each key ranks the workers in an order of its own (rendezvous hashing): one that joins or leaves
//! moves only the keys that it wins or won. A key is a preference and never a wall: it shares no
//! memory, and a worker that is too busy is passed over.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::room::Room;
use crate::failover::Candidate;

/// The worker that a tenant's key prefers among those that are open, as its place in `open`;
/// none if it is too busy.
pub(super) fn preferred(
    open: &[(usize, &Candidate<'_>)],
    room: Room,
    key: (&str, &str),
    num_choices: usize,
) -> Option<usize> {
    let rank = |candidate: &Candidate<'_>| {
        let mut hasher = DefaultHasher::new();
        (key, candidate.id).hash(&mut hasher);
        hasher.finish()
    };
    let places = 0..open.len();
    let wanted = places.max_by_key(|place| rank(open[*place].1))?;
    room.has(open[wanted].1, num_choices).then_some(wanted)
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
            is_ejected: false,
        })
        .collect()
    }

    fn wanted_of(loads: &[usize], key: (&str, &str)) -> Option<usize> {
        let workers = workers(loads);
        let open: Vec<_> = workers.iter().enumerate().collect();
        preferred(&open, Room::of(workers.iter()), key, 1)
    }

    fn wanted(loads: &[usize], key: &str) -> Option<usize> {
        wanted_of(loads, ("ann", key))
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
        let of = |tenant, key: &str| wanted_of(&[0; 4], (tenant, key));
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
}
