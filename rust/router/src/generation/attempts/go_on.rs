//! The call that goes on with a stream.

use std::sync::Arc;
use std::time::Duration;

use spectrie_proto::worker_v1::Hello;
use tokio_util::sync::CancellationToken;

use super::keeping::Keeping;
use super::replay::Mark;
use crate::access::Pass;
use crate::error::{ErrorKind, RequestError};
use crate::failover::{Record, ResumeToken};
use crate::generation::live::LiveId;
use crate::generation::reader::Bounds;
use crate::generation::refusal::{RETRY_DELAY, held};
use crate::generation::resolve::{Resolved, moment};
use crate::generation::run::{Parts, Run};
use crate::generation::{Caller, Generation, GenerationStream};
use crate::sync::{lock, now};
use crate::workers::{Mailbox, ServedModel};

/// Events behind the tokens of a choice: the end of its text, and its end.
const NUM_ENDS: usize = 2;
/// How often within their time records are looked at, and at least how long between that, in seconds.
const NUM_CHECKS: f64 = 16.0;
const MIN_CHECK_S: f64 = 1.0;

/// A stream to go on with.
#[derive(Debug)]
pub(crate) struct Resume {
    pub(crate) request_id: String,
    /// As the client shows it.
    pub(crate) token: String,
    /// Index of a choice, and the last position that the client has of it.
    pub(crate) starting_after: Vec<(u32, u32)>,
    /// Whether events come from the first on, none of them on both sides of where the client is;
    /// otherwise only those behind it do. Such a stream must have a form.
    pub(crate) repeats: bool,
}

/// A stream that goes on.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) stream: GenerationStream,
    /// What the API wrote down that it came through.
    pub(crate) form: Option<String>,
    /// Its choices.
    pub(crate) num_choices: u32,
}

impl Generation {
    /// Goes on with a stream that was cut, or takes it over from a connection that hangs.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] whatever is wrong with the id, the token or the tenant; a position
    /// that is not one of its choices; the key's limits; the router drains.
    pub(crate) fn resume(&self, resume: &Resume, caller: &Caller) -> Result<Resumed, RequestError> {
        self.go_on(resume, caller).inspect_err(|error| {
            self.shared.metrics.rejected(error);
        })
    }

