//! Which request goes first, and that none waits indefinitely.

use crate::support::driver::{Driver, config, request};
use crate::support::reference;
use spectrie_engine::{CostShape, EngineConfig, Request};
use spectrie_types::SpeculationMode;

fn off() -> EngineConfig {
    EngineConfig {
        speculation: SpeculationMode::Off,
        max_running: 1,
        ..config()
    }
}

/// Steps until idle, `step_s` apart; handles in the order in which they ended.
fn ends(driver: &mut Driver, step_s: f64) -> Vec<u64> {
    let mut order = Vec::new();
    while driver.step().is_some() {
        driver.now_s += step_s;
        note_ends(driver, &mut order);
    }
    order
}

fn note_ends(driver: &Driver, order: &mut Vec<u64>) {
    let mut ended: Vec<u64> = driver.finishes.keys().copied().collect();
    ended.retain(|handle| !order.contains(handle));
    order.extend(ended);
}

fn of_tenant(tenant: &str, request: Request) -> Request {
    Request {
        tenant: Some(tenant.into()),
        ..request
    }
}

#[test]
fn within_a_level_the_earlier_deadline_goes_first() {
    let mut driver = Driver::new(off());
    for (handle, deadline_s) in [(1, None), (2, Some(60.0)), (3, Some(30.0)), (4, None)] {
        driver.submit(Request {
            deadline_s,
            ..request(handle, &[handle as u32], 2)
        });
    }
    assert_eq!(ends(&mut driver, 0.0), [3, 2, 1, 4]);
}

#[test]
fn a_low_priority_is_served_although_higher_ones_keep_coming() {
    let mut driver = Driver::new(EngineConfig {
        age_s: 1.0,
        ..off()
    });
    driver.submit(Request {
        priority: -2,
        ..request(1, &[5; 4], 3)
    });
    let mut order = Vec::new();
    for handle in 2..60 {
        // Each takes a second; there is always another one to be served.
        driver.submit(Request {
            priority: 3,
            ..request(handle, &[handle as u32 % 39 + 1; 3], 2)
        });
        driver.submit(Request {
            priority: 3,
            ..request(handle + 100, &[handle as u32 % 39 + 1; 5], 2)
        });
        driver.step();
        driver.step();
        driver.now_s += 1.0;
        note_ends(&driver, &mut order);
    }
    let place = order.iter().position(|&handle| handle == 1);
    // Five levels below, so it goes sixth or so.
    assert!(
        place.is_some_and(|place| (4..9).contains(&place)),
        "{order:?}"
    );
}

#[test]
fn a_tenant_that_floods_the_queue_does_not_push_another_out() {
    let mut driver = Driver::new(off());
    let prompt = |handle: u64| [handle as u32 % 39 + 1; 6];
    for handle in 0..60 {
        driver.submit(of_tenant("flood", request(handle, &prompt(handle), 4)));
    }
    let mut order = Vec::new();
    for _ in 0..40 {
        driver.step();
        driver.now_s += 1.0;
        note_ends(&driver, &mut order);
    }
    let num_before = order.len();
    for handle in 100..105 {
        driver.submit(of_tenant("other", request(handle, &prompt(handle), 4)));
    }
    order.extend(ends(&mut driver, 1.0).into_iter().skip(num_before));
    let last = order.iter().position(|&handle| handle == 104).unwrap();
    // One each in turn, although the backlog is forty seconds old by then.
    assert!(last - num_before <= 11, "{order:?}");
}

/// Steps until a request of tenant "other" has its first token, while "greedy" keeps twelve requests
/// of this priority waiting or running.
fn steps_beside_a_greedy_tenant(priority: i32) -> usize {
    let mut driver = Driver::new(EngineConfig {
        max_running: 4,
        ..off()
    });
    let mut handle = 1;
    for step in 0..1_000 {
        while handle - driver.finishes.len() as u64 <= 12 {
            handle += 1;
            driver.submit(Request {
                priority,
                ..of_tenant("greedy", request(handle, &[handle as u32 % 39 + 1; 4], 20))
            });
        }
        if step == 100 {
            driver.submit(of_tenant("other", request(0, &[9; 4], 20)));
        }
        if driver.tokens.contains_key(&0) {
            return step - 100;
        }
        driver.step();
        driver.now_s += 0.05;
    }
    1_000
}

#[test]
fn no_priority_passes_the_requests_of_another_tenant() {
    let steps = [-100, 0, 100].map(steps_beside_a_greedy_tenant);
    // The next place that is free: answers have twenty tokens.
    assert!(steps.iter().all(|&steps| steps <= 21), "{steps:?}");
}

