//! What happens to the workers of a world.

use spectrie_proto::worker_v1::{FinishKind, Learned, RequestOutput, Start};

use super::model::{answer, served};
use super::network::ending;
use super::world::{Broken, World};

impl World {
    /// Takes what was sent to a worker, which may refuse it.
    pub(super) fn hear(&mut self, site: usize, place: usize) -> Result<(), String> {
        while let Some(mut start) = self.sites[site].workers[place].hear() {
            self.note(site, &start)?;
            let worker = &mut self.sites[site].workers[place];
            let refuses = worker.is_draining || (!worker.is_stalled && self.dice.chance(5));
            let Some(history) = self.choices.get_mut(&start.request_id) else {
                return Err(format!("unknown choice {}", start.request_id));
            };
            let has_tokens = !start.emitted_token_ids.is_empty();
            // A request without tokens may be refused by all; the world never goes so far.
            if refuses && (has_tokens || !std::mem::replace(&mut history.was_refused, true)) {
                self.report.refusals += usize::from(has_tokens);
                worker
                    .wire
                    .push_back(ending(&start, FinishKind::FinishRefused));
                continue;
            }
            if self.broken == Some(Broken::ForgetsEmitted) {
                start.emitted_token_ids.clear();
            }
            worker.begin(start);
        }
        Ok(())
    }

    /// Checks what the router says of a choice.
    fn note(&mut self, site: usize, start: &Start) -> Result<(), String> {
        tracing::debug!(choice = %start.request_id, attempt = start.attempt,
            tokens = start.emitted_token_ids.len(), "heard");
        let (name, emitted) = (&start.request_id, &start.emitted_token_ids);
        let Some(history) = self.choices.get_mut(name) else {
            return Err(format!("unknown choice {name}"));
        };
        let whole = answer(history.seed, history.max_tokens);
        if !whole.starts_with(emitted) || emitted.len() >= whole.len() {
            return Err(format!("{name} goes on from {emitted:?} of {whole:?}"));
        }
        // A worker may hear late of an attempt that was cancelled when its client was cut.
        let is_late = |attempt: u32| history.was_cut && attempt > start.attempt;
        let last = self.sites[site].attempts.get(name).copied();
        match last {
            Some(attempt) if is_late(attempt) => return Ok(()),
            Some(attempt) if attempt >= start.attempt => {
                return Err(format!("{name} is sent as attempt {} again", start.attempt));
            }
            _ => {}
        }
        self.sites[site]
            .attempts
            .insert(name.clone(), start.attempt);
        if history.was_faulted {
            history.tokens_after_fault.get_or_insert(emitted.len());
        }
        self.report.resumed += usize::from(!emitted.is_empty());
        Ok(())
    }

    /// A late refusal, a failure or nonsense for one choice.
    pub(super) fn trouble(&mut self, site: usize, place: usize) {
        let moves = self.sites.len() > 1;
        let worker = &mut self.sites[site].workers[place];
        let count = worker.running.len();
        if count == 0 {
            return;
        }
        let chosen = worker.running.iter().nth(self.dice.below(count));
        let Some((name, choice)) = chosen else {
            return;
        };
        let (name, num_emitted) = (name.clone(), choice.num_emitted);
        let num_begun = choice.start.emitted_token_ids.len();
        if self.dice.chance(40) {
            if num_begun > 0 {
                self.report.refusals += 1;
                let kinds = [FinishKind::FinishRefused, FinishKind::FinishCancelled];
                worker.end(&name, kinds[self.dice.below(2)]);
            }
            return;
        }
        let Some(history) = self.choices.get_mut(&name) else {
            return;
        };
        // A second fault without a token between ends a request: the world does not go so far.
        let progressed = history
            .tokens_after_fault
            .is_some_and(|count| num_begun > count);
        // Nor where another router goes on from before that token.
        if history.was_faulted && (!progressed || moves) {
            return;
        }
        history.was_faulted = true;
        history.tokens_after_fault = None;
        self.report.faults += usize::from(num_emitted > 0);
        if self.dice.chance(50) {
            worker.end(&name, FinishKind::FinishFailed);
        } else {
            worker.babble(&name);
        }
    }

