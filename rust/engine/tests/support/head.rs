//! A drafter that a runner calls, which answers from a script.

use spectrie_engine::{DraftAnswers, DraftPlan, DrafterInfo, Engine, Request};
use spectrie_types::Source;
use spectrie_types::seed::splitmix;
use spectrie_types::sizes::TOP_K;

use super::model::{FakeModel, VOCABULARY, logits};
use super::reference::drawn_after;

/// What it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// The tokens that come next in the answers to `requests`, and the model's likeliest.
    Right,
    /// The least likely ones.
    Wrong,
    /// Anything: ids, order and probabilities.
    Random,
    /// Numbers that are none.
    Nan,
}

/// A drafter, and what it was asked.
pub(crate) struct Head {
    pub(crate) script: Script,
    /// Those whose answers it knows, by their prompts.
    pub(crate) requests: Vec<Request>,
    pub(crate) levels: u64,
    pub(crate) rows: u64,
    /// Rows of requests of which it sees no beginning.
    pub(crate) late_rows: u64,
    /// Tokens that it made keys of.
    pub(crate) made_up: u64,
    /// The text of each row of the step so far.
    paths: Vec<Vec<u32>>,
}

/// Answers to a level.
pub(crate) struct Answers {
    pub(crate) ids: Vec<i32>,
    pub(crate) probabilities: Vec<f32>,
    pub(crate) scored: Vec<f32>,
}

impl Answers {
    pub(crate) fn view(&self) -> DraftAnswers<'_> {
        DraftAnswers {
            ids: &self.ids,
            probabilities: &self.probabilities,
            scored: &self.scored,
        }
    }
}

/// A drafter whose first level takes `first_ms`; a later one half of that.
pub(crate) fn drafter(first_ms: f64) -> DrafterInfo {
    DrafterInfo {
        source: Source::Head,
        needs_features: true,
        max_levels: 3,
        max_rows: 24,
        rows: vec![1, 24],
        first_ms: vec![first_ms, 2.0 * first_ms],
        later_ms: vec![0.5 * first_ms, first_ms],
        fill_ms: Vec::new(),
        namespaces: None,
    }
}

/// A model whose first level takes `first_ms`, and keys of a token a tenth of that.
pub(crate) fn model(first_ms: f64) -> DrafterInfo {
    DrafterInfo {
        source: Source::DraftModel,
        needs_features: false,
        fill_ms: vec![0.1 * first_ms, 2.4 * first_ms],
        ..drafter(first_ms)
    }
}

