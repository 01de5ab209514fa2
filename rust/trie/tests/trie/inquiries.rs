//! A drafter of the runner's is asked where it helps, and its answers are heeded.

use spectrie_trie::{DraftConfig, DraftMemory, DraftTree, Drafter, Inquiry, MemoryConfig};
use spectrie_types::Source;

/// A request whose text says little about what follows.
fn drafter() -> Drafter {
    let mut drafter = Drafter::new(DraftConfig::default(), None);
    drafter.push_prompt(&[3, 1, 4, 1, 5, 9, 2, 6]);
    drafter
}

/// A request in the middle of a copy.
fn copying() -> Drafter {
    let mut drafter = Drafter::new(DraftConfig::default(), None);
    let text: Vec<u32> = (1..60).collect();
    drafter.push_prompt(&text);
    drafter.push_output(&text[..30]);
    drafter
}

fn answer(drafter: &mut Drafter, inquiry: &Inquiry, likeliest: &[(u32, f32)]) -> u32 {
    drafter.answer(inquiry, likeliest, Vec::new(), Source::Head)
}

#[test]
fn the_root_is_asked_first_and_then_what_follows_what_was_answered() {
    let mut drafter = drafter();
    drafter.draft(8, 0.01);
    assert_eq!(
        drafter.frontier(2, 0.0),
        [],
        "nothing below it was asked before"
    );
    let root = drafter.frontier(1, 0.0).remove(0);
    assert_eq!((root.parent, root.token, root.depth), (None, 6, 0));
    let number = answer(&mut drafter, &root, &[(50, 0.6), (51, 0.3)]);
    assert_eq!(
        drafter.frontier(1, 0.0).len(),
        1,
        "the draft does not know it yet"
    );
    let tree = drafter.draft(8, 0.01);
    assert_eq!(
        (tree.nodes[0].token, tree.nodes[0].source),
        (50, Source::Head)
    );
    assert!(
        (tree.nodes[0].value - 0.6).abs() < 0.15,
        "{:?}",
        tree.nodes[0]
    );
    assert_eq!(drafter.frontier(1, 0.0), []);
    let second = drafter.frontier(2, 0.0);
    let asked: Vec<_> = second.iter().map(|one| (one.parent, one.token)).collect();
    assert!(asked.contains(&(Some(number), 50)) && asked.contains(&(Some(number), 51)));
    let below = second.iter().find(|one| one.token == 50).unwrap();
    answer(&mut drafter, below, &[(60, 0.9)]);
    let tree = drafter.draft(8, 0.01);
    assert_eq!(tree.path_tokens(1), [50, 60]);
}

#[test]
fn answers_hold_for_one_step_and_behind_tokens_of_others_too() {
    let mut drafter = copying();
    let tree = drafter.draft(4, 0.01);
    assert_eq!(tree.path_tokens(1), [31, 32]);
    let root = drafter.frontier(1, 0.0).remove(0);
    assert_eq!(root.named[0], 31, "the drafted child comes first");
    let number = answer(&mut drafter, &root, &[(31, 0.8)]);
    drafter.draft(4, 0.01);
    let second = drafter.frontier(2, 0.0).remove(0);
    assert_eq!((second.parent, second.token), (Some(number), 31));
    answer(&mut drafter, &second, &[(77, 0.97)]);
    let tree = drafter.draft(4, 0.01);
    assert!(
        tree.nodes
            .iter()
            .any(|node| (node.token, node.depth) == (77, 2))
    );
    // The text names it as well: the head is credited with nothing of it.
    assert_eq!(tree.nodes[0].source, Source::Request);
    drafter.forget_answers();
    let tree = drafter.draft(4, 0.01);
    assert!(tree.nodes.iter().all(|node| node.token != 77));
}

#[test]
fn next_to_nothing_is_gained_behind_a_certain_copy() {
    let (mut copying, mut other) = (copying(), drafter());
    // It has been right for a while.
    for token in 31..50 {
        copying.draft(8, 0.01);
        copying.push_output(&[token]);
    }
    copying.draft(8, 0.01);
    other.draft(8, 0.01);
    let (certain, open) = (
        copying.frontier(1, 0.0).remove(0),
        other.frontier(1, 0.0).remove(0),
    );
    assert!(certain.gain < 0.05, "{certain:?}");
    assert!(open.gain > 0.2, "{open:?}");
}