#[test]
fn of_equally_served_tenants_the_first_to_ask_goes_first_whatever_the_priority() {
    let mut driver = Driver::new(off());
    driver.submit(of_tenant("a", request(1, &[1; 4], 2)));
    driver.submit(Request {
        priority: 100,
        deadline_s: Some(1.0),
        ..of_tenant("b", request(2, &[2; 4], 2))
    });
    assert_eq!(ends(&mut driver, 0.0), [1, 2]);
}

#[test]
fn a_tenant_is_served_although_new_ones_keep_coming() {
    let mut driver = Driver::new(EngineConfig {
        max_running: 2,
        age_s: 1e9,
        ..off()
    });
    for handle in 0..4 {
        let others = request(handle + 10, &[handle as u32 + 1; 4], 4);
        driver.submit(of_tenant(&format!("first {handle}"), others));
    }
    driver.submit(of_tenant("large", request(1, &[7; 40], 4)));
    driver.submit(of_tenant("large", request(2, &[8; 4], 4)));
    let mut handle = 100;
    for step in 0..2_000 {
        while handle < 100 + driver.finishes.len() as u64 {
            handle += 1;
            let prompt = [handle as u32 % 39 + 1; 4];
            driver.submit(of_tenant(&handle.to_string(), request(handle, &prompt, 4)));
        }
        driver.step();
        if driver.finishes.contains_key(&2) {
            assert!(step < 400, "{step}");
            return;
        }
    }
    panic!("the large tenant's second request is starved");
}

#[test]
fn tenants_share_by_tokens_not_by_requests() {
    let mut driver = Driver::new(off());
    let prompt = |handle: u64| vec![handle as u32 % 39 + 1; 1];
    for handle in 0..40 {
        driver.submit(of_tenant("long", request(handle, &prompt(handle), 40)));
        driver.submit(of_tenant(
            "short",
            request(handle + 100, &prompt(handle), 4),
        ));
    }
    let (mut long, mut short) = (0, 0);
    for _ in 0..400 {
        driver.step();
    }
    for (handle, tokens) in &driver.tokens {
        *(if *handle < 100 { &mut long } else { &mut short }) += tokens.len() as i64;
    }
    // The short ones run out after 160 tokens.
    assert_eq!(short, 160);
    assert!((200..280).contains(&long), "{long}");
}

#[test]
fn prompt_rows_go_to_tenants_in_turn() {
    let mut driver = Driver::new(EngineConfig {
        max_running: 8,
        chunk_tokens: 4,
        ..off()
    });
    let long: Vec<u32> = (0..60).map(|id| id % 39 + 1).collect();
    driver.submit(of_tenant("long", request(1, &long, 1)));
    driver.step();
    driver.step();
    driver.submit(of_tenant("short", request(2, &[9; 8], 1)));
    // Both start level; four rows each in turn.
    for _ in 0..4 {
        driver.step();
    }
    assert!(!driver.tokens.contains_key(&1));
    assert_eq!(driver.tokens[&2].len(), 1);
}

#[test]
fn whoever_waits_for_a_prompt_lends_it_its_place() {
    let mut driver = Driver::new(EngineConfig {
        max_running: 8,
        chunk_tokens: 4,
        ..off()
    });
    let prompt: Vec<u32> = (0..40).map(|id| id % 39 + 1).collect();
    driver.submit(Request {
        priority: -5,
        ..request(1, &prompt, 1)
    });
    driver.step();
    driver.submit(request(2, &[9; 40], 1));
    driver.submit(Request {
        priority: 5,
        ..request(3, &prompt, 1)
    });
    for _ in 0..10 {
        driver.step();
    }
    assert!(driver.finishes.contains_key(&3) && !driver.finishes.contains_key(&2));
}

#[test]
fn the_first_to_come_is_never_preempted_and_everybody_ends() {
    let mut driver = Driver::new(EngineConfig {
        num_pages: 12,
        max_running: 8,
        lookahead_tokens: 0,
        ..off()
    });
    let low = |handle| Request {
        priority: -100,
        ..request(handle, &[3; 6], 30)
    };
    driver.submit(low(1));
    driver.step();
    for handle in 2..12 {
        driver.submit(Request {
            priority: 100,
            ..request(handle, &[handle as u32; 6], 20)
        });
    }
    ends(&mut driver, 0.01);
    assert_eq!(driver.finishes[&1].stats.preemptions, 0);
    assert_eq!(driver.tokens[&1], reference::decode(&low(1)).0);
    assert!(driver.engine.load().preemptions > 0);
    assert_eq!(driver.finishes.len(), 11);
}