impl Head {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            script,
            requests: Vec::new(),
            levels: 0,
            rows: 0,
            late_rows: 0,
            made_up: 0,
            paths: Vec::new(),
        }
    }

    /// Answers all levels of a step, each of which took `elapsed_ms`; how many there were.
    pub(crate) fn ask(
        &mut self,
        engine: &Engine,
        model: &mut FakeModel,
        now_s: f64,
        elapsed_ms: f64,
    ) -> usize {
        self.ask_between(engine, model, now_s, elapsed_ms, |_| ())
    }

    /// As [`Self::ask`]; `disturb` is called before each answer.
    pub(crate) fn ask_between(
        &mut self,
        engine: &Engine,
        model: &mut FakeModel,
        now_s: f64,
        elapsed_ms: f64,
        disturb: impl Fn(&Engine),
    ) -> usize {
        self.begin();
        let mut num_levels = 0;
        while let Some(plan) = engine.draft_plan(now_s).unwrap() {
            num_levels += 1;
            assert_eq!(plan.level, num_levels);
            let answers = self.answer(&plan, model);
            disturb(engine);
            engine.draft_results(&answers.view(), elapsed_ms).unwrap();
        }
        num_levels
    }

    /// Begins a step.
    pub(crate) fn begin(&mut self) {
        self.paths.clear();
    }

    /// Answers the next level of a step.
    pub(crate) fn answer(&mut self, plan: &DraftPlan, model: &mut FakeModel) -> Answers {
        model.move_keys(&plan.kv_move_src, &plan.kv_move_dst);
        assert!(plan.num_rows() + plan.fill_token.len() > 0);
        assert_eq!(plan.row_index, self.paths.len());
        self.made_up += plan.fill_token.len() as u64;
        self.levels += u64::from(plan.num_rows() > 0);
        self.rows += plan.num_rows() as u64;
        let is_late = |&&request: &&i32| plan.request_first[request as usize] > 0;
        self.late_rows += plan.row_request.iter().filter(is_late).count() as u64;
        let mut answers = Answers {
            ids: Vec::new(),
            probabilities: Vec::new(),
            scored: Vec::new(),
        };
        for row in 0..plan.num_rows() {
            let path = self.path(plan, row, model);
            let scored = plan.scored_indptr[row] as usize..plan.scored_indptr[row + 1] as usize;
            self.answer_row(&path, &plan.scored_token[scored], &mut answers);
            self.paths.push(path);
        }
        answers
    }

    /// The text up to a row, from the cache and the rows before it.
    fn path(&self, plan: &DraftPlan, row: usize, model: &FakeModel) -> Vec<u32> {
        let request = plan.row_request[row] as usize;
        let pages = plan.page_indptr[request] as usize..plan.page_indptr[request + 1] as usize;
        let kv_len = plan.request_kv_len[request] as usize;
        let committed = model.committed(&plan.page_ids[pages], kv_len);
        let mut path = match plan.row_parent[row] {
            -1 => committed.clone(),
            parent => self.paths[parent as usize].clone(),
        };
        assert_eq!(path[..kv_len], committed, "a parent of another request");
        assert_eq!(plan.row_position[row] as usize, path.len());
        assert_eq!(path.len(), kv_len + plan.level - 1);
        path.push(plan.row_token[row] as u32);
        path
    }

    fn answer_row(&self, path: &[u32], named: &[i32], answers: &mut Answers) {
        let logits = logits(path);
        let total: f32 = logits.iter().map(|logit| logit.exp()).sum();
        let probability = |token: usize| logits[token].exp() / total;
        let mut order: Vec<usize> = (0..VOCABULARY).collect();
        order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
        match self.script {
            Script::Right => {
                let is_of = |one: &&Request| path.starts_with(&one.prompt_ids);
                let next = self.requests.iter().find(is_of);
                if let Some(next) = next.and_then(|one| drawn_after(one, None, path)) {
                    order.retain(|&token| token != next as usize);
                    order.insert(0, next as usize);
                }
                let best = &order[..TOP_K];
                answers.ids.extend(best.iter().map(|&id| id as i32));
                // Surer than the model is: it decodes greedily.
                answers.probabilities.push(0.98);
                let rest = (1..TOP_K).map(|rank| 0.01 / rank as f32);
                answers.probabilities.extend(rest);
                let logs = named.iter().map(|&token| probability(token as usize).ln());
                answers.scored.extend(logs);
            }
            Script::Wrong => {
                let worst = order.iter().rev().take(TOP_K);
                answers.ids.extend(worst.map(|&id| id as i32));
                answers.probabilities.push(0.3);
                answers.probabilities.extend([0.1; TOP_K - 1]);
                answers.scored.extend(named.iter().map(|_| -1.0));
            }
            Script::Random => {
                let mut seed = path
                    .iter()
                    .fold(self.rows, |hash, &token| splitmix(hash ^ u64::from(token)));
                let mut next = |below: u64| {
                    seed = splitmix(seed);
                    seed % below
                };
                for _ in 0..TOP_K {
                    answers.ids.push(next(VOCABULARY as u64 + 5) as i32 - 5);
                    let odd = [0.0, -1.0, f32::INFINITY, f32::NAN, 2.0, 1e-30];
                    answers.probabilities.push(match next(12) as usize {
                        index if index < odd.len() => odd[index],
                        _ => next(1000) as f32 / 1000.0,
                    });
                }
                let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3.0, -2.0, -0.1];
                let logs = named.iter().map(|_| odd[next(6) as usize]);
                answers.scored.extend(logs);
            }
            Script::Nan => {
                answers
                    .ids
                    .extend(order[..TOP_K].iter().map(|&id| id as i32));
                answers.probabilities.extend([f32::NAN; TOP_K]);
                answers.scored.extend(named.iter().map(|_| f32::NAN));
            }
        }
    }
}
