//! Admission with a cache and nothing else.

use std::sync::Arc;

use spectrie_types::SpeculationMode;

use crate::cache::Cache;
use crate::config::EngineConfig;
use crate::output::Load;
use crate::request::Request;
use crate::request_key::RequestKey;
use crate::scheduling::admission::{Admission, Following};
use crate::scheduling::priority::Awaited;
use crate::scheduling::running::Running;
use crate::sequence::Sequence;
use crate::speculation::Speculator;

/// Waiting and running requests of an engine with 6 pages of 4 slots.
struct House {
    speculator: Speculator,
    admission: Admission,
    running: Running,
    cache: Cache,
}

impl House {
    fn new(lookahead_tokens: usize) -> Self {
        let config = Arc::new(EngineConfig {
            page_size: 4,
            lookahead_tokens,
            speculation: SpeculationMode::Off,
            ..EngineConfig::new(100, 6, 40, 4)
        });
        Self {
            speculator: Speculator::new(Arc::clone(&config), None),
            running: Running::new(),
            cache: Cache::new(config.num_pages, config.page_size),
            admission: Admission::new(config),
        }
    }

    /// Hands a request in; its key.
    fn enter(&mut self, handle: u64, priority: i32, prompt: &[u32]) -> RequestKey {
        let mut request = Request::new(handle, prompt.to_vec(), 12);
        request.priority = priority;
        self.enter_request(request)
    }

    fn enter_request(&mut self, request: Request) -> RequestKey {
        let eos = &self.admission.config().eos_token_ids;
        let sequence = Sequence::new(request, eos, &self.speculator, 0.0);
        self.admission.enter(Box::new(sequence))
    }

    fn admit(&mut self, now_s: f64) -> Awaited {
        let (running, cache) = (&mut self.running, &mut self.cache);
        let mut following = Following::new(&self.speculator);
        self.admission.admit(running, cache, &mut following, now_s)
    }

    /// Computes all prompts.
    fn prefill(&mut self) {
        for (key, one) in &mut self.running {
            one.table.advance(one.num_missing());
            let owner = key.arrival();
            self.cache.settle(owner, &mut one.table, &one.tokens, false);
        }
    }

    /// Every running request emits a token, and asks for the next one's slot.
    fn decode(&mut self, now_s: f64) -> bool {
        for one in self.running.values_mut() {
            if !one.decoding {
                self.admission.note_prefilled(&one.tenant);
            }
            one.decoding = true;
            one.table.advance(one.num_missing());
            one.tokens.push(7);
        }
        let (running, cache) = (&mut self.running, &mut self.cache);
        let (_, preempted) = self.admission.secure_decoding(running, cache, now_s);
        preempted
    }

    fn runs(&self) -> Vec<u64> {
        let handles = self.running.values().map(|one| one.request.handle);
        handles.collect()
    }

    fn preemptions(&self) -> u64 {
        let mut load = Load::default();
        self.admission.report(&mut load);
        load.preemptions
    }
}

#[test]
fn the_first_in_line_holds_up_those_behind_it() {
    let mut house = House::new(0);
    house.enter(1, 0, &[1; 9]);
    house.enter(2, 5, &[2; 17]);
    house.enter(3, 0, &[3; 2]);
    house.admit(0.0);
    // Five of six pages are taken; the next one needs three.
    assert_eq!(house.runs(), [2]);
    house.admit(0.0);
    assert_eq!(house.runs(), [2]);
    // It has waited too long to be served before the other by now, but still does not fit.
    house.admit(1e4);
    assert_eq!(house.runs(), [2]);
}

#[test]
fn a_prompt_that_another_one_computes_is_waited_for() {
    let mut house = House::new(0);
    let first = house.enter(1, 0, &[5; 9]);
    house.enter(2, 0, &[5; 9]);
    house.enter(3, 0, &[6; 2]);
    let awaited = house.admit(0.0);
    assert_eq!(house.runs(), [1, 3]);
    assert_eq!(awaited.keys().collect::<Vec<_>>(), [&first]);
    house.prefill();
    assert!(house.admit(0.0).is_empty());
    assert_eq!(house.runs(), [1, 2, 3]);
    let mut load = Load::default();
    house.admission.report(&mut load);
    assert_eq!((load.prefix_query_tokens, load.prefix_hit_tokens), (20, 8));
}

#[test]
fn the_least_important_request_loses_its_pages_and_comes_back_when_there_is_room() {
    let mut house = House::new(0);
    house.enter(1, 0, &[1; 8]);
    house.enter(2, -1, &[2; 8]);
    house.admit(0.0);
    house.prefill();
    let mut preempted = false;
    for _ in 0..8 {
        preempted |= house.decode(1.0);
    }
    assert!(preempted);
    assert_eq!((house.runs(), house.preemptions()), (vec![1], 1));
    house.admit(2.0);
    assert_eq!(house.runs(), [1]);
    let key = house.admission.key_of(1).unwrap();
    let mut ended = house.running.remove(&key).unwrap();
    house
        .cache
        .close(key.arrival(), &mut ended.table, &ended.tokens);
    house.admission.leave(&ended);
    house.admit(3.0);
    assert_eq!((house.runs(), house.admission.key_of(1)), (vec![2], None));
}

#[test]
fn room_to_grow_is_left_for_everybody() {
    let mut house = House::new(12);
    house.enter(1, 0, &[1; 8]);
    house.enter(2, 0, &[2; 8]);
    house.admit(0.0);
    // Each may grow to five pages.
    assert_eq!(house.runs(), [1]);
}

#[test]
fn a_step_looks_at_those_that_are_due_and_at_no_others_that_wait() {
    let mut house = House::new(0);
    let mut enter = |handle: u64, deadline_s| {
        let mut request = Request::new(handle, vec![1, 2, 3], 12);
        request.deadline_s = deadline_s;
        house.enter_request(request)
    };
    for handle in 0..10_000 {
        enter(handle, (handle % 2 == 0).then_some(3600.0));
    }
    let [late, earlier] =
        [9.5, 8.5].map(|deadline_s| enter(deadline_s as u64 + 20_000, Some(deadline_s)));
    let keys = |house: &House, now_s| -> Vec<RequestKey> {
        house.admission.due(now_s).map(|(key, _)| key).collect()
    };
    assert_eq!(keys(&house, 8.4), []);
    assert_eq!(keys(&house, 9.0), [earlier]);
    assert_eq!(keys(&house, 10.0), [earlier, late]);
    house.admission.withdraw(earlier);
    assert_eq!(keys(&house, 10.0), [late]);
    assert_eq!(keys(&house, 3600.0).len(), 5_001);
}
