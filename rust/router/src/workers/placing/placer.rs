//! Which worker a new request goes to.
//!
//! First the one that its `prompt_cache_key` names, then the one that knows most of its prompt, each
//! only while it has room. A prompt that goes on from an earlier one follows it: moving a
//! conversation costs all of its text. One that only shares a beginning with others, such as a system
//! prompt, follows that while the worker did not have to compute more than the others lately, so that
//! conversations are spread evenly however few system prompts there are. Else the less loaded of
//! two workers drawn at random takes it, drawn of those with a free place where there are any.

use std::cmp::{Ordering, Reverse};

use spectrie_types::seed::splitmix;

use super::affinity::{Affinity, Standing};
use super::order::Order;
use super::room::Room;
use super::steering::preferred;
use crate::failover::Candidate;

/// Places the requests of one model.
#[derive(Debug, Default)]
pub(in crate::workers) struct Placer {
    affinity: Affinity,
    /// Whether two workers were there at once: only then it matters who knows what.
    is_shared: bool,
    /// Numbers the draws: equal orders in a row give equal places, so that schedules can be played again.
    draws: u32,
}

impl Placer {
    /// A worker is ready whose prefix cache holds so many tokens.
    pub(in crate::workers) fn joined(&mut self, worker: &str, cache_tokens: usize) {
        self.affinity.join(worker, cache_tokens);
        self.is_shared |= self.affinity.num_workers() > 1;
    }

    /// A worker is gone, with all that it knew.
    pub(in crate::workers) fn left(&mut self, worker: &str) {
        self.affinity.forget(worker);
    }

    /// All workers have forgotten a namespace.
    pub(in crate::workers) fn forget_namespace(&mut self, namespace: &str) {
        self.affinity.forget_namespace(namespace);
    }

    /// Whether requests are placed by their prompts: not while the model never had two workers.
    pub(in crate::workers) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The request was sent to this worker.
    pub(in crate::workers) fn placed(&mut self, worker: &str, order: &Order<'_>) {
        self.affinity.record(worker, order.prefix);
    }