#[test]
fn no_priority_takes_the_pages_of_another_tenant() {
    let mut driver = Driver::new(EngineConfig {
        num_pages: 14,
        max_running: 8,
        lookahead_tokens: 0,
        ..off()
    });
    driver.submit(of_tenant("first", request(1, &[2; 4], 30)));
    driver.submit(Request {
        priority: 100,
        ..of_tenant("greedy", request(2, &[3; 20], 20))
    });
    driver.submit(of_tenant("modest", request(3, &[4; 4], 20)));
    driver.run();
    let preemptions = [1, 2, 3].map(|handle| driver.finishes[&handle].stats.preemptions);
    assert!(preemptions[1] > 0, "{preemptions:?}");
    assert_eq!((preemptions[0], preemptions[2]), (0, 0));
}

#[test]
fn of_a_tenants_requests_the_lowest_priority_is_preempted() {
    let mut driver = Driver::new(EngineConfig {
        num_pages: 14,
        max_running: 8,
        lookahead_tokens: 0,
        ..off()
    });
    for (handle, priority) in [(1, 0), (2, -1), (3, 0)] {
        driver.submit(Request {
            priority,
            ..request(handle, &[handle as u32; 6], 20)
        });
    }
    driver.run();
    let preemptions = [1, 2, 3].map(|handle| driver.finishes[&handle].stats.preemptions);
    assert!(preemptions[1] > 0, "{preemptions:?}");
    assert_eq!((preemptions[0], preemptions[2]), (0, 0));
}

#[test]
fn the_tenant_that_holds_most_is_preempted() {
    let mut driver = Driver::new(EngineConfig {
        num_pages: 14,
        max_running: 8,
        lookahead_tokens: 0,
        ..off()
    });
    driver.submit(of_tenant("first", request(1, &[2; 4], 30)));
    driver.submit(of_tenant("greedy", request(2, &[3; 20], 20)));
    driver.step();
    driver.submit(of_tenant("modest", request(3, &[4; 4], 20)));
    driver.run();
    let preemptions = |handle| driver.finishes[&handle].stats.preemptions;
    assert!(preemptions(2) > 0);
    assert_eq!((preemptions(1), preemptions(3)), (0, 0));
}

#[test]
fn looking_ahead_avoids_preemption() {
    let preemptions = |lookahead_tokens| {
        let mut driver = Driver::new(EngineConfig {
            num_pages: 14,
            max_running: 8,
            lookahead_tokens,
            ..off()
        });
        for handle in 1..7 {
            driver.submit(request(handle, &[handle as u32; 8], 20));
        }
        driver.run();
        driver.engine.load().preemptions
    };
    assert_eq!(preemptions(64), 0);
    assert!(preemptions(0) > 2);
}

#[test]
fn prompts_take_what_the_step_time_leaves_where_answers_wait() {
    let mut driver = Driver::new(EngineConfig {
        max_running: 8,
        max_step_ms: 30.0,
        ..off()
    });
    driver
        .engine
        .set_costs(&[1, 101], &[10.0, 110.0], CostShape::default())
        .unwrap();
    let long: Vec<u32> = (0..60).map(|id| id % 39 + 1).collect();
    driver.submit(request(1, &long, 2));
    // No request waits: the whole prompt.
    assert_eq!(driver.step().unwrap().request_row_count, [60]);
    driver
        .engine
        .set_costs(&[1, 101], &[10.0, 110.0], CostShape::default())
        .unwrap();
    driver.submit(request(2, &[9; 50], 1));
    driver.submit(request(3, &[8; 3], 1));
    assert_eq!(driver.step().unwrap().request_row_count, [1, 20]);
}

#[test]
fn a_step_that_is_too_long_already_still_computes_a_page_of_a_prompt() {
    let mut driver = Driver::new(EngineConfig {
        max_running: 8,
        max_step_ms: 5.0,
        ..off()
    });
    driver
        .engine
        .set_costs(&[1, 101], &[10.0, 110.0], CostShape::default())
        .unwrap();
    driver.submit(request(1, &[9; 5], 5));
    driver.step();
    driver.submit(request(2, &[8; 10], 1));
    let rows = |driver: &mut Driver| driver.step().unwrap().request_row_count;
    assert_eq!([rows(&mut driver), rows(&mut driver)], [[1, 4], [1, 4]]);
}
