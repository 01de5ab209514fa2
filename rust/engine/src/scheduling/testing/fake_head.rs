//! A runner of a drafter, of which only the places of things matter: the feature of a token is the hash
//! of the text up to it, and so are the keys that the drafter has of it.

use std::collections::HashSet;

use spectrie_types::seed::splitmix;

use super::model::PAGE_SIZE;
use crate::cache::LEFT_OUT;
use crate::plan::{DraftPlan, Plan};
use crate::scheduling::Scheduler;
use crate::speculation::DrafterInfo;

/// What is nowhere right.
const POISON: u64 = u64::MAX;
/// The hash of no text.
const NO_TEXT: u64 = 0;

pub(super) struct FakeHead {
    /// By slot: the text up to its token, and that of the drafter's keys there.
    texts: Vec<u64>,
    keys: Vec<u64>,
    store: Vec<u64>,
    last_forward: Vec<u64>,
    pub(super) info: DrafterInfo,
    /// Its number among the drafters.
    pub(super) number: usize,
    /// Whether others of its engine read features.
    others_read: bool,
    /// Whether one of its levels may fail.
    pub(super) may_fail: bool,
    /// Events, to check that the traffic reached them: features taken from a page, and rows computed
    /// again for theirs.
    pub(super) num_from_pages: u64,
    pub(super) num_recomputed: u64,
    /// Keys that were made up, of levels that asked nothing yet, and of requests that had keys of others.
    pub(super) num_made_up: u64,
    pub(super) num_unasked: u64,
    pub(super) num_shared: u64,
    /// Rows of requests that are left out, rows of which nothing is kept of requests that are followed from further on, and
    /// questions about such requests.
    pub(super) num_left_out: u64,
    pub(super) num_passed: u64,
    pub(super) num_asked_late: u64,
}

fn after(text: u64, token: i32) -> u64 {
    splitmix(text ^ splitmix(token as u64 + 1))
}

impl FakeHead {
    pub(super) fn new(
        scheduler: &Scheduler,
        info: DrafterInfo,
        number: usize,
        others_read: bool,
        may_fail: bool,
    ) -> Self {
        let config = scheduler.admission.config();
        let num_slots = config.num_pages * config.page_size;
        Self {
            texts: vec![POISON; num_slots],
            keys: vec![POISON - 1; num_slots],
            store: vec![POISON; config.num_pages + config.max_running],
            last_forward: Vec::new(),
            info,
            number,
            others_read,
            may_fail,
            num_from_pages: 0,
            num_recomputed: 0,
            num_made_up: 0,
            num_unasked: 0,
            num_shared: 0,
            num_left_out: 0,
            num_passed: 0,
            num_asked_late: 0,
        }
    }

    /// Something else went through the model, or failed there.
    pub(super) fn disturb(&mut self) {
        self.last_forward.fill(POISON);
    }

    /// What comes before every call.
    fn copy(&mut self, kv: [&[i32]; 2], moves: &[[i32; 2]], copies: &[[i32; 2]]) {
        let num_ordered = moves.len() + copies.len();
        assert!(self.info.needs_features || self.others_read || num_ordered == 0);
        for (&from, &to) in kv[0].iter().zip(kv[1]) {
            self.texts[to as usize] = self.texts[from as usize];
            self.keys[to as usize] = self.keys[from as usize];
        }
        if !self.info.needs_features {
            return;
        }
        for &[from, to] in moves {
            self.store[to as usize] = self.last_forward[from as usize];
        }
        for &[from, to] in copies {
            self.store[to as usize] = self.store[from as usize];
        }
        self.num_from_pages += copies.len() as u64;
    }

    /// Copies alone, before another forward.
    pub(super) fn keep(&mut self, plan: &DraftPlan) {
        assert_eq!(plan.num_rows() + plan.kv_move_src.len(), 0);
        self.copy([&[], &[]], &plan.feature_moves, &plan.feature_copies);
    }

    /// A level of another drafter, of which only the copies count.
    pub(super) fn beside(&mut self, plan: &DraftPlan) {
        let kv = [&*plan.kv_move_src, &*plan.kv_move_dst];
        self.copy(kv, &plan.feature_moves, &plan.feature_copies);
    }

