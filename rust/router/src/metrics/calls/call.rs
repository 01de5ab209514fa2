//! One call, as those hold it who serve it.

use std::sync::Arc;
use std::time::Instant;

use spectrie_proto::v1;
use spectrie_proto::worker_v1::RequestStats;

use super::context::TraceContext;
use super::noted::{Facts, Noted};
use super::recording::{AttemptEnd, AttemptName, Recording};
use super::table::Table;
use crate::error::{ErrorKind, shown};

/// A call that runs, or nothing where nobody asked. Cheap to clone; the call ends with its last
/// copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call(Option<Arc<Listed>>);

#[derive(Debug)]
struct Listed {
    number: u64,
    noted: Arc<Noted>,
    table: Arc<Table>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let report = self.noted.last_report();
        let spans = self.noted.spans(&report);
        self.table.end(self.number, report, spans);
    }
}

impl Call {
    /// A call that `table` lists until it ends.
    pub(super) fn begin(
        route: &'static str,
        client: Option<TraceContext>,
        table: &Arc<Table>,
    ) -> Self {
        let noted = Arc::new(Noted::new(route, client, table.records(client)));
        let number = table.add(noted.clone());
        Self(Some(Arc::new(Listed {
            number,
            noted,
            table: table.clone(),
        })))
    }

    fn note(&self, note: impl FnOnce(&mut Facts)) {
        if let Some(listed) = &self.0 {
            listed.noted.note(note);
        }
    }

    fn record<T>(&self, record: impl FnOnce(&mut Recording) -> T) -> Option<T> {
        self.0.as_ref()?.noted.record(record)
    }

    /// The client's name of the call, of its HTTP header.
    pub(crate) fn of_header(&self, x_request_id: &str) {
        self.note(|facts| facts.x_request_id = Some(shown(x_request_id)));
    }

    /// Its key is known.
    pub(crate) fn of_tenant(&self, tenant: Option<&str>) {
        self.note(|facts| facts.tenant = tenant.map(shown));
    }

    /// Its request has an id; the first one counts.
    pub(crate) fn named(&self, request_id: &str) {
        self.note(|facts| {
            facts.request_id.get_or_insert_with(|| shown(request_id));
        });
    }

    /// It asks for a model, served or not.
    pub(crate) fn asks_for(&self, model: &str) {
        self.note(|facts| facts.model = Some(shown(model)));
    }

    /// A served model computes it.
    pub(crate) fn is_of(&self, model: &str) {
        self.note(|facts| {
            facts.model = Some(shown(model));
            facts.is_served = true;
        });
    }