    /// The index of the worker that the request goes to, of those that `is_open` to it.
    pub(in crate::workers) fn place(
        &mut self,
        candidates: &[Candidate<'_>],
        is_open: impl Fn(&Candidate<'_>) -> bool,
        order: &Order<'_>,
    ) -> Option<usize> {
        let all = candidates.iter().enumerate();
        let mut open: Vec<_> = all.filter(|(_, one)| is_open(one)).collect();
        if open.iter().any(|(_, one)| !one.is_ejected) {
            open.retain(|(_, one)| !one.is_ejected);
        }
        if open.is_empty() {
            return None;
        }
        let room = Room::of(open.iter().map(|(_, one)| *one));
        let key = order.cache_key.map(|key| (order.tenant, key));
        let place = key
            .and_then(|key| preferred(&open, room, key, order.num_choices))
            .unwrap_or_else(|| {
                let look =
                    |(_, one): &(usize, &Candidate<'_>)| self.affinity.lookup(one.id, order.prefix);
                let standings: Vec<_> = open.iter().map(look).collect();
                let home = home(&open, &standings, room, order.num_choices);
                home.unwrap_or_else(|| self.draw(&open, &standings, order.num_choices))
            });
        open.get(place).map(|(index, _)| *index)
    }

    /// The less loaded of two workers drawn at random; of equally loaded ones the one that had less
    /// to compute lately, then the one that joined last.
    fn draw(
        &mut self,
        open: &[(usize, &Candidate<'_>)],
        standings: &[Standing],
        num_choices: usize,
    ) -> usize {
        let is_free =
            |place: &usize| open[*place].1.num_choices + num_choices <= open[*place].1.max_running;
        let mut drawn: Vec<usize> = (0..open.len()).filter(is_free).collect();
        if drawn.is_empty() {
            drawn = (0..open.len()).collect();
        }
        self.draws = self.draws.wrapping_add(2);
        let below = |end: usize, salt: u32| {
            (splitmix(u64::from(self.draws ^ salt)) % end.max(1) as u64) as usize
        };
        let first = below(drawn.len(), 0);
        let second = (first + 1 + below(drawn.len() - 1, 1)) % drawn.len();
        let (first, second) = (drawn[first.max(second)], drawn[first.min(second)]);
        let load = |place: usize| {
            let (one, work) = (open[place].1, standings[place].work);
            let places = one.max_running.max(1);
            (one.num_choices * 1024 / places, work / places as f64)
        };
        let ((first_load, first_work), (second_load, second_work)) = (load(first), load(second));
        let order = first_load.cmp(&second_load);
        match order.then(first_work.total_cmp(&second_work)) {
            Ordering::Greater => second,
            Ordering::Less | Ordering::Equal => first,
        }
    }
}

/// The worker that knows most of the prompt, of those that have room for it.
fn home(
    open: &[(usize, &Candidate<'_>)],
    standings: &[Standing],
    room: Room,
    num_choices: usize,
) -> Option<usize> {
    let all: f64 = standings.iter().map(|one| one.work).sum();
    let may_take = |place: &usize| {
        let (worker, Standing { found, work }) = (open[*place].1, standings[*place]);
        found.tokens > 0
            && room.has(worker, num_choices)
            && (found.is_continued || room.is_even(worker, work, all))
    };
    let rank = |place: &usize| {
        let (worker, standing) = (open[*place].1, standings[*place]);
        let load = worker.num_choices * 1024 / worker.max_running.max(1);
        (standing.found.tokens, Reverse(load), Reverse(*place))
    };
    (0..open.len()).filter(may_take).max_by_key(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::placing::Prefix;

    const IDS: [&str; 4] = ["0", "1", "2", "3"];

    fn candidates(loads: &[usize]) -> Vec<Candidate<'static>> {
        let workers = IDS.iter().zip(loads);
        workers
            .map(|(id, num_choices)| Candidate {
                id,
                fingerprint: "",
                max_context: 1,
                num_choices: *num_choices,
                is_idle: *num_choices == 0,
                max_running: 4,
                is_reserved: false,
                is_draining: false,
                is_ejected: false,
            })
            .collect()
    }

    fn placer() -> Placer {
        let mut placer = Placer::default();
        for id in IDS {
            placer.joined(id, 100_000);
        }
        placer
    }

    fn order(prefix: &Prefix) -> Order<'_> {
        Order {
            model: "m",
            tenant: "ann",
            num_choices: 1,
            needs_context: 1,
            cache_key: None,
            prefix,
        }
    }

    fn prefix(from: u32, count: u32) -> Prefix {
        Prefix::new("ann", &(from..from + count).collect::<Vec<_>>())
    }

    #[test]
    fn conversation_follows_its_worker_while_that_has_room() {
        let mut placer = placer();
        placer.placed("2", &order(&prefix(0, 640)));
        let next = prefix(0, 900);
        let mut place = |loads| placer.place(&candidates(loads), |_| true, &order(&next));
        assert_eq!(place(&[0, 0, 3, 0]), Some(2), "a free place");
        assert_eq!(place(&[4, 4, 4, 4]), Some(2), "as busy as the others");
        assert_ne!(place(&[0, 0, 4, 0]), Some(2), "too busy");
    }

    #[test]
    fn prompts_are_looked_at_once_there_were_two_workers() {
        let mut placer = Placer::default();
        for id in ["0", "1", "2"] {
            // One that is replaced by the next has nothing to choose from.
            placer.joined(id, 100_000);
            assert!(!placer.is_shared());
            placer.left(id);
        }
        placer.joined("3", 100_000);
        placer.joined("4", 100_000);
        assert!(placer.is_shared());
        placer.left("4");
        assert!(placer.is_shared(), "another one may come");
    }

    #[test]
    fn new_prompt_never_waits_while_a_worker_has_a_free_place() {
        let mut placer = placer();
        for from in 0..40 {
            let new = prefix(10_000 * from, 640);
            let placed = placer.place(&candidates(&[4, 4, 3, 4]), |_| true, &order(&new));
            assert_eq!(placed, Some(2));
        }
        let placed = placer.place(&candidates(&[4; 4]), |_| true, &order(&prefix(0, 640)));
        assert!(placed.is_some(), "all wait somewhere");
    }

    #[test]
    fn next_longest_prefix_is_taken_where_the_longest_has_no_room() {
        let mut placer = placer();
        placer.placed("0", &order(&prefix(0, 640)));
        placer.placed("1", &order(&prefix(0, 320)));
        let next = prefix(0, 900);
        let placed = placer.place(&candidates(&[9, 0, 0, 0]), |_| true, &order(&next));
        assert_eq!(placed, Some(1));
    }

    #[test]
    fn shared_beginning_draws_no_more_than_its_part() {
        let mut placer = placer();
        let mut placed = [0; 4];
        for conversation in 1..=400_u32 {
            let ids: Vec<_> = (0..640)
                .chain((0..64).map(|id| id + conversation * 1000))
                .collect();
            let prefix = Prefix::new("ann", &ids);
            let place = placer
                .place(&candidates(&[0; 4]), |_| true, &order(&prefix))
                .unwrap();
            placer.placed(IDS[place], &order(&prefix));
            placed[place] += 1;
        }
        assert!(placed.iter().all(|count| *count <= 130), "{placed:?}");
    }

    #[test]
    fn misses_spread_over_all_and_avoid_the_loaded() {
        let mut placer = placer();
        let mut drawn = [0; 4];
        for number in 0..400 {
            let place = placer.place(
                &candidates(&[0, 0, 0, 2]),
                |_| true,
                &order(&prefix(number, 10)),
            );
            drawn[place.unwrap()] += 1;
        }
        assert_eq!(drawn[3], 0, "another one is drawn beside it");
        assert!(drawn[..3].iter().all(|count| *count > 50), "{drawn:?}");
    }

    #[test]
    fn ejected_workers_take_nothing_while_another_is_there() {
        let mut placer = placer();
        placer.placed("0", &order(&prefix(0, 640)));
        let mut all = candidates(&[0, 0]);
        all[0].is_ejected = true;
        let next = prefix(0, 900);
        assert_eq!(placer.place(&all, |_| true, &order(&next)), Some(1));
        all[1].is_ejected = true;
        assert_eq!(placer.place(&all, |_| true, &order(&next)), Some(0));
    }

    #[test]
    fn only_open_workers_take_anything() {
        let mut placer = placer();
        placer.placed("0", &order(&prefix(0, 640)));
        let all = candidates(&[0; 4]);
        for wanted in ["1", "2", "3"] {
            let placed = placer.place(&all, |one| one.id == wanted, &order(&prefix(0, 640)));
            assert_eq!(placed.map(|place| IDS[place]), Some(wanted));
        }
        assert_eq!(placer.place(&all, |_| false, &order(&prefix(0, 640))), None);
    }
}
