//! Stop texts that are found where tokens arrive: nothing behind one is emitted, learnt or kept.

use crate::support::driver::{Driver, config, request};
use crate::support::model::{PAGE_SIZE, all_rows};
use spectrie_engine::{CostShape, EngineConfig, Plan, Request, StepResults, StopFinder, TopTokens};
use spectrie_types::sizes::TOP_K;
use spectrie_types::{FinishKind, SpeculationMode};

const PROMPT: [u32; 5] = [3, 4, 5, 6, 7];
const NUM_TOKENS: usize = 40;

/// Finds a stop text that ends with token number `count`, and knows it `delay` tokens later.
#[derive(Clone, Debug)]
struct After {
    count: usize,
    delay: usize,
    seen: usize,
}

impl StopFinder for After {
    fn push(&mut self, tokens: &[u32]) -> Option<usize> {
        self.seen += tokens.len();
        (self.seen >= self.count + self.delay).then_some(self.count)
    }

    fn num_certain(&self) -> usize {
        self.seen.min(self.count)
    }

    fn boxed_clone(&self) -> Box<dyn StopFinder> {
        Box::new(self.clone())
    }
}

fn stopped(count: usize, delay: usize) -> Box<dyn StopFinder> {
    let seen = 0;
    Box::new(After { count, delay, seen })
}

#[cfg(test)]
fn driver() -> Driver {
    let driver = Driver::new(EngineConfig {
        memory_bytes: 4 << 20,
        ..config()
    });
    // Rows cost next to nothing, so that drafts reach far behind any stop.
    let costs = driver
        .engine
        .set_costs(&[1, 64], &[1.0, 1.001], CostShape::default());
    costs.unwrap();
    driver
}

/// All tokens without a stop.
fn whole() -> Vec<u32> {
    let mut driver = driver();
    driver.submit(request(1, &PROMPT, NUM_TOKENS as u32));
    driver.run();
    driver.tokens[&1].clone()
}

#[test]
fn nothing_behind_a_stop_is_emitted_counted_learnt_or_kept() {
    let whole = whole();
    for (count, delay) in (1..20).flat_map(|count| [(count, 0), (count, 2)]) {
        for speculation in [SpeculationMode::Off, SpeculationMode::Auto] {
            let mut driver = driver();
            driver.submit(Request {
                stops: Some(stopped(count, delay)),
                prediction_ids: whole.clone(),
                speculation: Some(speculation),
                ..request(1, &PROMPT, NUM_TOKENS as u32)
            });
            driver.run();
            let case = format!("{count} and {delay}, {speculation:?}");
            assert_eq!(driver.tokens[&1], whole[..count + delay], "{case}");
            let finish = &driver.finishes[&1];
            assert_eq!(finish.kind, FinishKind::Complete, "{case}");
            assert_eq!(finish.keep_tokens, Some(count as u32), "{case}");
            let stats = &finish.stats;
            let counted = stats.verify_steps + stats.accepted_tokens;
            assert_eq!(counted as usize, count - 1, "{case}");
            assert_eq!(stats.accepted_prediction_tokens as usize, count, "{case}");
            let learnt = driver.engine.namespaces()[0].num_tokens;
            assert_eq!(learnt as usize, PROMPT.len() + count, "{case}");

            let continued = [&PROMPT[..], &whole].concat();
            driver.submit(request(2, &continued, 1));
            driver.run();
            let cached = driver.finishes[&2].stats.cached_tokens as usize;
            assert!(cached <= PROMPT.len() + count, "{case}: {cached} cached");
            assert!(
                cached + 2 * PAGE_SIZE > PROMPT.len() + count,
                "{case}: {cached}"
            );
        }
    }
}