#[test]
fn what_a_head_adds_is_learned_and_left_to_the_namespace() {
    let memory = DraftMemory::new(MemoryConfig::default()).unwrap();
    let gain = |drafter: &mut Drafter| {
        drafter.draft(8, 0.01);
        drafter.frontier(1, 0.0).remove(0).gain
    };
    let request = |right: bool, judges: bool| {
        let name = if right { "right" } else { "wrong" };
        let shared = memory.namespace(if judges { name } else { "another mode" });
        let mut drafter = Drafter::new(DraftConfig::default(), Some(shared)).judges_head(judges);
        drafter.push_prompt(&[900, 901, 902]);
        let before = gain(&mut drafter);
        for step in 0..12 {
            drafter.forget_answers();
            drafter.draft(8, 0.01);
            let root = drafter.frontier(1, 0.0).remove(0);
            let comes = 1000 + 7 * step;
            let said = if right { comes } else { 1 };
            answer(&mut drafter, &root, &[(said, 0.7)]);
            drafter.draft(8, 0.01);
            drafter.push_output(&[comes]);
        }
        drafter.forget_answers();
        (before, gain(&mut drafter))
    };
    let (before, after) = request(true, true);
    assert!(after > 1.5 * before, "{before} {after}");
    let (inherited, _) = request(true, true);
    assert!(inherited > 1.3 * before, "{before} {inherited}");
    // What a request in another mode found is its own.
    request(true, false);
    let (own, _) = request(true, false);
    assert!(inherited > 1.3 * own, "{own} {inherited}");
    let (before, after) = request(false, true);
    assert!(after < 0.5 * before, "{before} {after}");
}

#[test]
fn tokens_that_others_name_are_judged_by_what_the_head_says_of_them() {
    let judged = |said: f32| {
        let mut drafter = copying();
        let before = drafter.draft(4, 0.01).nodes[0].value;
        let root = drafter.frontier(1, 0.0).remove(0);
        let likeliest = [(77, 0.6)];
        drafter.answer(&root, &likeliest, vec![(31, said)], Source::DraftModel);
        (before, drafter.draft(8, 0.01))
    };
    let value = |tree: &DraftTree, token| {
        let mut at_root = tree.nodes.iter().filter(|one| one.depth == 1);
        at_root.find(|one| one.token == token).copied()
    };
    let (before, tree) = judged(0.0005);
    let doubted = value(&tree, 31).map_or(0.0, |node| node.value);
    assert!(doubted < 0.9 * before, "{doubted} {before}");
    let (_, believed) = judged(0.35);
    let believed = value(&believed, 31).unwrap().value;
    assert!(believed > 1.1 * doubted, "{believed} {doubted}");
    assert_eq!(value(&tree, 77).unwrap().source, Source::DraftModel);
}

#[test]
fn what_follows_a_draft_is_noted_after_its_answers_were_forgotten() {
    // A request that is not asked in every step goes on below its last draft.
    let mut drafter = drafter();
    drafter.draft(8, 0.01);
    let root = drafter.frontier(1, 0.0).remove(0);
    let before = root.gain;
    let number = answer(&mut drafter, &root, &[(50, 0.9)]);
    drafter.draft(8, 0.01);
    let second = drafter.frontier(2, 0.0).remove(0);
    assert_eq!(second.parent, Some(number));
    answer(&mut drafter, &second, &[(60, 0.9)]);
    drafter.draft(8, 0.01);
    drafter.forget_answers();
    for token in [50, 60] {
        drafter.push_output(&[token]);
    }
    drafter.draft(8, 0.01);
    let after = drafter.frontier(1, 0.0).remove(0);
    assert!(after.gain > before, "{} {before}", after.gain);
}

#[test]
fn what_drafters_add_is_learned_of_each_apart_and_left_to_the_namespace() {
    let memory = DraftMemory::new(MemoryConfig::default()).unwrap();
    let new = || {
        let mut drafter = Drafter::new(DraftConfig::default(), Some(memory.namespace("a")));
        drafter.push_prompt(&[3, 1, 4, 1, 5, 9, 2, 6]);
        drafter
    };
    let gain = |drafter: &mut Drafter, number: usize| {
        drafter.forget_answers();
        drafter.turn_to(number);
        drafter.draft(8, 0.01);
        drafter.frontier(1, 0.0).remove(0).gain
    };
    let mut drafter = new();
    let before = gain(&mut drafter, 1);
    assert!((gain(&mut drafter, 0) - before).abs() < 1e-6);
    for step in 0..12 {
        // The first is wrong each time, and the second right.
        for number in 0..2 {
            drafter.forget_answers();
            drafter.turn_to(number);
            drafter.draft(8, 0.01);
            let root = drafter.frontier(1, 0.0).remove(0);
            let next = 100 + 2 * step + number as u32;
            let said = if number == 1 { next } else { 7 };
            answer(&mut drafter, &root, &[(said, 0.8)]);
            drafter.draft(8, 0.01);
            drafter.push_output(&[next]);
        }
    }
    let (wrong, right) = (gain(&mut drafter, 0), gain(&mut drafter, 1));
    assert!(wrong < 0.5 * before && right > before, "{wrong} {right}");
    drop(drafter);
    let mut next = new();
    let (wrong, right) = (gain(&mut next, 0), gain(&mut next, 1));
    assert!(wrong < right - 0.1, "{wrong} {right}");
    // An answer of one is none of the other's.
    next.turn_to(1);
    next.draft(8, 0.01);
    let root = next.frontier(1, 0.0).remove(0);
    answer(&mut next, &root, &[(50, 0.9)]);
    next.turn_to(0);
    let tree = next.draft(8, 0.01);
    assert!(tree.nodes.iter().all(|node| node.token != 50));
}
