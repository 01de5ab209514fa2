//! A model that knows only a plan's arrays and its own cache, and answers with a hash of
//! what each row sees.

use std::collections::HashSet;

use spectrie_engine::{LogitRows, Plan, Verdicts};
use spectrie_types::sizes::TOP_K;

/// Tokens of the model; 0 ends an answer.
pub(crate) const VOCABULARY: usize = 40;
/// Distance of two rows of logits: not the vocabulary, so that strides are honoured.
pub(crate) const STRIDE: usize = VOCABULARY + 3;
/// Small, so that requests cross pages often.
pub(crate) const PAGE_SIZE: usize = 4;

/// The hash of no tokens.
const NO_PREFIX: u64 = 11;

fn mix(seed: u64, value: u64) -> u64 {
    let mut z = (seed ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 32)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^ (z >> 29)
}

/// Logits after `prefix`: mostly a function of the last two tokens, so that text repeats and drafts
/// are right at times, and a little of every token before, so that any wrong key changes tokens.
pub(crate) fn logits(prefix: &[u32]) -> Vec<f32> {
    let whole = prefix
        .iter()
        .fold(7, |hash, &token| mix(hash, u64::from(token)));
    let near = prefix
        .iter()
        .rev()
        .take(2)
        .fold(3, |hash, &token| mix(hash, u64::from(token)));
    let favourite = near % VOCABULARY as u64;
    (0..VOCABULARY as u64)
        .map(|token| {
            let unit = |hash: u64| (hash >> 40) as f32 / (1_u64 << 24) as f32;
            let mut logit = 3.0 * unit(mix(near, token)) + 1.5 * unit(mix(whole, token));
            logit += if token == favourite { 3.5 } else { 0.0 };
            logit - if token == 0 { 2.0 } else { 0.0 }
        })
        .collect()
}

/// What a slot holds. As in a real model it depends on all tokens up to its own.
#[derive(Debug, Clone, Copy)]
struct Slot {
    token: i32,
    position: i32,
    prefix: u64,
}

/// The logits of all sampled rows of a plan, as an engine takes them.
pub(crate) fn all_rows<'a>(plan: &Plan, values: &'a [f32]) -> Verdicts<'a> {
    Verdicts::Logits(LogitRows {
        values,
        num_rows: plan.num_samples(),
        row_stride: STRIDE,
    })
}

/// The rows of logits that a plan wants, given all of its sampled rows.
pub(crate) fn wanted_logits(plan: &Plan, values: &[f32]) -> Vec<f32> {
    let wanted = plan.logit_samples.iter();
    let rows = wanted.map(|&sample| &values[sample as usize * STRIDE..][..VOCABULARY]);
    rows.flatten().copied().collect()
}

/// What [`wanted_logits`] gave, as an engine takes it.
pub(crate) fn wanted_rows(values: &[f32]) -> LogitRows<'_> {
    LogitRows {
        values,
        num_rows: values.len() / VOCABULARY,
        row_stride: VOCABULARY,
    }
}

/// The cache of the model.
pub(crate) struct FakeModel {
    slots: Vec<Option<Slot>>,
}

impl FakeModel {
    pub(crate) fn new(num_pages: usize) -> Self {
        Self {
            slots: vec![None; num_pages * PAGE_SIZE],
        }
    }

    /// Computes a plan; rows of logits `STRIDE` apart, with NaN between them.
    pub(crate) fn forward(&mut self, plan: &Plan) -> Vec<f32> {
        check_shape(plan, self.slots.len());
        self.move_keys(&plan.kv_move_src, &plan.kv_move_dst);
        for row in 0..plan.num_rows() {
            let token = plan.row_token[row];
            self.slots[plan.row_slot[row] as usize] = Some(Slot {
                token,
                position: plan.row_position[row],
                prefix: mix(self.prefix_before(plan, row), token as u64),
            });
        }
        let mut values = vec![f32::NAN; plan.num_samples() * STRIDE];
        for (sample, &row) in plan.sample_rows.iter().enumerate() {
            let prefix = self.visible(plan, row as usize);
            values[sample * STRIDE..][..VOCABULARY].copy_from_slice(&logits(&prefix));
        }
        values
    }

    /// The likeliest tokens after each top row of the plan just computed, and their probabilities.
    pub(crate) fn top(&self, plan: &Plan) -> (Vec<i32>, Vec<f32>) {
        let (mut ids, mut probabilities) = (Vec::new(), Vec::new());
        for &row in &plan.top_rows {
            let logits = logits(&self.visible(plan, row as usize));
            let total: f32 = logits.iter().map(|logit| logit.exp()).sum();
            let mut order: Vec<usize> = (0..VOCABULARY).collect();
            order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
            ids.extend(order[..TOP_K].iter().map(|&id| id as i32));
            probabilities.extend(order[..TOP_K].iter().map(|&id| logits[id].exp() / total));
        }
        (ids, probabilities)
    }

    /// Walks along the trees as a device does, and brings accepted rows to their places; whether the
    /// verdicts say where the walks go.
    pub(crate) fn compact(&mut self, plan: &Plan, verdicts: &Verdicts<'_>) -> bool {
        let (Verdicts::Tokens(tokens) | Verdicts::Drawn { tokens, .. }) = *verdicts else {
            return false;
        };
        for request in 0..plan.num_requests() {
            let (start, count) = (
                plan.request_row_start[request] as usize,
                plan.request_row_count[request] as usize,
            );
            let sample = plan.sample_indptr[request];
            if plan.request_kind[request] == 0 || plan.logit_samples.contains(&sample) {
                continue;
            }
            let (mut row, mut depth) = (0, 0);
            let child = |row: usize| {
                let token = tokens[sample as usize + row];
                (row + 1..count).find(|&child| {
                    let at = start + child;
                    plan.row_parent[at] == row as i32 && plan.row_token[at] == token
                })
            };
            while let Some(next) = child(row) {
                (row, depth) = (next, depth + 1);
                let (from, to) = (plan.row_slot[start + row], plan.row_slot[start + depth]);
                self.move_keys(&[from], &[to]);
            }
        }
        true
    }

