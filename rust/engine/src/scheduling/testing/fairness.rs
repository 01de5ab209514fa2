//! Fair shares beside a model that forgets nobody and looks at all.

use std::sync::Arc;

use proptest::prelude::*;

use crate::scheduling::fairness::{Bounds, FairShare, MAX_REMEMBERED};

const BOUNDS: Bounds = Bounds { lead: 60, lag: 8 };

fn name(name: &str) -> Arc<str> {
    Arc::from(name)
}

fn share() -> FairShare {
    FairShare::new(BOUNDS)
}

fn order(share: &FairShare) -> Vec<String> {
    share.in_order().map(|(_, name)| name.to_string()).collect()
}

/// A request that is served at once and ends.
fn serve(share: &mut FairShare, tenant: &Arc<str>, tokens: usize) {
    share.enter(tenant);
    share.charge(tenant, tokens);
    share.rest(tenant);
    share.leave(tenant);
}

#[test]
fn those_who_got_least_go_first_and_of_equals_those_who_asked_first() {
    let mut share = share();
    for tenant in ["a", "b", "c"] {
        share.enter(&name(tenant));
    }
    share.charge("a", 9);
    assert_eq!(order(&share), ["b", "c", "a"]);
    share.charge("b", 9);
    share.charge("c", 5);
    assert_eq!(order(&share), ["c", "a", "b"]);
}

#[test]
fn a_newcomer_saved_nothing_up() {
    let mut share = share();
    share.enter(&name("a"));
    share.enter(&name("b"));
    share.charge("a", 100);
    share.charge("b", 40);
    share.enter(&name("c"));
    assert!((40..=48).contains(&share.served("c").unwrap()));
    // Nor did one whose request had no more to ask for.
    share.rest("b");
    share.charge("a", 30);
    share.compete(&name("b"));
    assert!(share.served("b") >= share.served("c"));
}

#[test]
fn a_lead_counts_while_others_compete_and_what_nobody_wanted_is_none() {
    let mut share = share();
    share.enter(&name("b"));
    serve(&mut share, &name("a"), 50);
    share.enter(&name("a"));
    assert_eq!(order(&share), ["b", "a"]);
    for tenant in ["a", "b"] {
        share.rest(tenant);
        share.leave(tenant);
    }
    serve(&mut share, &name("a"), 50);
    share.enter(&name("a"));
    share.enter(&name("b"));
    assert_eq!(order(&share), ["a", "b"]);
}

#[test]
fn whoever_is_ahead_is_served_although_new_tenants_keep_coming() {
    let mut share = share();
    for tenant in ["a", "b", "c"] {
        share.enter(&name(tenant));
    }
    // It counts no more than the bound.
    share.charge("a", 1_000_000);
    let mut num_before = 0;
    loop {
        let first = share.in_order().next().map(|(_, name)| Arc::clone(name));
        let first = first.unwrap();
        if &*first == "a" {
            break;
        }
        share.charge(&first, 5);
        share.rest(&first);
        share.leave(&first);
        num_before += 1;
        share.enter(&name(&format!("new {num_before}")));
    }
    assert!(num_before <= 60, "{num_before}");
}

#[test]
fn a_million_tenants_leave_a_small_table() {
    let mut share = share();
    let mut most = 0;
    let tenants = |index: u32| name(&index.to_string());
    (0..24).for_each(|index| share.enter(&tenants(index)));
    for index in 24..1_000_000 {
        share.enter(&tenants(index));
        let first = share.in_order().next().map(|(_, name)| Arc::clone(name));
        let first = first.unwrap();
        share.charge(&first, 4);
        share.rest(&first);
        share.charge(&first, 3);
        share.leave(&first);
        most = most.max(share.len());
    }
    assert!(most < 200, "{most}");
}

#[test]
fn leads_beyond_a_number_are_forgotten_the_smallest_first() {
    let mut share = FairShare::new(Bounds {
        lead: 1 << 20,
        lag: 8,
    });
    share.enter(&name("waits"));
    for index in 1..=MAX_REMEMBERED + 9 {
        serve(&mut share, &name(&index.to_string()), 1000 + index);
    }
    assert_eq!(share.len(), MAX_REMEMBERED + 1);
    assert_eq!((share.served("1"), share.served("9")), (None, None));
    assert!(share.served("10").is_some());
}

/// The same rules, said plainly: it forgets nobody and looks at all.
#[derive(Default)]
struct Naive {
    clock: u64,
    carry: u64,
    num_turns: u64,
    tenants: Vec<NaiveTenant>,
}

#[derive(Clone, Default)]
struct NaiveTenant {
    served: u64,
    turn: u64,
    num_competing: usize,
}

impl Naive {
    fn competing(&self) -> impl Iterator<Item = &NaiveTenant> {
        self.tenants.iter().filter(|one| one.num_competing > 0)
    }

