//! What requests with equal beginnings spare each other.

use crate::support::driver::{Driver, config, request};
use crate::support::model::PAGE_SIZE;
use crate::support::reference;
use spectrie_engine::{EngineConfig, Plan, Request};
use spectrie_types::{FinishKind, SpeculationMode};

fn off() -> EngineConfig {
    EngineConfig {
        speculation: SpeculationMode::Off,
        ..config()
    }
}

/// Distinct tokens, so that prompts do not repeat themselves.
fn text(first: u32, length: u32) -> Vec<u32> {
    (first..first + length).map(|id| id % 39 + 1).collect()
}

/// Prompt rows of a plan.
fn num_chunk_rows(plan: &Plan) -> i32 {
    let rows = plan.request_kind.iter().zip(&plan.request_row_count);
    rows.filter(|&(&kind, _)| kind == 0)
        .map(|(_, count)| count)
        .sum()
}

fn total_chunk_rows(plans: &[Plan]) -> i32 {
    plans.iter().map(num_chunk_rows).sum()
}

fn cached_tokens(driver: &Driver, handle: u64) -> u32 {
    driver.finishes[&handle].stats.cached_tokens
}

#[test]
fn a_prompt_seen_before_computes_its_last_token_alone() {
    let mut driver = Driver::new(off());
    let prompt = text(0, 22);
    driver.submit(request(1, &prompt, 3));
    assert_eq!(total_chunk_rows(&driver.run()), 22);
    driver.submit(request(2, &prompt, 3));
    assert_eq!(total_chunk_rows(&driver.run()), 1);
    assert_eq!(
        (cached_tokens(&driver, 1), cached_tokens(&driver, 2)),
        (0, 21)
    );
    assert_eq!(driver.tokens[&1], driver.tokens[&2]);
    let load = driver.engine.load();
    assert_eq!((load.prefix_query_tokens, load.prefix_hit_tokens), (44, 21));
    // 24 tokens were computed, those of the answer's first two included.
    assert_eq!((load.pages_used, load.pages_cached), (0, 6));
}

#[test]
fn the_next_turn_of_a_conversation_finds_prompt_and_answer() {
    let mut driver = Driver::new(off());
    driver.submit(request(1, &text(0, 10), 11));
    driver.run();
    let mut next = text(0, 10);
    next.extend(&driver.tokens[&1]);
    next.extend(text(5, 4));
    driver.submit(request(2, &next, 2));
    // Of 21 tokens the last one's key was never computed: 5 pages of 4.
    assert_eq!(total_chunk_rows(&driver.run()), 5);
    assert_eq!(
        driver.tokens[&2],
        reference::decode(&request(2, &next, 2)).0
    );
}

#[test]
fn choices_of_one_prompt_compute_it_once_and_copy_what_is_left_of_a_page() {
    let mut driver = Driver::new(EngineConfig {
        chunk_tokens: 8,
        ..off()
    });
    let prompt = text(0, 31);
    let choice = |handle| {
        let mut choice = request(handle, &prompt, 6);
        choice.sampling.temperature = 1.0;
        choice.choice_seed = handle;
        choice
    };
    (1..5).for_each(|handle| driver.submit(choice(handle)));
    let plans = driver.run();
    assert_eq!(total_chunk_rows(&plans), 31 + 3);
    // 28 tokens in full pages, two copied.
    let copies: usize = plans.iter().map(|plan| plan.kv_move_src.len()).sum();
    assert_eq!(copies, 3 * 2);
    for handle in 1..5 {
        assert_eq!(driver.tokens[&handle], reference::decode(&choice(handle)).0);
    }
}

#[test]
fn a_short_prompt_of_several_choices_is_computed_once() {
    let mut driver = Driver::new(off());
    (1..4).for_each(|handle| driver.submit(request(handle, &[7, 8, 9], 2)));
    assert_eq!(total_chunk_rows(&driver.run()), 3 + 2);
}

#[test]
fn requests_that_wait_for_a_prompt_compute_it_when_the_first_is_cancelled() {
    let mut driver = Driver::new(EngineConfig {
        chunk_tokens: 4,
        ..off()
    });
    let prompt = text(0, 24);
    (1..4).for_each(|handle| driver.submit(request(handle, &prompt, 2)));
    driver.step();
    driver.step();
    assert_eq!(
        (driver.engine.load().running, driver.engine.load().waiting),
        (1, 2)
    );
    driver.engine.cancel(1, None, false);
    driver.run();
    assert_eq!(driver.finishes[&1].kind, FinishKind::Cancelled);
    // What the first had computed is not lost.
    assert_eq!(cached_tokens(&driver, 2), 8);
    for handle in 2..4 {
        assert_eq!(
            driver.tokens[&handle],
            reference::decode(&request(handle, &prompt, 2)).0
        );
    }
}

