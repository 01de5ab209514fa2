//! Large work goes on whatever others ask for, and whatever happened before.

use super::world::{World, config};

/// Steps until a request of `tenant` ends while `feed` goes on.
fn steps_until(world: &mut World, tenant: &str, feed: impl Fn(&mut World)) -> Option<usize> {
    (0..2_000).find(|_| {
        feed(world);
        world.step().iter().any(|one| one == tenant)
    })
}

#[test]
fn a_longer_prompt_is_served_beside_short_ones_that_fill_every_step() {
    // Of equal tenants, and of one who is ahead.
    for num_tenants in [10, 1] {
        let mut world = World::new(config(4_000, 32, 40));
        let flood = |world: &mut World| {
            for number in 0..num_tenants {
                world.keep(&format!("flood-{number}"), 30 / num_tenants, 16, 2);
            }
            world.keep("other", 1, 16, 40);
        };
        for _ in 0..600 {
            flood(&mut world);
            world.step();
        }
        world.ask("late", 60, 2);
        let took = steps_until(&mut world, "late", flood);
        assert!(took.is_some_and(|took| took < 100), "{took:?}");
    }
}

#[test]
fn one_who_is_alone_by_now_is_not_held_back_by_what_was_usual() {
    let mut world = World::new(config(4_000, 32, 40));
    for step in 0..2_000 {
        if step % 20 == 0 {
            world.ask(&format!("other-{}", step / 20 % 3), 6, 4);
        }
        world.step();
    }
    let feed = |world: &mut World| {
        for number in world.held.len()..35 {
            let max_tokens = 30 + (world.handle as usize * 7 + number) % 40;
            world.ask("alone", 6, max_tokens as u32);
        }
    };
    let began_s = world.now_s;
    while world.now_s < began_s + 200.0 {
        feed(&mut world);
        world.step();
    }
    world.ask("alone", 300, 1);
    let handle = world.handle;
    let took = (0..2_000).find(|_| {
        feed(&mut world);
        world.step();
        !world.held.contains_key(&handle)
    });
    assert!(took.is_some_and(|took| took < 20), "{took:?}");
}

#[test]
fn a_step_that_hung_does_not_hold_large_work_back_for_ever() {
    for hiccup_ms in [600e3, f64::INFINITY] {
        let mut world = World::new(config(4_000, 32, 40));
        let feed = |world: &mut World, num_heavy| {
            for number in 0..5 {
                world.keep(&format!("other-{number}"), 1, 6, 20);
            }
            world.keep("heavy", num_heavy, 400, 1);
        };
        for step in 0..900 {
            feed(&mut world, if step < 300 { 0 } else { 4 });
            world.step();
        }
        world.hiccup_ms = hiccup_ms;
        while world.hiccup_ms > 0.0 {
            feed(&mut world, 4);
            world.step();
        }
        let took = (0..5_000).find(|_| {
            feed(&mut world, 4);
            world.step();
            world.last.was_paced
        });
        assert!(took.is_some_and(|took| took < 1_000), "{took:?}");
    }
}