    fn compete(&mut self, index: usize) {
        if self.competing().next().is_none() {
            let served = self.tenants.iter().map(|one| one.served);
            self.clock = self.clock.max(served.max().unwrap_or(0));
        }
        let one = &mut self.tenants[index];
        one.num_competing += 1;
        if one.num_competing == 1 {
            self.num_turns += 1;
            one.turn = self.num_turns;
            one.served = one.served.max(self.clock);
        }
    }

    fn charge(&mut self, index: usize, tokens: u64) {
        let one = &mut self.tenants[index];
        let most = one.served.max(self.clock + BOUNDS.lead);
        one.served = (one.served + tokens).min(most);
        let mut wanted = self.clock;
        if one.num_competing > 0 {
            let number = self.competing().count() as u64;
            wanted += (self.carry + tokens) / number;
            self.carry = (self.carry + tokens) % number;
        }
        self.settle(wanted);
    }

    fn settle(&mut self, wanted: u64) {
        if let Some(least) = self.competing().map(|one| one.served).min() {
            let wanted = wanted.min(least + BOUNDS.lag).max(least);
            self.clock = self.clock.max(wanted);
        }
    }

    fn order(&self) -> Vec<String> {
        let competing = self.tenants.iter().enumerate();
        let competing = competing.filter(|(_, one)| one.num_competing > 0);
        let mut places: Vec<_> = competing
            .map(|(index, one)| (one.served, one.turn, index))
            .collect();
        places.sort_unstable();
        places.iter().map(|(.., index)| index.to_string()).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Enter,
    Compete,
    Rest,
    Leave,
    Charge(u64),
    /// The first in order is served, as a scheduler would.
    Serve(u64),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => Just(Deed::Enter),
        1 => Just(Deed::Compete),
        2 => Just(Deed::Rest),
        2 => Just(Deed::Leave),
        1 => (0_u64..30).prop_map(Deed::Charge),
        4 => (1_u64..30).prop_map(Deed::Serve),
    ]
}

proptest! {
    #[test]
    fn the_order_is_that_of_a_model_that_forgets_nobody(
        deeds in prop::collection::vec((0_usize..8, deed()), 0..300),
    ) {
        let (mut share, mut naive) = (share(), Naive::default());
        naive.tenants = vec![NaiveTenant::default(); 8];
        // Requests of each that compete and that rest.
        let mut held = [[0_usize; 2]; 8];
        for (index, deed) in deeds {
            let tenant = name(&index.to_string());
            match deed {
                Deed::Enter => {
                    share.enter(&tenant);
                    naive.compete(index);
                    held[index][0] += 1;
                }
                Deed::Rest if held[index][0] > 0 => {
                    share.rest(&tenant);
                    naive.tenants[index].num_competing -= 1;
                    naive.settle(naive.clock);
                    held[index] = [held[index][0] - 1, held[index][1] + 1];
                }
                Deed::Compete if held[index][1] > 0 => {
                    share.compete(&tenant);
                    naive.compete(index);
                    held[index] = [held[index][0] + 1, held[index][1] - 1];
                }
                Deed::Leave if held[index][1] > 0 => {
                    share.leave(&tenant);
                    held[index][1] -= 1;
                }
                Deed::Charge(tokens) if held[index] != [0, 0] => {
                    share.charge(&tenant, tokens as usize);
                    naive.charge(index, tokens);
                }
                Deed::Serve(tokens) => {
                    if let Some(first) = naive.order().first() {
                        share.charge(first, tokens as usize);
                        naive.charge(first.parse().unwrap(), tokens);
                    }
                }
                _ => {}
            }
            prop_assert_eq!(order(&share), naive.order());
            prop_assert_eq!(share.clock(), naive.clock);
            let ahead = |index: &usize| naive.tenants[*index].served > naive.clock;
            let num_kept = (0..8).filter(|index| held[*index] != [0, 0] || ahead(index));
            prop_assert!(share.len() <= num_kept.count());
        }
    }

    /// Whoever else comes and goes, two that always compete get the same.
    #[test]
    fn two_that_always_compete_are_never_further_apart_than_one_serving(
        visits in prop::collection::vec((0_usize..5, 1_usize..20), 1..300),
    ) {
        let mut share = share();
        let mut got = [0_usize; 2];
        share.enter(&name("a"));
        share.enter(&name("b"));
        for (visitor, tokens) in visits {
            let visitor = name(&format!("visitor {visitor}"));
            share.enter(&visitor);
            let first = share.in_order().next().map(|(_, name)| Arc::clone(name));
            let first = first.unwrap();
            share.charge(&first, tokens);
            match &*first {
                "a" => got[0] += tokens,
                "b" => got[1] += tokens,
                _ => {}
            }
            share.rest(&visitor);
            share.leave(&visitor);
            prop_assert!(got[0].abs_diff(got[1]) < 20, "{:?}", got);
        }
    }
}
