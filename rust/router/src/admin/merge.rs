//! Makes one answer of what several workers said.

use std::collections::BTreeMap;

use spectrie_proto::worker_v1::admin_reply::Reply;
use spectrie_proto::{v1, worker_v1};
use spectrie_types::DropReason;
use tonic::Code;

use crate::error::{ErrorKind, RequestError};
use crate::workers::{Answer, Failure};

/// What some workers did, and why the others did not.
#[derive(Debug)]
pub(super) struct Merged<T> {
    /// By worker id; never empty.
    pub(super) done: Vec<(String, T)>,
    pub(super) failures: Vec<v1::WorkerFailure>,
}

impl<T> Merged<T> {
    /// Workers that did it.
    pub(super) fn num_done(&self) -> u32 {
        self.done.len() as u32
    }
}

/// Sorts answers into those of the expected form and failures.
///
/// Where a worker did what was asked, `settled` from another is no failure: that one was there
/// already.
///
/// # Errors
/// No worker did it: the failure they share, or all of them with their workers' names.
pub(super) fn merge<T>(
    answers: Vec<Answer>,
    expected: impl Fn(Reply) -> Option<T>,
    settled: Option<Code>,
) -> Result<Merged<T>, RequestError> {
    let mut done = Vec::new();
    let mut failures = Vec::new();
    for Answer { worker, result } in answers {
        match result.map(&expected) {
            Ok(Some(value)) => done.push((worker, value)),
            Ok(None) => {
                let message = "the worker answered another call".to_owned();
                let code = Code::Internal;
                failures.push((worker, Failure { code, message }));
            }
            Err(failure) => failures.push((worker, failure)),
        }
    }
    if done.is_empty() {
        return Err(all_failed(&failures));
    }
    failures.retain(|(_, failure)| Some(failure.code) != settled);
    let failures = failures.into_iter();
    let failures = failures.map(|(worker, failure)| v1::WorkerFailure {
        worker,
        code: failure.code as u32,
        message: failure.message,
    });
    Ok(Merged {
        done,
        failures: failures.collect(),
    })
}

/// The error of a call that no worker did.
fn all_failed(failures: &[(String, Failure)]) -> RequestError {
    let Some(((_, first), others)) = failures.split_first() else {
        return RequestError::new(ErrorKind::Unavailable, "no worker is ready");
    };
    let is_shared = others.iter().all(|(_, other)| other.code == first.code);
    let kind = if is_shared {
        kind_of(first.code)
    } else {
        ErrorKind::FailedPrecondition
    };
    if others
        .iter()
        .all(|(_, other)| other.message == first.message)
    {
        return RequestError::new(kind, first.message.clone());
    }
    let named = failures
        .iter()
        .map(|(worker, failure)| format!("{worker}: {}", failure.message));
    RequestError::new(kind, named.collect::<Vec<_>>().join("; "))
}

fn kind_of(code: Code) -> ErrorKind {
    match code {
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists => ErrorKind::AlreadyExists,
        Code::InvalidArgument => ErrorKind::InvalidField,
        Code::FailedPrecondition => ErrorKind::FailedPrecondition,
        Code::DeadlineExceeded => ErrorKind::DeadlineExceeded,
        Code::Unavailable => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    }
}

/// Whether a worker did something that has no result.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the form of `merge`'s argument"
)]
pub(super) fn is_done(reply: Reply) -> Option<()> {
    matches!(reply, Reply::Done(_)).then_some(())
}

/// Corpora of all workers, by name; what grows while serving is summed.
pub(super) fn corpora(
    lists: impl IntoIterator<Item = Vec<worker_v1::CorpusInfo>>,
) -> Vec<v1::Corpus> {
    let mut merged: BTreeMap<String, v1::Corpus> = BTreeMap::new();
    for info in lists.into_iter().flatten() {
        match merged.get_mut(&info.name) {
            Some(known) => {
                known.accepted_tokens += info.accepted_tokens;
                known.workers += 1;
                known.lost_blocks = known.lost_blocks.max(info.lost_blocks);
                known.first_loss = known.first_loss.take().or(info.first_loss);
            }
            None => {
                merged.insert(info.name.clone(), corpus(info));
            }
        }
    }
    merged.into_values().collect()
}

fn corpus(info: worker_v1::CorpusInfo) -> v1::Corpus {
    v1::Corpus {
        name: info.name,
        num_tokens: info.num_tokens,
        num_documents: info.num_documents,
        bytes: info.bytes,
        readers: info.readers.map(|readers| v1::Namespaces {
            names: readers.namespaces,
        }),
        accepted_tokens: info.accepted_tokens,
        workers: 1,
        lost_blocks: info.lost_blocks,
        first_loss: info.first_loss,
    }
}

/// Namespaces of all workers, by name, summed.
pub(super) fn namespaces(
    lists: impl IntoIterator<Item = Vec<worker_v1::NamespaceInfo>>,
) -> Vec<v1::NamespaceInfo> {
    let mut merged: BTreeMap<String, v1::NamespaceInfo> = BTreeMap::new();
    for info in lists.into_iter().flatten() {
        let sum = merged.entry(info.name.clone()).or_default();
        sum.name = info.name;
        sum.num_tokens += info.num_tokens;
        sum.bytes += info.bytes;
        sum.accepted_tokens += info.accepted_tokens;
        sum.workers += 1;
    }
    merged.into_values().collect()
}