#[test]
fn waiting_for_a_prompt_holds_up_nobody_else() {
    let mut driver = Driver::new(EngineConfig {
        chunk_tokens: 8,
        ..off()
    });
    driver.submit(request(1, &text(0, 40), 1));
    driver.submit(request(2, &text(0, 40), 1));
    driver.submit(request(3, &[5], 1));
    driver.step();
    assert_eq!(
        (driver.engine.load().running, driver.engine.load().waiting),
        (2, 1)
    );
}

#[test]
fn namespaces_share_nothing() {
    let mut driver = Driver::new(off());
    let prompt = text(0, 20);
    driver.submit(request(1, &prompt, 1));
    driver.run();
    driver.submit(Request {
        namespace: "other".into(),
        ..request(2, &prompt, 1)
    });
    assert_eq!(total_chunk_rows(&driver.run()), 20);
}

#[test]
fn a_forgotten_namespace_is_computed_again() {
    let mut driver = Driver::new(off());
    let prompt = text(0, 20);
    driver.submit(request(1, &prompt, 1));
    driver.submit(request(2, &[3; 5], 9));
    driver.step();
    driver.engine.forget("default").unwrap();
    driver.submit(request(3, &prompt, 1));
    driver.step();
    assert_eq!(driver.engine.load().prefix_hit_tokens, 0);
    driver.run();
    // What was computed since is found again, but nothing from the request that was running.
    let load = driver.engine.load();
    assert_eq!((load.pages_used, load.pages_cached), (0, 5));
}

#[test]
fn requests_that_may_not_teach_share_only_while_they_run() {
    let mut driver = Driver::new(off());
    let silent = |handle| Request {
        learn: false,
        ..request(handle, &text(0, 20), 4)
    };
    (1..3).for_each(|handle| driver.submit(silent(handle)));
    assert_eq!(total_chunk_rows(&driver.run()), 20 + 1);
    let load = driver.engine.load();
    assert_eq!((load.pages_used, load.pages_cached), (0, 0));
}

#[test]
fn a_preempted_request_finds_its_own_pages_again() {
    let mut driver = Driver::new(EngineConfig {
        num_pages: 12,
        lookahead_tokens: 0,
        ..off()
    });
    for handle in 1..3 {
        driver.submit(request(handle, &text(handle as u32, 16), 20));
    }
    let plans = driver.run();
    assert!(driver.finishes[&2].stats.preemptions > 0);
    assert_eq!(cached_tokens(&driver, 2), 0);
    // It had computed more than 16 tokens, all of which it would compute again without the cache.
    assert!(total_chunk_rows(&plans) < 16 + 16 + 16);
    for handle in 1..3 {
        let alone = request(handle, &text(handle as u32, 16), 20);
        assert_eq!(driver.tokens[&handle], reference::decode(&alone).0);
    }
}

#[test]
fn kept_prefixes_go_before_any_request_is_preempted() {
    let mut driver = Driver::new(EngineConfig {
        num_pages: 10,
        ..off()
    });
    driver.submit(request(1, &text(0, 20), 1));
    driver.run();
    assert_eq!(driver.engine.load().pages_cached, 5);
    driver.submit(request(2, &text(7, 8), 30));
    driver.run();
    assert_eq!(driver.finishes[&2].stats.preemptions, 0);
    assert_eq!(driver.tokens[&2].len(), 30);
}

#[test]
fn a_failed_forward_leaves_nothing_that_was_not_computed() {
    let mut driver = Driver::new(EngineConfig {
        chunk_tokens: 4,
        ..off()
    });
    let prompt = text(0, 18);
    driver.submit(request(1, &prompt, 2));
    driver.submit(request(2, &text(9, 10), 2));
    driver.step();
    let plan = driver.plan().unwrap();
    driver.engine.fail(plan.plan_id, "no memory", 0.0).unwrap();
    driver.submit(request(3, &prompt, 2));
    driver.run();
    assert_eq!(cached_tokens(&driver, 3), PAGE_SIZE as u32);
    for (handle, prompt) in [(2, text(9, 10)), (3, prompt)] {
        assert_eq!(
            driver.tokens[&handle],
            reference::decode(&request(handle, &prompt, 2)).0
        );
    }
}

#[test]
fn scratch_pages_are_no_pages_of_prefixes_that_are_kept() {
    let mut driver = Driver::new(EngineConfig {
        num_pages: 10,
        ..off()
    });
    driver.submit(request(1, &text(0, 20), 1));
    let plan = driver.plan().unwrap();
    assert!(driver.engine.scratch_pages(1).is_err());
    driver.commit(&plan);
    driver.run();
    let held: Vec<u32> = plan.page_ids.iter().map(|&page| page as u32).collect();
    let scratch = driver.engine.scratch_pages(5).unwrap();
    assert!(scratch.len() == 5 && scratch.iter().all(|page| !held.contains(page)));
    assert_eq!(driver.engine.scratch_pages(8).unwrap().len(), 8);
    assert_eq!(driver.engine.load().pages_cached, 2);
}
