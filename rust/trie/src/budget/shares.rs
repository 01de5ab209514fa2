//! Fair shares of the budget: what each tenant has to itself, what each of its namespaces has of that,
//! and who makes room.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use crate::budget::weights::{FULL_WEIGHT, Standing, part_of, weight};

/// What one namespace has, and since when nobody used it.
#[derive(Clone, Debug)]
pub(super) struct Holding {
    standing: Standing,
    pub(super) bytes: usize,
    /// Whether it was asked in vain to give bytes back.
    pub(super) is_spent: bool,
}

impl Holding {
    pub(super) fn new(standing: Standing, bytes: usize) -> Self {
        Self {
            standing,
            bytes,
            is_spent: false,
        }
    }

    fn tenant(&self) -> &Arc<str> {
        &self.standing.tenant
    }

    fn weight(&self, budget_bytes: u64) -> u64 {
        weight(self.standing.idle_bytes, budget_bytes)
    }
}

/// The shares of all tenants at one moment.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    budget_bytes: u64,
    total_weight: u64,
    tenants: HashMap<Arc<str>, Share>,
}

/// One tenant's share.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// That of its namespace used last: more of them weigh no more.
    weight: u64,
    /// The weights of its namespaces, by which they divide it.
    parts: u64,
    /// What they hold.
    bytes: usize,
}

impl Shares {
    /// Divides `budget_bytes` among the tenants of `holdings`.
    pub(super) fn new(budget_bytes: usize, holdings: &[Holding]) -> Self {
        let budget_bytes = budget_bytes as u64;
        let mut tenants: HashMap<Arc<str>, Share> = HashMap::new();
        for one in holdings {
            let weight = one.weight(budget_bytes);
            let share = tenants.entry(Arc::clone(one.tenant())).or_default();
            share.weight = share.weight.max(weight);
            share.parts += weight;
            share.bytes += one.bytes;
        }
        let total_weight = tenants.values().map(|share| share.weight).sum::<u64>();
        Self {
            budget_bytes,
            total_weight: total_weight.max(1),
            tenants,
        }
    }

    /// Bytes that nobody takes from the owner of `holding`.
    pub(super) fn of(&self, holding: &Holding) -> usize {
        let share = self.share_of(holding);
        let weight = holding.weight(self.budget_bytes);
        part_of(
            self.budget_bytes,
            share.weight,
            weight,
            share.parts,
            self.total_weight,
        )
    }

    /// Bytes that nobody takes from its tenant.
    fn of_tenant(&self, holding: &Holding) -> usize {
        (self.scaled(self.share_of(holding)) / self.total()) as usize
    }

    fn share_of(&self, holding: &Holding) -> Share {
        let share = self.tenants.get(holding.tenant()).copied();
        share.unwrap_or_default()
    }

    fn scaled(&self, share: Share) -> u128 {
        u128::from(self.budget_bytes) * u128::from(share.weight)
    }

    fn total(&self) -> u128 {
        u128::from(self.total_weight)
    }

    /// Notes that the owner of `holding` has `bytes` now.
    pub(super) fn note(&mut self, holding: &mut Holding, bytes: usize) {
        if let Some(share) = self.tenants.get_mut(holding.tenant()) {
            share.bytes = (share.bytes + bytes).saturating_sub(holding.bytes);
        }
        holding.bytes = bytes;
    }

    /// Whether it has more than its share only because it is idle.
    pub(super) fn is_idle(&self, holding: &Holding) -> bool {
        let parts = u128::from(self.share_of(holding).parts);
        let active = self.scaled(self.share_of(holding)) * u128::from(FULL_WEIGHT);
        holding.weight(self.budget_bytes) < FULL_WEIGHT
            && holding.bytes as u128 * self.total() * parts <= active
    }

