//! When a drafter is asked, without an engine.

use spectrie_trie::Inquiry;
use spectrie_types::Source;

use super::heads::Heads;
use super::info::DrafterInfo;
use super::probing::Probed;
use super::wish::{Missing, Wish};

fn info(first_ms: f64) -> DrafterInfo {
    DrafterInfo {
        source: Source::Head,
        needs_features: true,
        max_levels: 4,
        max_rows: 64,
        rows: vec![1, 64],
        first_ms: vec![first_ms, 2.0 * first_ms],
        later_ms: vec![first_ms, 2.0 * first_ms],
        fill_ms: Vec::new(),
        namespaces: None,
    }
}

fn heads(first_ms: f64) -> Heads {
    Heads::new(info(first_ms), 0).unwrap()
}

fn wish(gain: f32, before: f32) -> Wish {
    Wish {
        candidate: 0,
        missing: Missing::default(),
        inquiry: Inquiry {
            parent: None,
            token: 1,
            depth: 0,
            gain,
            before,
            price: 0.0,
            surplus: before,
            named: Vec::new(),
        },
    }
}

/// Wishes that are granted in steps whose plain forward takes 10 ms.
fn granted(heads: &mut Heads, gains: &[f32]) -> usize {
    heads.begin_step(1, 0, 10.0);
    heads.probed(1, true, false);
    let wishes = gains.iter().map(|&gain| wish(gain, 0.05)).collect();
    let chosen = heads.choose(1, wishes, 64, 10.0);
    chosen.map_or(0, |chosen| chosen.wishes.len())
}

#[test]
fn a_level_is_asked_exactly_where_it_pays() {
    for (cost, gain) in [(0.5, 0.06), (2.0, 0.23), (6.0, 0.68)] {
        assert_eq!(granted(&mut heads(cost), &[gain]), 1, "{cost} {gain}");
        assert_eq!(granted(&mut heads(cost), &[0.8 * gain]), 0, "{cost} {gain}");
    }
    // Several requests share what a level costs at least, and those of little gain are left out.
    assert_eq!(granted(&mut heads(2.0), &[0.1; 4]), 4);
    assert_eq!(granted(&mut heads(2.0), &[0.3, 0.3, 0.0001, 0.0001]), 2);
}

#[test]
fn one_that_sleeps_is_tried_once_in_64_steps_of_a_request_alone_and_never_about_a_copy() {
    let mut heads = heads(6.0);
    let asked = (0..640)
        .filter(|_| granted(&mut heads, &[0.01]) > 0)
        .count();
    assert_eq!(asked, 10);
    for _ in 0..640 {
        heads.begin_step(1, 0, 10.0);
        heads.probed(1, true, false);
        let chosen = heads.choose(1, vec![wish(0.001, 0.97)], 64, 10.0);
        assert!(chosen.is_none());
    }
}

/// Rows of the levels that it is tried with in 640 steps of four requests.
fn tried_rows(needs_features: bool, is_alone: bool, all_rest: bool) -> Vec<usize> {
    let info = DrafterInfo {
        needs_features,
        fill_ms: if needs_features {
            Vec::new()
        } else {
            vec![0.1, 6.4]
        },
        ..info(0.5)
    };
    let mut heads = Heads::new(info, 0).unwrap();
    let rows = (0..640).filter_map(|_| {
        heads.begin_step(1, 0, 10.0);
        heads.probed(4, is_alone, all_rest)?;
        let wishes = (0..4).map(|_| wish(0.005, 0.05)).collect();
        Some(heads.choose(1, wishes, 64, 10.0)?.wishes.len())
    });
    rows.collect()
}

#[test]
fn alone_it_is_tried_on_all_requests_in_one_level() {
    assert_eq!(tried_rows(true, true, false), [4; 3]);
    // One that makes keys up would have to make those of all at once; others would wait for their turns.
    assert_eq!(tried_rows(false, true, false), [1; 40]);
    assert_eq!(tried_rows(true, false, false), [1; 40]);
    assert_eq!(tried_rows(true, true, true), [1; 10]);
}

#[test]
fn it_is_tried_on_as_many_as_take_hardly_longer_than_one() {
    let mut heads = heads(0.5);
    for _ in 0..63 {
        heads.begin_step(1, 0, 10.0);
    }
    heads.begin_step(1, 0, 10.0);
    assert_eq!(heads.probed(64, true, false), Some(Probed::All));
    let wishes = (0..64).map(|_| wish(0.001, 0.05)).collect();
    let tried = heads.choose(1, wishes, 64, 10.0).unwrap().wishes.len();
    // Sixty-four rows take twice as long as one.
    assert_eq!(tried, 16);
}

#[test]
fn one_that_could_not_pay_if_it_were_always_right_is_not_tried() {
    for (first_ms, is_tried) in [(6.0, true), (8.5, true), (9.0, false), (1e4, false)] {
        let mut heads = heads(first_ms);
        let asked = (0..100).any(|_| granted(&mut heads, &[0.01]) > 0);
        assert_eq!(asked, is_tried, "{first_ms} ms");
    }
}

#[test]
fn a_probe_that_found_more_is_followed_by_the_next_and_wakes_it() {
    let mut heads = heads(2.0);
    let mut gain = 0.01;
    let mut asked = 0;
    for step in 0..70 {
        let count = granted(&mut heads, &[gain]);
        asked += count;
        // From the first probe on the drafter is right.
        gain = if count > 0 {
            (gain + 0.08).min(0.6)
        } else {
            gain
        };
        assert!(step > 63 || count == 0 || step == 63);
    }
    assert!(asked >= 6, "{asked}");
}

#[test]
fn a_fixed_request_does_not_wait_for_one_that_lacks_many_keys() {
    let mut heads = heads(6.0);
    heads.begin_step(1, 0, 10.0);
    let lacking = |total| Wish {
        missing: Missing { total, fresh: 1 },
        ..wish(1.0, 0.0)
    };
    let chosen = heads.fixed(vec![lacking(1 << 30), lacking(1)], 64).unwrap();
    assert_eq!(chosen.wishes.len(), 1);
    assert_eq!(chosen.wishes[0].missing.total, 1);
}

/// The gain that is told of one that makes three tokens of two in steps of about 11 ms.
fn told(upkeep_ms: f64) -> f64 {
    let mut heads = heads(1.0);
    heads.set_upkeep(upkeep_ms, true);
    let mut held_out = 0;
    for step in 0..4000 {
        let may_ask = heads.begin_step(step, 100, 10.0);
        held_out += usize::from(!may_ask);
        let tokens = if may_ask { 3 } else { 2 };
        heads.end_step(true, 1, tokens, 10.0 + (step % 3) as f64);
    }
    assert!((20..70).contains(&held_out), "{held_out}");
    heads.report().gain.unwrap().ratio
}

#[test]
fn steps_held_out_tell_what_it_gains_less_what_it_always_takes() {
    assert!((told(0.0) - 1.5).abs() < 0.1);
    let share = told(2.2) / told(0.0);
    assert!((share - 0.8).abs() < 0.01, "{share}");
}