#[test]
fn however_late_a_stop_is_known_nothing_behind_it_is_learnt() {
    let whole = {
        let mut driver = driver();
        driver.submit(request(1, &PROMPT, 90));
        driver.run();
        driver.tokens[&1].clone()
    };
    for (count, delay) in [(1, 80), (3, 64), (3, 65), (20, 66)] {
        let mut driver = driver();
        driver.submit(Request {
            stops: Some(stopped(count, delay)),
            ..request(1, &PROMPT, 90)
        });
        driver.run();
        assert_eq!(driver.tokens[&1], whole[..count + delay]);
        let learnt = driver.engine.namespaces()[0].num_tokens;
        assert_eq!(learnt as usize, PROMPT.len() + count, "{count} and {delay}");
    }
    // The answer is over before it is known.
    let mut driver = driver();
    driver.submit(Request {
        stops: Some(stopped(10, 80)),
        ..request(1, &PROMPT, 30)
    });
    driver.run();
    assert_eq!(driver.finishes[&1].kind, FinishKind::Length);
    let learnt = driver.engine.namespaces()[0].num_tokens;
    assert_eq!(learnt as usize, PROMPT.len() + 10);
}

/// Ends a step. The model says `secret` behind the first `end` tokens of `text`, and nowhere else.
#[cfg(test)]
fn commit_with_secret(driver: &mut Driver, plan: &Plan, text: &[u32], end: usize, secret: i32) {
    let logits = driver.forward(plan);
    let (mut ids, probabilities) = driver.model.top(plan);
    for (&row, ids) in plan.top_rows.iter().zip(ids.chunks_mut(TOP_K)) {
        let position = plan.row_position[row as usize] as usize;
        let is_text = text.get(position) == Some(&(plan.row_token[row as usize] as u32));
        if is_text && position + 1 >= end {
            ids[0] = secret;
            ids[1..].fill(-1);
        } else if let Some(index) = ids.iter().position(|&id| id == secret) {
            ids[index..].fill(-1);
        }
    }
    let results = StepResults {
        verdicts: all_rows(plan, &logits),
        top: Some(TopTokens {
            ids: &ids,
            probabilities: &probabilities,
        }),
        compacted: false,
    };
    let engine = &driver.engine;
    engine.commit(plan.plan_id, &results, 1.0, 0.0).unwrap();
}

#[test]
fn what_the_model_says_behind_a_stop_is_not_recycled() {
    let whole = whole();
    let text = [&PROMPT[..], &whole].concat();
    let secret = (1..40).find(|id| !text.contains(id)).unwrap() as i32;
    for (count, delay) in (1..30).flat_map(|count| [(count, 0), (count, 3)]) {
        let end = PROMPT.len() + count;
        let mut driver = driver();
        driver.submit(Request {
            stops: Some(stopped(count, delay)),
            prediction_ids: whole.clone(),
            ..request(1, &PROMPT, NUM_TOKENS as u32)
        });
        while let Some(plan) = driver.plan() {
            commit_with_secret(&mut driver, &plan, &text, end, secret);
        }
        // What follows each of the tokens that lay behind, and the last one before.
        for behind in end..end + 8 {
            driver.submit(request(behind as u64, &text[..behind], 3));
            let case = format!("{count} and {delay}: {behind}");
            while let Some(plan) = driver.plan() {
                assert!(!plan.row_token.contains(&secret), "{case}");
                commit_with_secret(&mut driver, &plan, &text, usize::MAX, secret);
            }
        }
    }
}

#[test]
fn a_stop_that_comes_with_the_last_token_is_a_stop() {
    let whole = whole();
    let mut driver = driver();
    driver.submit(Request {
        stops: Some(stopped(10, 0)),
        prediction_ids: whole.clone(),
        ..request(1, &PROMPT, 10)
    });
    driver.run();
    assert_eq!(driver.tokens[&1], whole[..10]);
    assert_eq!(driver.finishes[&1].kind, FinishKind::Complete);
}

#[test]
fn a_resumed_answer_stops_where_a_whole_one_does() {
    let whole = whole();
    for kept in 0..=10 {
        let mut driver = driver();
        driver.submit(Request {
            stops: Some(stopped(10, 0)),
            emitted_token_ids: whole[..kept].to_vec(),
            ..request(1, &PROMPT, NUM_TOKENS as u32)
        });
        driver.run();
        let emitted = driver.tokens.get(&1).cloned().unwrap_or_default();
        assert_eq!(emitted, whole[kept..10]);
        assert_eq!(driver.finishes[&1].kind, FinishKind::Complete);
        assert_eq!(driver.finishes[&1].keep_tokens, Some(10));
    }
}