    /// Who gives bytes back so that the one at `requester` may have `bytes` more: who would then
    /// be furthest above its share, as would its tenant, among equals another before the requester,
    /// and the one idle longest first. `None` when nobody would be above its share, or when only some
    /// would be who are nearer to theirs than the requester. Gives its place, and by how much it is
    /// above.
    pub(super) fn giver(
        &self,
        holdings: &[Holding],
        requester: usize,
        bytes: usize,
    ) -> Option<(usize, usize)> {
        let grower = holdings.get(requester).map(Holding::tenant);
        let excess = |index: usize, one: &Holding| {
            let more = if index == requester { bytes } else { 0 };
            let of_tenant = if grower == Some(one.tenant()) {
                bytes
            } else {
                0
            };
            let above = (one.bytes + more).checked_sub(self.of(one))?;
            let held = self.share_of(one).bytes + of_tenant;
            let tenant_above = held.checked_sub(self.of_tenant(one))?;
            Some(above.min(tenant_above)).filter(|&excess| excess > 0)
        };
        let above = holdings.iter().enumerate().filter_map(|(index, one)| {
            let counts = !one.is_spent || index == requester;
            let excess = excess(index, one).filter(|_| counts)?;
            Some((
                excess,
                index != requester,
                Reverse(one.standing.last_used),
                index,
            ))
        });
        let (excess, .., index) = above.max()?;
        (!holdings[index].is_spent).then_some((index, excess))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;

    use proptest::prelude::*;

    use super::*;
    use crate::budget::weights::{MemberId, Weights};

    /// What a tenant with one namespace has; no two are used at the same time.
    fn holding(bytes: usize, idle_bytes: u64) -> Holding {
        static NUM_TENANTS: AtomicU64 = AtomicU64::new(0);
        let number = NUM_TENANTS.fetch_add(1, Relaxed);
        of_tenant(&number.to_string(), bytes, idle_bytes)
    }

    fn of_tenant(tenant: &str, bytes: usize, idle_bytes: u64) -> Holding {
        let standing = Standing {
            tenant: Arc::from(tenant),
            idle_bytes,
            last_used: 1_000_000 - idle_bytes,
        };
        Holding::new(standing, bytes)
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
        let of_all = all.each_ref().map(|one| shares.of(one));
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

    #[test]
    fn dividing_a_tenant_gives_no_second_share() {
        let mut all = vec![holding(500, 0)];
        all.extend((0..99).map(|_| of_tenant("many", 5, 0)));
        let shares = Shares::new(1_000, &all);
        assert_eq!((shares.of(&all[0]), shares.of(&all[1])), (500, 5));
        // One of many that wants more takes it from its own, not from the tenant with one.
        assert_eq!(shares.giver(&all, 1, 10), Some((1, 5)));
    }

    #[test]
    fn a_namespace_gives_only_where_its_tenant_is_above_its_share_too() {
        let all = [
            of_tenant("a", 400, 0),
            of_tenant("a", 0, 0),
            of_tenant("b", 500, 0),
        ];
        let shares = Shares::new(1_000, &all);
        assert_eq!(shares.of(&all[0]), 250);
        assert_eq!(shares.giver(&all, 2, 100), Some((2, 100)));
        assert_eq!(shares.giver(&all, 1, 101), Some((0, 1)));
    }
    #[derive(Clone, Copy, Debug)]
    enum Change {
        Join(u8),
        Leave(usize),
        Touch(usize),
        Move(usize, u8),
        Give(usize, usize),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            3 => (0_u8..6).prop_map(Change::Join),
            1 => (0_usize..40).prop_map(Change::Leave),
            3 => (0_usize..40).prop_map(Change::Touch),
            1 => (0_usize..40, 0_u8..6).prop_map(|(one, to)| Change::Move(one, to)),
            4 => (0_usize..40, 0_usize..900).prop_map(|(one, n)| Change::Give(one, n)),
            1 => (0_usize..40, 0_usize..9_000).prop_map(|(one, n)| Change::Give(one, n)),
        ]
    }

    /// What the weights are kept for, without them: everybody's standing, written down.
    #[derive(Default)]
    struct Model {
        all: Vec<(MemberId, Standing)>,
        uses: u64,
    }

    impl Model {
        fn used(&mut self, tenant: Arc<str>) -> Standing {
            self.uses += 1;
            Standing {
                tenant,
                idle_bytes: 0,
                last_used: self.uses,
            }
        }

        /// Does the same to the weights.
        fn apply(&mut self, change: Change, weights: &mut Weights) {
            let at = |index: usize, all: &[_]| (!all.is_empty()).then(|| index % all.len());
            match change {
                Change::Join(tenant) => {
                    let tenant = tenant.to_string();
                    let standing = self.used(Arc::from(&*tenant));
                    self.all.push((weights.join(&tenant), standing));
                }
                Change::Leave(index) => {
                    if let Some(index) = at(index, &self.all) {
                        weights.leave(self.all.remove(index).0);
                    }
                }
                Change::Touch(index) => {
                    if let Some(index) = at(index, &self.all) {
                        let tenant = Arc::clone(&self.all[index].1.tenant);
                        self.all[index].1 = self.used(tenant);
                        weights.touch(self.all[index].0);
                    }
                }
                Change::Move(index, tenant) => {
                    if let Some(index) = at(index, &self.all) {
                        let tenant = tenant.to_string();
                        self.all[index].1.tenant = Arc::from(&*tenant);
                        weights.move_to(self.all[index].0, &tenant);
                    }
                }
                Change::Give(index, bytes) => {
                    if let Some(receiver) = at(index, &self.all) {
                        for (index, (_, standing)) in self.all.iter_mut().enumerate() {
                            standing.idle_bytes += if index == receiver { 0 } else { bytes as u64 };
                        }
                        weights.give(self.all[receiver].0, bytes);
                    }
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn shares_that_are_kept_up_are_those_divided_anew(
            changes in prop::collection::vec(change(), 1..200),
            budget_bytes in prop_oneof![Just(0_usize), 1_usize..2_000, Just(1 << 40)],
        ) {
            let (mut model, mut weights) = (Model::default(), Weights::new(budget_bytes));
            let looks_at_most = 10 * changes.len() as u64;
            let mut looks = 0;
            for change in changes {
                let before = weights.looked_at();
                model.apply(change, &mut weights);
                looks += weights.looked_at() - before;
                let standings = model.all.iter().map(|(_, standing)| standing.clone());
                let holdings: Vec<_> = standings.map(|one| Holding::new(one, 0)).collect();
                let shares = Shares::new(budget_bytes, &holdings);
                for ((id, standing), holding) in model.all.iter().zip(&holdings) {
                    prop_assert_eq!(weights.share(*id), shares.of(holding));
                    prop_assert_eq!(weights.last_used(*id), standing.last_used);
                    let kept = weights.standing(*id).unwrap();
                    prop_assert_eq!(&kept.tenant, &standing.tenant);
                    prop_assert_eq!(kept.idle_bytes, standing.idle_bytes);
                }
            }
            prop_assert!(looks <= looks_at_most, "each use pays for six halvings");
        }
    }
}