    /// A level, which is given the features and keys of its requests' texts.
    pub(super) fn level(&mut self, plan: &DraftPlan) {
        assert_eq!(plan.drafter, self.number);
        self.beside(plan);
        self.make_up(plan);
        for request in 0..plan.num_requests() {
            let first = plan.page_indptr[request] as usize;
            let slot = |index: usize| {
                let page = plan.page_ids[first + index / PAGE_SIZE] as usize;
                page * PAGE_SIZE + index % PAGE_SIZE
            };
            let kv_len = plan.request_kv_len[request] as usize;
            if self.info.needs_features {
                let given = self.store[plan.request_feature[request] as usize];
                let own = self.texts[slot(kv_len - 1)];
                assert_eq!(given, own, "another text's feature");
            } else {
                assert_eq!(plan.request_feature[request], -1);
            }
            if !plan.row_request.contains(&(request as i32)) {
                self.num_unasked += 1;
                continue;
            }
            let first_seen = plan.request_first[request] as usize;
            assert!(self.info.needs_features || first_seen == 0);
            assert!(first_seen == 0 || first_seen + PAGE_SIZE <= kv_len);
            self.num_asked_late += u64::from(first_seen > 0);
            for index in first_seen.max(1)..kv_len {
                let slot = slot(index);
                assert_eq!(
                    self.keys[slot], self.texts[slot],
                    "keys of {index} are wrong"
                );
            }
        }
    }

    /// The keys that come before a level's rows, each once.
    fn make_up(&mut self, plan: &DraftPlan) {
        assert!(!self.info.needs_features || plan.fill_token.is_empty());
        let mut made = HashSet::new();
        for request in 0..plan.num_requests() {
            let first = plan.page_indptr[request] as usize;
            let tokens = plan.fill_indptr[request] as usize..plan.fill_indptr[request + 1] as usize;
            let start = plan.request_fill_start[request] as usize;
            assert!(start + tokens.len() <= plan.request_kv_len[request] as usize);
            self.num_shared +=
                u64::from(start > 0 && start < plan.request_kv_len[request] as usize);
            for (index, &token) in (start..).zip(&plan.fill_token[tokens]) {
                let slot = |index: usize| {
                    let page = plan.page_ids[first + index / PAGE_SIZE] as usize;
                    page * PAGE_SIZE + index % PAGE_SIZE
                };
                let before = match index.checked_sub(1) {
                    // It sees the keys before its own.
                    Some(before) => self.keys[slot(before)],
                    None => NO_TEXT,
                };
                assert!(made.insert(slot(index)), "a slot is written twice");
                self.keys[slot(index)] = after(before, token);
                self.num_made_up += 1;
            }
        }
    }

    /// A forward, whose rows leave their features and the drafter's keys.
    pub(super) fn forward(&mut self, plan: &Plan) {
        let kv = [&*plan.kv_move_src, &*plan.kv_move_dst];
        self.copy(kv, &plan.feature_moves, &plan.feature_copies);
        let mut features = Vec::with_capacity(plan.num_rows());
        for row in 0..plan.num_rows() {
            let request = plan.row_owner[row] as usize;
            let (start, kv_len) = (
                plan.request_row_start[request],
                plan.request_kv_len[request],
            );
            let slot = |index: i32| slot(plan, request, index as usize);
            let own = plan.row_slot[row] as usize;
            let before = match plan.row_parent[row] {
                -1 if kv_len == 0 => NO_TEXT,
                -1 => self.texts[slot(kv_len - 1)],
                parent => self.texts[plan.row_slot[(start + parent) as usize] as usize],
            };
            let text = after(before, plan.row_token[row]);
            self.texts[own] = text;
            if !self.info.needs_features {
                assert!(self.others_read || plan.request_feature.is_empty());
                continue;
            }
            if plan.request_feature[request] == LEFT_OUT {
                self.num_left_out += 1;
                self.keys[own] = POISON - 1;
                features.push(text);
                continue;
            }
            if plan.row_position[row] < plan.request_first[request] {
                self.num_passed += 1;
                self.keys[own] = POISON - 1;
                features.push(text);
                continue;
            }
            let given = match (plan.row_parent[row], plan.request_feature[request]) {
                (-1, -1) => None,
                (-1, known) => Some(self.store[known as usize]),
                (parent, _) => Some(features[(start + parent) as usize]),
            };
            if let Some(given) = given {
                assert_eq!(given, before, "row {row} is given another text's feature");
                self.keys[own] = after(given, plan.row_token[row]);
            } else if kv_len > 0 {
                self.num_recomputed += 1;
                assert_eq!(self.keys[own], text, "the drafter lacks a token's keys");
            }
            features.push(text);
        }
        for request in 0..plan.num_requests() * usize::from(self.info.needs_features) {
            if plan.request_feature[request] == LEFT_OUT {
                continue;
            }
            for index in plan.request_first[request].max(1)..plan.request_kv_len[request] {
                let slot = slot(plan, request, index as usize);
                assert_eq!(
                    self.keys[slot], self.texts[slot],
                    "keys of {index} are wrong"
                );
            }
        }
        self.last_forward = features;
    }
}

fn slot(plan: &Plan, request: usize, index: usize) -> usize {
    let page = plan.page_ids[plan.page_indptr[request] as usize + index / PAGE_SIZE];
    page as usize * PAGE_SIZE + index % PAGE_SIZE
}
