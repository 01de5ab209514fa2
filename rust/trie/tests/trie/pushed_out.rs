//! Which namespaces go out at the maximum, against a model that looks through all of them.

use std::sync::Arc;

use proptest::prelude::*;
use spectrie_trie::{DraftMemory, MemoryConfig, SharedTrie};

#[derive(Clone, Copy, Debug)]
enum Request {
    /// One of a namespace, of this tenant if there is one; it ends at once.
    Ends(u8, Option<u8>),
    /// The same, and it runs on.
    Runs(u8, Option<u8>),
    /// One that runs adds text.
    Adds(usize),
    /// One that runs ends.
    Ended(usize),
    Forget(u8),
}

fn request() -> impl Strategy<Value = Request> {
    let tenant = || prop::option::of(0_u8..3);
    prop_oneof![
        8 => (0_u8..14, tenant()).prop_map(|(name, tenant)| Request::Ends(name, tenant)),
        4 => (0_u8..14, tenant()).prop_map(|(name, tenant)| Request::Runs(name, tenant)),
        3 => (0_usize..9).prop_map(Request::Adds),
        3 => (0_usize..9).prop_map(Request::Ended),
        1 => (0_u8..14).prop_map(Request::Forget),
    ]
}

#[derive(Clone, Debug)]
struct Listed {
    name: String,
    tenant: String,
    /// No other namespace has this number.
    id: u64,
    last_used: u64,
}

/// Which namespaces there are, found by looking through all.
#[derive(Default)]
struct Names {
    listed: Vec<Listed>,
    running: Vec<(u64, Arc<SharedTrie>)>,
    clock: u64,
}

impl Names {
    const MOST: usize = 6;

    fn begin(&mut self, name: &str, tenant: Option<&str>) -> u64 {
        self.clock += 1;
        if let Some(known) = self.listed.iter_mut().find(|one| one.name == name) {
            known.last_used = self.clock;
            known.tenant = tenant.unwrap_or(&known.tenant).to_owned();
            return known.id;
        }
        let own = name.split('/').next().unwrap_or(name);
        let tenant = tenant.unwrap_or(own).to_owned();
        if self.listed.len() == Self::MOST {
            self.listed.remove(self.next_out(&tenant));
        }
        self.listed.push(Listed {
            name: name.to_owned(),
            tenant,
            id: self.clock,
            last_used: self.clock,
        });
        self.clock
    }

    fn next_out(&self, tenant: &str) -> usize {
        let count = |of: &str| {
            let same = self.listed.iter().filter(|one| one.tenant == of).count();
            same + usize::from(of == tenant)
        };
        let most = self.listed.iter().map(|one| count(&one.tenant)).max();
        let runs = |one: &Listed| self.running.iter().any(|(id, _)| *id == one.id);
        let all = self.listed.iter().enumerate();
        let candidates = all.filter(|(_, one)| Some(count(&one.tenant)) == most);
        let idlest = candidates.min_by_key(|(_, one)| (runs(one), one.last_used));
        idlest.expect("it is full").0
    }

    fn apply(&mut self, request: Request, memory: &DraftMemory) {
        // Some names say whose they are.
        let name = |number: u8| match number {
            0..4 => format!("t{}/{number}", number % 2),
            _ => format!("n{number}"),
        };
        match request {
            Request::Ends(number, tenant) | Request::Runs(number, tenant) => {
                let tenant = tenant.map(|tenant| format!("t{tenant}"));
                let shared = memory.namespace_of(tenant.as_deref(), &name(number));
                let id = self.begin(&name(number), tenant.as_deref());
                if matches!(request, Request::Runs(..)) {
                    self.running.push((id, shared));
                }
            }
            Request::Adds(index) => {
                if let Some((id, shared)) = self.running.get(index) {
                    shared.insert(&[1, 2, 3]);
                    self.clock += 1;
                    if let Some(one) = self.listed.iter_mut().find(|one| one.id == *id) {
                        one.last_used = self.clock;
                    }
                }
            }
            Request::Ended(index) if index < self.running.len() => {
                self.running.remove(index);
            }
            Request::Ended(_) => {}
            Request::Forget(number) => {
                memory.forget(&name(number)).expect("a disk");
                self.listed.retain(|one| one.name != name(number));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_idlest_of_the_tenant_with_most_goes_out(
        requests in prop::collection::vec(request(), 1..120),
    ) {
        let memory = DraftMemory::new(MemoryConfig {
            capacity_bytes: 1 << 20,
            max_namespaces: Names::MOST,
        });
        let (memory, mut names) = (memory.expect("a valid config"), Names::default());
        for request in requests {
            names.apply(request, &memory);
            let held: Vec<_> = memory.namespaces().into_iter().map(|one| one.name).collect();
            let mut expected: Vec<_> = names.listed.iter().map(|one| one.name.clone()).collect();
            expected.sort_unstable();
            prop_assert_eq!(held, expected, "{:?}", request);
        }
    }
}