    /// Copies slots, in order.
    pub(crate) fn move_keys(&mut self, from: &[i32], to: &[i32]) {
        for (&from, &to) in from.iter().zip(to) {
            self.slots[to as usize] = self.slots[from as usize];
        }
    }

    /// The first `count` tokens that lie in `pages`.
    pub(crate) fn committed(&self, pages: &[i32], count: usize) -> Vec<u32> {
        assert_eq!(pages.len(), count.div_ceil(PAGE_SIZE));
        let slot = |index: usize| pages[index / PAGE_SIZE] as usize * PAGE_SIZE + index % PAGE_SIZE;
        let held = |index: usize| self.slots[slot(index)].expect("a slot never written is read");
        let mut hash = NO_PREFIX;
        let read = |index: usize| {
            let held = held(index);
            hash = mix(hash, held.token as u64);
            assert_eq!((held.position as usize, held.prefix), (index, hash));
            held.token as u32
        };
        (0..count).map(read).collect()
    }

    /// The hash of what a row's parent holds.
    fn prefix_before(&self, plan: &Plan, row: usize) -> u64 {
        let owner = plan.row_owner[row] as usize;
        let (start, kv_len) = (
            plan.request_row_start[owner] as usize,
            plan.request_kv_len[owner] as usize,
        );
        let above = match plan.row_parent[row] {
            -1 if kv_len == 0 => return NO_PREFIX,
            -1 => slot(plan, owner, kv_len - 1),
            parent => plan.row_slot[start + parent as usize] as usize,
        };
        self.slots[above]
            .expect("a row follows a slot never written")
            .prefix
    }

    /// The tokens a row sees, by position.
    pub(crate) fn visible(&self, plan: &Plan, row: usize) -> Vec<u32> {
        let owner = plan.row_owner[row] as usize;
        let start = plan.request_row_start[owner] as usize;
        let kv_len = plan.request_kv_len[owner] as usize;
        let own = row - start;
        let seen = |index: usize| match plan.request_kind[owner] {
            0 => index <= kv_len + own,
            _ => index < kv_len || plan.row_ancestors[row] >> (index - kv_len) & 1 == 1,
        };
        let num_rows = plan.request_row_count[owner] as usize;
        let mut prefix = Vec::new();
        let mut hash = NO_PREFIX;
        for index in (0..kv_len + num_rows).filter(|&index| seen(index)) {
            let held =
                self.slots[slot(plan, owner, index)].expect("a row sees a slot never written");
            assert_eq!(
                held.position as usize,
                prefix.len(),
                "keys are not in order of position"
            );
            hash = mix(hash, held.token as u64);
            assert_eq!(held.prefix, hash, "a key was computed behind other tokens");
            prefix.push(held.token as u32);
        }
        assert_eq!(plan.row_position[row] as usize + 1, prefix.len());
        prefix
    }
}

fn slot(plan: &Plan, request: usize, index: usize) -> usize {
    let first = plan.page_indptr[request] as usize;
    plan.page_ids[first + index / PAGE_SIZE] as usize * PAGE_SIZE + index % PAGE_SIZE
}

/// Everything about the arrays that does not depend on the tokens.
fn check_shape(plan: &Plan, num_slots: usize) {
    let mut written = HashSet::new();
    let mut read = Vec::new();
    assert!(plan.num_rows() > 0);
    assert!(plan.sample_rows.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(plan.top_rows.windows(2).all(|pair| pair[0] < pair[1]));
    let tops: HashSet<_> = plan.top_rows.iter().collect();
    assert!(tops.is_empty() || plan.sample_rows.iter().all(|row| tops.contains(row)));
    for request in 0..plan.num_requests() {
        let start = plan.request_row_start[request] as usize;
        let count = plan.request_row_count[request] as usize;
        let kv_len = plan.request_kv_len[request] as usize;
        let is_tree = plan.request_kind[request] == 1;
        let held = &plan.page_ids
            [plan.page_indptr[request] as usize..plan.page_indptr[request + 1] as usize];
        assert_eq!(held.len(), (kv_len + count).div_ceil(PAGE_SIZE));
        for (index, &page) in held.iter().enumerate() {
            assert!((page as usize) < num_slots / PAGE_SIZE);
            if index < kv_len / PAGE_SIZE {
                read.push(page);
            } else {
                assert!(written.insert(page), "two requests write to page {page}");
            }
        }
        let samples = plan.sample_indptr[request]..plan.sample_indptr[request + 1];
        assert!(
            !is_tree || samples.len() == count,
            "every tree row is sampled"
        );
        assert!(count > 0 && (!is_tree || count <= 64));
        for own in 0..count {
            let row = start + own;
            let parent = plan.row_parent[row];
            assert_eq!(plan.row_owner[row] as usize, request);
            assert_eq!(
                plan.row_slot[row] as usize,
                slot(plan, request, kv_len + own)
            );
            assert!(parent < own as i32 && (own == 0) == (parent == -1));
            if is_tree {
                let above = if own == 0 {
                    0
                } else {
                    plan.row_ancestors[start + parent as usize]
                };
                assert_eq!(plan.row_ancestors[row], above | 1_i64 << own);
            }
        }
    }
    let shared = read.iter().find(|page| written.contains(page));
    assert_eq!(shared, None, "a page is written by one and read by another");
}