    /// One step of a worker; `false` if it died of it, or stalls.
    pub(super) fn step(&mut self, site: usize, place: usize) -> bool {
        if self.sites[site].workers[place].is_stalled {
            return false;
        }
        if self.is_deadly(site, place) {
            self.lose(site, place);
            return false;
        }
        self.sites[site].workers[place].step(&mut self.dice);
        true
    }

    /// Whether a worker may die of its next step.
    pub(super) fn is_deadly(&self, site: usize, place: usize) -> bool {
        let mut running = self.sites[site].workers[place].running.iter();
        running.any(|(name, choice)| {
            let poison = self.choices.get(name).and_then(|history| history.poison_at);
            poison.is_some_and(|place| choice.reaches(place))
        })
    }

    pub(super) fn lose(&mut self, site: usize, place: usize) {
        let site = &mut self.sites[site];
        let worker = site.workers.swap_remove(place);
        tracing::debug!(worker = %worker.worker.id, running = ?worker.running, "lost");
        site.registry.leave(&worker.worker);
        worker.worker.lose(tonic::Status::unavailable("lost"));
        site.gone.push(worker);
    }

    /// Lets up to `count` outputs of a worker arrive.
    pub(super) fn arrive(&mut self, site: usize, place: usize, count: usize) {
        let worker = &mut self.sites[site].workers[place];
        let count = count.min(worker.wire.len());
        let outputs: Vec<_> = worker.wire.drain(..count).collect();
        let worker = worker.worker.clone();
        for output in &outputs {
            if self.is_late(site, output) {
                self.report.late += 1;
                self.take_late(site, output);
            }
        }
        let ended = self.learned(&outputs);
        let site = &self.sites[site];
        site.registry.deliver(&worker, outputs);
        for learned in ended {
            let key = served().fleet_key();
            site.registry.learned(&worker, &key, &site.fleet, learned);
        }
    }

    /// What a worker says that it learned, behind the ends of its answers.
    fn learned(&self, outputs: &[RequestOutput]) -> Vec<Learned> {
        let ended = outputs
            .iter()
            .filter(|output| output.finish == FinishKind::FinishLength as i32);
        let ended = ended.filter_map(|output| {
            let history = self.choices.get(&output.request_id)?;
            Some(Learned {
                namespace: "default".into(),
                token_ids: answer(history.seed, history.max_tokens),
                request_id: output.request_id.clone(),
                attempt: Some(output.attempt),
            })
        });
        ended.collect()
    }

    /// Lets an output of a lost worker arrive.
    pub(super) fn arrive_late(&mut self, site: usize) {
        let gone = &mut self.sites[site].gone;
        if gone.is_empty() {
            return;
        }
        let place = self.dice.below(gone.len());
        match gone[place].wire.pop_front() {
            Some(output) => {
                self.report.late += usize::from(!output.token_ids.is_empty());
                let worker = gone[place].worker.clone();
                self.take_late(site, &output);
                self.sites[site].registry.deliver(&worker, vec![output]);
            }
            None => drop(gone.swap_remove(place)),
        }
    }

    fn is_late(&self, site: usize, output: &RequestOutput) -> bool {
        let attempt = self.sites[site].attempts.get(&output.request_id);
        attempt.is_some_and(|attempt| output.attempt < *attempt)
    }

    /// What a router does that does not look at attempts.
    fn take_late(&self, site: usize, output: &RequestOutput) {
        if self.broken != Some(Broken::TakesLateTokens) {
            return;
        }
        let site = &self.sites[site];
        let Some(attempt) = site.attempts.get(&output.request_id) else {
            return;
        };
        for worker in &site.workers {
            let output = RequestOutput {
                attempt: *attempt,
                ..output.clone()
            };
            site.registry.deliver(&worker.worker, vec![output]);
        }
    }
}