/// Totals of one worker.
pub(super) fn stats(worker: String, process_id: i64, load: &worker_v1::Load) -> v1::WorkerStats {
    let by_source = (0..).zip(&load.accepted_by_source);
    let accepted_by_source =
        by_source
            .filter(|(_, tokens)| **tokens > 0)
            .map(|(source, tokens)| v1::SourceTotal {
                source,
                tokens: *tokens,
            });
    let bins = load.calibration.iter().map(|bin| v1::CalibrationBin {
        trials: bin.trials,
        expected: bin.expected,
        accepted: bin.accepted,
    });
    let dropped = DropReason::ALL.into_iter().zip(&load.dropped_tokens);
    let dropped_by_reason = dropped
        .filter(|(_, tokens)| **tokens > 0)
        .map(|(reason, tokens)| v1::DroppedTotal {
            reason: reason.name().into(),
            tokens: *tokens,
        });
    v1::WorkerStats {
        worker,
        process_id,
        running: load.running,
        waiting: load.waiting,
        steps: load.steps,
        generated_tokens: load.generated_tokens,
        drafted_tokens: load.drafted_tokens,
        accepted_tokens: load.accepted_tokens,
        expected_accepted_tokens: load.expected_accepted,
        accepted_by_source: accepted_by_source.collect(),
        calibration: bins.collect(),
        net_gain: load.net_gain,
        net_gain_low: load.net_gain_low,
        net_gain_high: load.net_gain_high,
        holdout_steps: load.holdout_steps,
        draft_seconds: load.draft_seconds,
        learn_seconds: load.learn_seconds,
        memory_bytes: load.memory_bytes,
        memory_tokens: load.memory_tokens,
        evicted_tokens: load.evicted_tokens,
        corpus_bytes: load.corpus_bytes,
        recycling: load.recycling,
        dropped_by_reason: dropped_by_reason.collect(),
        lost_corpus_blocks: load.lost_corpus_blocks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(worker: &str, code: Code, message: &str) -> Answer {
        let failure = Failure {
            code,
            message: message.into(),
        };
        Answer {
            worker: worker.into(),
            result: Err(failure),
        }
    }

    fn done(worker: &str) -> Answer {
        Answer {
            worker: worker.into(),
            result: Ok(Reply::Done(worker_v1::Done {})),
        }
    }

    #[test]
    fn worker_that_failed_is_named_beside_those_that_did_it() {
        let answers = vec![
            done("w1"),
            failed("w2", Code::Unavailable, "the worker was lost"),
            failed("w3", Code::NotFound, "not there"),
        ];
        let merged = merge(answers, is_done, Some(Code::NotFound)).unwrap();
        assert_eq!(merged.num_done(), 1);
        let [failure] = &merged.failures[..] else {
            panic!("{:?}", merged.failures)
        };
        assert_eq!(
            (failure.worker.as_str(), failure.code),
            ("w2", Code::Unavailable as u32)
        );
    }

    #[test]
    fn failure_of_all_is_an_error_that_names_workers_only_where_they_differ() {
        let same = vec![
            failed("w1", Code::NotFound, "no corpus x"),
            failed("w2", Code::NotFound, "no corpus x"),
        ];
        let error = merge(same, is_done, Some(Code::NotFound)).unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ErrorKind::NotFound, "no corpus x")
        );
        let different = vec![
            failed("w1", Code::NotFound, "a"),
            failed("w2", Code::DeadlineExceeded, "b"),
        ];
        let error = merge(different, is_done, None).unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ErrorKind::FailedPrecondition, "w1: a; w2: b")
        );
    }

    #[test]
    fn counts_that_grow_are_summed_and_sizes_are_not() {
        let info = |accepted_tokens| worker_v1::CorpusInfo {
            name: "code".into(),
            num_tokens: 10,
            bytes: 100,
            accepted_tokens,
            lost_blocks: accepted_tokens - 1,
            first_loss: (accepted_tokens > 1).then(|| "bytes 160 to 300: damaged".into()),
            ..Default::default()
        };
        let merged = corpora([vec![info(1)], vec![], vec![info(4)], vec![info(2)]]);
        let [corpus] = &merged[..] else {
            panic!("{merged:?}")
        };
        assert_eq!((corpus.num_tokens, corpus.bytes), (10, 100));
        assert_eq!((corpus.accepted_tokens, corpus.workers), (7, 3));
        assert_eq!(corpus.lost_blocks, 3, "the workers read one file");
        assert_eq!(
            corpus.first_loss.as_deref(),
            Some("bytes 160 to 300: damaged")
        );
    }

    #[test]
    fn dropped_tokens_are_named_by_reason_and_reasons_without_any_left_out() {
        let load = worker_v1::Load {
            dropped_tokens: vec![7, 0, 0, 0, 3],
            lost_corpus_blocks: 2,
            ..Default::default()
        };
        let stats = stats("w1".into(), 1, &load);
        let dropped: Vec<_> = stats
            .dropped_by_reason
            .iter()
            .map(|total| (total.reason.as_str(), total.tokens))
            .collect();
        assert_eq!(dropped, [("share", 7), ("no_room", 3)]);
        assert_eq!(stats.lost_corpus_blocks, 2);
    }
}