    /// Drops records when their time is over, until `ended`: what is asked for drops them too, but
    /// nothing of a prompt is to stay where nothing is asked for.
    pub(crate) async fn expire_records(&self, ended: CancellationToken) {
        let window = self.shared.config.limits.resume_window_s;
        let every = Duration::from_secs_f64((window / NUM_CHECKS).max(MIN_CHECK_S));
        loop {
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                () = ended.cancelled() => return,
            }
            lock(&self.shared.records).expire(now());
        }
    }

    fn go_on(&self, resume: &Resume, caller: &Caller) -> Result<Resumed, RequestError> {
        caller.call.named(&resume.request_id);
        self.check_draining()?;
        let token = ResumeToken::from_text(&resume.token).ok_or_else(unknown)?;
        let record = self.claim_record(&resume.request_id, &token, caller)?;
        match self.check(&record, resume, caller) {
            Ok(checked) => self.run_again(record, checked, resume, caller),
            Err(error) => {
                // Its client may ask for something else, or later.
                lock(&self.shared.records).keep(record, now());
                Err(error.of_request(&resume.request_id))
            }
        }
    }

    /// Takes out the record of a stream, which leaves it now if it still runs.
    fn claim_record(
        &self,
        id: &str,
        token: &ResumeToken,
        caller: &Caller,
    ) -> Result<Record, RequestError> {
        let (shared, tenant) = (&self.shared, caller.tenant());
        if let Some(live) = shared.live.find(tenant, id)
            && live.is_resumed_by(token)
        {
            let message = "the stream goes on at another connection of its client";
            live.end(RequestError::new(ErrorKind::Cancelled, message));
        }
        let record = lock(&shared.records).take(tenant, id, token, now());
        record.ok_or_else(unknown)
    }

    /// Whether the stream may go on as it is asked for.
    fn check(
        &self,
        record: &Record,
        resume: &Resume,
        caller: &Caller,
    ) -> Result<Checked, RequestError> {
        let shared = &self.shared;
        if resume.repeats && record.form.is_none() {
            return Err(unknown());
        }
        let marks = marks(record, resume)?;
        caller.check_model(&record.model)?;
        let hello = Hello {
            model: record.model.clone(),
            model_hash: record.model_hash.clone(),
            ..Hello::default()
        };
        let model = shared.registry.known_model(&hello, &record.model_digest);
        let model = model.ok_or_else(|| {
            let message = format!("other weights are served as {:?} now", record.model);
            RequestError::new(ErrorKind::FailedPrecondition, message)
        })?;
        self.check_room(record)?;
        Ok(Checked {
            marks,
            model,
            live: shared.live.claim(caller.tenant(), &resume.request_id)?,
            pass: caller.go_on()?,
        })
    }

    fn run_again(
        &self,
        record: Record,
        checked: Checked,
        resume: &Resume,
        caller: &Caller,
    ) -> Result<Resumed, RequestError> {
        let shared = &self.shared;
        let Checked {
            marks,
            model,
            live,
            pass,
        } = checked;
        let asked = caller
            .deadline
            .map(|asked| self.deadline(Some(asked), now()));
        let deadline = asked.unwrap_or_else(|| moment(record.deadline_ms));
        let Record {
            token,
            request,
            created,
            form,
            choices,
            ..
        } = record;
        let num_choices = request.num_choices;
        live.is_of(&request.namespace, Some(token.clone()));
        let parts = Parts {
            resolved: Resolved::new(request, model, deadline),
            mailbox: Arc::new(Mailbox::new(num_choices as usize)),
            shared: shared.clone(),
            begun: now(),
            live,
            pass,
            keeping: Some(Keeping {
                token,
                is_known: true,
                created,
                form: form.clone(),
            }),
            tracked: shared.running.token(),
            call: caller.call.clone(),
        };
        let run = Run::returning(parts, choices, &marks, resume.repeats)?;
        let reading = Bounds {
            deadline,
            patience: Duration::from_secs_f64(shared.config.limits.client_stall_timeout_s),
            draining: shared.draining.clone(),
            call: caller.call.clone(),
        };
        tracing::info!(request = %resume.request_id, "a cut stream goes on");
        Ok(Resumed {
            stream: GenerationStream::new(run, reading),
            form,
            num_choices,
        })
    }

    /// Whether the tenant may have the record's choices in flight. It is refused for what it has
    /// itself, never for what others have.
    fn check_room(&self, record: &Record) -> Result<(), RequestError> {
        let (tenant, registry) = (record.request.share(), &self.shared.registry);
        let model = Some(record.model.as_str());
        let (Ok((_, workers)), Ok(limit)) = (registry.workers(model), registry.limit(model)) else {
            return Ok(());
        };
        let mut own = 0;
        for worker in workers {
            worker.with_held(|held| own += held.of(tenant));
        }
        let unfinished = record.choices.iter().filter(|choice| choice.end.is_none());
        if own == 0 || own + unfinished.count() <= limit {
            return Ok(());
        }
        let message = held(own, "completions are running or waiting", limit, limit);
        Err(RequestError::retry(
            ErrorKind::QueueFull,
            message,
            RETRY_DELAY,
        ))
    }
}

/// What a stream that may go on has.
#[derive(Debug)]
struct Checked {
    marks: Vec<Mark>,
    model: Arc<ServedModel>,
    live: LiveId,
    pass: Option<Pass>,
}

/// Where the client is, by choice.
///
/// # Errors
/// A choice or a position that the record does not have.
fn marks(record: &Record, resume: &Resume) -> Result<Vec<Mark>, RequestError> {
    let mark = Mark {
        position: 0,
        repeats: resume.repeats,
    };
    let mut marks = vec![mark; record.choices.len()];
    for &(index, position) in &resume.starting_after {
        let choice = record.choices.get(index as usize);
        let last = choice.map(|choice| choice.emitted.len() + NUM_ENDS);
        match (marks.get_mut(index as usize), last) {
            (Some(mark), Some(last)) if position as usize <= last => mark.position = position,
            (_, last) => {
                let message = match last {
                    Some(last) => {
                        format!("given {position} of choice {index}; allowed: 0 to {last}")
                    }
                    None => format!("given choice {index} of {}", record.choices.len()),
                };
                return Err(RequestError::invalid("starting_after", message));
            }
        }
    }
    Ok(marks)
}

/// What everyone hears who has not both the id and the token of a stream of its own.
fn unknown() -> RequestError {
    let message = "no stream of yours with this request_id and resume_token can be resumed: it was \
                   never begun, or it was cut longer ago than --resume-window allows, or its record \
                   made room for younger ones";
    RequestError::new(ErrorKind::NotFound, message)
}