    /// A prompt of it was dispatched: `choices` answers of it are sent to `workers`.
    pub(crate) fn dispatched<'a>(
        &self,
        prompt_tokens: usize,
        workers: impl ExactSizeIterator<Item = &'a str>,
    ) {
        self.note(|facts| {
            facts.choices += workers.len() as u32;
            facts.prompt_tokens += prompt_tokens as u64;
            for worker in workers {
                facts.sent(worker, 1);
            }
        });
    }

    /// It goes on with a stream of so many choices, whose prompt was another call's.
    pub(crate) fn goes_on(&self, num_choices: u32) {
        self.note(|facts| facts.choices += num_choices);
    }

    /// An attempt of a choice, after its first, was sent to a worker.
    pub(crate) fn sent(&self, attempt: AttemptName<'_>, worker: &str) {
        self.note(|facts| facts.sent(worker, attempt.number + 1));
        self.with(attempt, worker);
    }

    /// A worker has an attempt of a choice.
    pub(crate) fn with(&self, attempt: AttemptName<'_>, worker: &str) {
        self.record(|recording| recording.sent(attempt, worker));
    }

    /// The `traceparent` of an attempt that is to be sent: its own span where the call is recorded, else
    /// the client's; none where it came with none.
    pub(crate) fn traceparent(&self, attempt: AttemptName<'_>) -> Option<String> {
        let own = self.record(|recording| recording.order(attempt));
        let client = || self.0.as_ref()?.noted.client();
        own.or_else(client).map(|context| context.to_string())
    }

    /// So many tokens of an attempt came at once.
    pub(crate) fn stepped(&self, attempt: AttemptName<'_>, num_tokens: u32, now: Instant) {
        self.record(|recording| recording.stepped(attempt, num_tokens, now));
    }

    /// An attempt left its worker before its choice had ended.
    pub(crate) fn left(&self, attempt: AttemptName<'_>, reason: &'static str) {
        self.record(|recording| recording.ended(attempt, AttemptEnd::Left(reason)));
    }

    /// An attempt ended with its choice; `stats` are of this attempt alone.
    pub(crate) fn done(&self, attempt: AttemptName<'_>, stats: impl FnOnce() -> RequestStats) {
        self.record(|recording| {
            let end = AttemptEnd::Finished(Box::new(stats()));
            recording.ended(attempt, end);
        });
    }

    /// So many tokens came.
    pub(crate) fn emitted(&self, num_tokens: u32, now: Instant) {
        if let Some(listed) = &self.0 {
            listed.noted.emitted(num_tokens, now);
        }
    }

    /// A choice ended well.
    pub(crate) fn finished(&self, finished: &v1::Finished, stats: &RequestStats) {
        self.note(|facts| facts.finished(finished, stats));
    }

    /// It failed, or was refused.
    pub(crate) fn failed(&self, kind: ErrorKind) {
        self.note(|facts| {
            facts.failure.get_or_insert(kind.reason());
        });
    }

    /// What its API answers. A stream may fail after it.
    pub(crate) fn answered(&self, status: &str) {
        self.note(|facts| facts.status = Some(status.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Calls, Report};
    use super::*;
    use crate::sync::now;

    fn ended(what: impl FnOnce(&Call)) -> Report {
        let calls = Calls::new(false, None);
        let call = calls.begin("Generate", None);
        what(&call);
        drop(call);
        calls.ended().remove(0)
    }

    #[test]
    fn choices_of_all_prompts_add_up() {
        let report = ended(|call| {
            for prompt in 0..2 {
                call.dispatched(5, ["w0", "w0"].into_iter());
                for index in 0..2 {
                    call.emitted(3, now());
                    let finished = v1::Finished {
                        index,
                        reason: if prompt == 0 {
                            v1::FinishReason::Length.into()
                        } else {
                            v1::FinishReason::Stop.into()
                        },
                        usage: Some(v1::Usage {
                            cached_tokens: 4,
                            ..Default::default()
                        }),
                        ..Default::default()
                    };
                    let stats = RequestStats {
                        queue_ns: 2_000_000,
                        accepted_by_source: vec![0, 0, 0, 1],
                        ..Default::default()
                    };
                    call.finished(&finished, &stats);
                }
            }
            let attempt = AttemptName {
                request_id: "a",
                index: 0,
                number: 1,
            };
            call.sent(attempt, "w1");
            call.answered("Ok");
        });
        assert_eq!((report.choices, report.prompt_tokens), (4, 10));
        assert_eq!((report.completion_tokens, report.cached_tokens), (12, 8));
        assert_eq!(report.outcome.as_deref(), Some("length,stop"));
        assert_eq!(report.accepted_by_source["request"], 4);
        assert_eq!(report.workers, ["w0", "w1"]);
        assert_eq!((report.attempts, report.queue_ms), (2, Some(2.0)));
        assert!(report.ttft_ms.is_some());
    }

    #[test]
    fn first_failure_counts_and_silence_is_a_client_that_left() {
        let report = ended(|call| {
            call.failed(ErrorKind::DeadlineExceeded);
            call.failed(ErrorKind::Cancelled);
        });
        assert_eq!(report.outcome.as_deref(), Some("DEADLINE_EXCEEDED"));
        assert_eq!(ended(|_| {}).outcome.as_deref(), Some("CANCELLED"));
        assert_eq!(ended(|call| call.answered("200")).outcome, None);
    }

    #[test]
    fn names_are_cut_and_on_one_line() {
        let name = format!("a\nb{}", "x".repeat(5000));
        let report = ended(|call| {
            call.named(&name);
            call.of_header(&name);
            call.asks_for(&name);
            call.of_tenant(Some(&name));
        });
        for shown in [
            report.request_id,
            report.x_request_id,
            report.model,
            report.tenant,
        ] {
            let shown = shown.unwrap();
            assert!(shown.len() < 300 && !shown.contains('\n'), "{shown}");
        }
    }
}
