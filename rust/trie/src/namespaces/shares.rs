//! Fair shares of the budget: what each namespace has to itself, and who makes room.

use std::cmp::Reverse;

/// The weight of a namespace in use. One that is idle has half of it for each time that the
/// others were given as many bytes as the budget has, down to 1.
const FULL_WEIGHT: u64 = 64;

/// What one namespace has, and since when nobody used it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    pub(super) bytes: usize,
    /// Bytes given out, to anybody, since its last use.
    pub(super) idle_bytes: u64,
    /// Grows with each use of any namespace.
    pub(super) last_used: u64,
    /// Whether it was asked in vain to give bytes back.
    pub(super) is_spent: bool,
}

/// The shares of all namespaces at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    budget_bytes: u64,
    total_weight: u64,
}

impl Shares {
    /// Divides `budget_bytes` among `holdings`.
    pub(super) fn new(budget_bytes: usize, holdings: &[Holding]) -> Self {
        let budget_bytes = budget_bytes as u64;
        let weights = holdings.iter().map(|one| weight(one, budget_bytes));
        Self {
            budget_bytes,
            total_weight: weights.sum::<u64>().max(1),
        }
    }

    /// Bytes that nobody takes from the owner of `holding`.
    pub(super) fn of(&self, holding: &Holding) -> usize {
        let weight = weight(holding, self.budget_bytes);
        (u128::from(self.budget_bytes) * u128::from(weight) / u128::from(self.total_weight))
            as usize
    }

    /// Whether it has more than its share only because it is idle.
    pub(super) fn is_idle(&self, holding: &Holding) -> bool {
        let active = u128::from(self.budget_bytes) * u128::from(FULL_WEIGHT);
        weight(holding, self.budget_bytes) < FULL_WEIGHT
            && holding.bytes as u128 * u128::from(self.total_weight) <= active
    }

    /// Who gives bytes back so that the one at `requester` may have `bytes` more: who would then
    /// be furthest above its share, among equals another before the requester, and the one idle
    /// longest first. `None` when nobody would be above its share, or when only some would be who
    /// are nearer to theirs than the requester. Gives its place, and by how much it is above.
    pub(super) fn giver(
        &self,
        holdings: &[Holding],
        requester: usize,
        bytes: usize,
    ) -> Option<(usize, usize)> {
        let excess = |index: usize, one: &Holding| {
            let more = if index == requester { bytes } else { 0 };
            (one.bytes + more)
                .checked_sub(self.of(one))
                .filter(|&excess| excess > 0)
        };
        let above = holdings.iter().enumerate().filter_map(|(index, one)| {
            let counts = !one.is_spent || index == requester;
            let excess = excess(index, one).filter(|_| counts)?;
            Some((excess, index != requester, Reverse(one.last_used), index))
        });
        let (excess, .., index) = above.max()?;
        (!holdings[index].is_spent).then_some((index, excess))
    }
}

fn weight(holding: &Holding, budget_bytes: u64) -> u64 {
    let times = holding.idle_bytes / budget_bytes.max(1);
    FULL_WEIGHT >> times.min(u64::from(FULL_WEIGHT.ilog2()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(bytes: usize, idle_bytes: u64) -> Holding {
        Holding {
            bytes,
            idle_bytes,
            last_used: 1_000_000 - idle_bytes,
            is_spent: false,
        }
    }

    #[test]
    fn shares_are_equal_and_idle_ones_shrink_to_a_sixty_fourth() {
        let all = [
            holding(0, 0),
            holding(0, 999),
            holding(0, 1_000),
            holding(0, 900_000),
        ];
        let shares = Shares::new(1_000, &all);
        let of_all = all.map(|one| shares.of(&one));
        assert_eq!(of_all, [397, 397, 198, 6]);
        assert!(of_all.iter().sum::<usize>() <= 1_000);
    }

    #[test]
    fn who_is_furthest_above_its_share_gives() {
        // The share is 250.
        let mut all = [
            holding(240, 0),
            holding(400, 0),
            holding(300, 0),
            holding(0, 0),
        ];
        let shares = Shares::new(1_000, &all);
        assert_eq!(shares.giver(&all, 3, 100), Some((1, 150)));
        assert_eq!(
            shares.giver(&all, 2, 100),
            Some((1, 150)),
            "another before the requester"
        );
        assert_eq!(
            shares.giver(&all, 2, 101),
            Some((2, 151)),
            "the requester would be further above"
        );
        all[1].is_spent = true;
        assert_eq!(shares.giver(&all, 3, 100), Some((2, 50)));
        assert_eq!(
            shares.giver(&all, 1, 10),
            None,
            "nobody gives to one further above"
        );
    }

    #[test]
    fn nobody_within_its_share_gives() {
        let all = [
            holding(250, 0),
            holding(250, 0),
            holding(250, 0),
            holding(240, 0),
        ];
        let shares = Shares::new(1_000, &all);
        assert_eq!(shares.giver(&all, 3, 10), None);
        assert_eq!(shares.giver(&all, 3, 11), Some((3, 1)));
    }

    #[test]
    fn an_idle_one_gives_what_its_smaller_share_has_no_room_for() {
        let all = [
            holding(250, 2_000),
            holding(250, 0),
            holding(250, 0),
            holding(250, 0),
        ];
        let shares = Shares::new(1_000, &all);
        assert!(shares.is_idle(&all[0]) && !shares.is_idle(&all[1]));
        assert_eq!(shares.giver(&all, 1, 10), Some((0, 174)));
        let greedy = [holding(900, 2_000), holding(0, 0)];
        assert!(!Shares::new(1_000, &greedy).is_idle(&greedy[0]));
    }
}
