//! The call that goes on with a stream.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::claimed::Claimed;
use super::keeping::Keeping;
use super::mark::Mark;
use crate::access::Pass;
use crate::error::{ErrorKind, RequestError};
use crate::failover::Outline;
use crate::failover::{Record, ResumeToken};
use crate::fleet::Sharing;
use crate::generation::live::LiveId;
use crate::generation::reader::Bounds;
use crate::generation::refusal::{RETRY_DELAY, held};
use crate::generation::resolve::{Resolved, moment, past_moment};
use crate::generation::run::{Parts, Run};
use crate::generation::{Caller, Generation, GenerationStream};
use crate::sync::{lock, now};
use crate::workers::{Mailbox, ServedModel};

/// How often a stream goes on as a part of the request that began it. Each further time counts as a
/// request of its own, and what its worker computes again as tokens.
const NUM_FREE_RESUMES: u32 = 4;
/// How often within their time records are looked at, and at least how long between that, in seconds.
const NUM_CHECKS: f64 = 16.0;
const MIN_CHECK_S: f64 = 1.0;

/// A stream to go on with.
#[derive(Debug)]
pub(crate) struct Resume {
    pub(crate) request_id: String,
    /// What it is named if there is none of that name.
    pub(crate) or_request_id: Option<String>,
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
    /// The request's name.
    pub(crate) request_id: String,
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
    pub(crate) async fn resume(
        &self,
        resume: &Resume,
        caller: &Caller,
    ) -> Result<Resumed, RequestError> {
        let resumed = self.go_on(resume, caller).await;
        resumed.inspect_err(|error| {
            caller.call.failed(error.kind);
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

    async fn go_on(&self, resume: &Resume, caller: &Caller) -> Result<Resumed, RequestError> {
        caller.call.named(&resume.request_id);
        self.check_draining()?;
        let token = ResumeToken::from_text(&resume.token).ok_or_else(unknown)?;
        let claimed = self.claim(&resume.request_id, &token, resume, caller).await;
        let other = resume.or_request_id.as_deref();
        let claimed = match (claimed, other) {
            (Err(error), Some(other)) if error.kind == ErrorKind::NotFound => {
                self.claim(other, &token, resume, caller).await?
            }
            (claimed, _) => claimed?,
        };
        let record = claimed.record().ok_or_else(unknown)?;
        let admitted = self
            .admit(record, resume, caller)
            .and_then(|admitted| {
                self.check_numerics(&claimed, record, &admitted.marks)?;
                Ok(admitted)
            })
            .map_err(|error| error.of_request(record.id()))?;
        let (record, live, sharing) = claimed.into_parts().ok_or_else(unknown)?;
        self.run_again((record, live, sharing), admitted, resume, caller)
    }

    /// Lets the stream of a record go on as it is asked for.
    fn admit(
        &self,
        record: &Record,
        resume: &Resume,
        caller: &Caller,
    ) -> Result<Admitted, RequestError> {
        let outline = Outline::from(record);
        let (marks, model) = self.check(&outline, resume, caller)?;
        if !record.has_ended() {
            self.check_convicts(&record.model, &record.request)?;
        }
        self.check_room(&outline, 0)?;
        if record.num_resumes < NUM_FREE_RESUMES {
            let pass = caller.go_on()?;
            return Ok(Admitted { marks, model, pass });
        }
        let pass = caller.begin()?;
        if let Some(pass) = &pass
            && !record.has_ended()
        {
            let unfinished = record.choices.iter().filter(|choice| choice.end.is_none());
            let emitted = unfinished.map(|choice| choice.emitted.len()).sum::<usize>();
            pass.charge(record.request.prompt_ids.len() + emitted);
        }
        Ok(Admitted { marks, model, pass })
    }

    /// Refuses a stream of another router whose tokens would be others here.
    fn check_numerics(
        &self,
        claimed: &Claimed,
        record: &Record,
        marks: &[Mark],
    ) -> Result<(), RequestError> {
        if !claimed.is_taken_over() || record.has_ended() {
            return Ok(());
        }
        let choices = record.choices.iter().zip(marks);
        let begun =
            choices.filter(|(choice, mark)| !choice.emitted.is_empty() || mark.position > 0);
        let mut prints = begun.filter_map(|(choice, _)| choice.fingerprint.as_deref());
        let registry = &self.shared.registry;
        let Some(other) = prints.find(|print| !registry.may_compute(&record.model, print)) else {
            return Ok(());
        };
        self.shared.metrics.fleet.refused("fingerprint");
        let message = format!(
            "the stream's tokens were computed under {other:?}, and no worker of this router computes \
             so: its tokens would differ"
        );
        Err(RequestError::new(ErrorKind::FailedPrecondition, message))
    }

    fn run_again(
        &self,
        (record, live, sharing): (Record, LiveId, Option<Sharing>),
        admitted: Admitted,
        resume: &Resume,
        caller: &Caller,
    ) -> Result<Resumed, RequestError> {
        let shared = &self.shared;
        let Admitted { marks, model, pass } = admitted;
        let deadline = if record.has_ended() {
            self.deadline(caller.deadline, now())
        } else {
            moment(record.deadline_ms)
        };
        // That of the call ends the call: its client may come back with more time.
        let patient_until = caller
            .deadline
            .map_or(deadline, |asked| asked.min(deadline));
        let Record {
            token,
            request,
            created,
            begun_ms,
            num_resumes,
            form,
            choices,
            ..
        } = record;
        let num_choices = request.num_choices;
        caller.call.goes_on(num_choices);
        let request_id = request.request_id.clone();
        let parts = Parts {
            resolved: Resolved::new(request, model, deadline),
            mailbox: Arc::new(Mailbox::new(num_choices as usize)),
            shared: shared.clone(),
            begun: past_moment(begun_ms),
            live,
            pass,
            keeping: Some(Keeping {
                token,
                is_known: true,
                created,
                num_resumes: num_resumes.saturating_add(1),
                form: form.clone(),
                part: shared.held.part(),
            }),
            sharing,
            tracked: shared.running.token(),
            call: caller.call.clone(),
        };
        let run = Run::returning(parts, choices, &marks, resume.repeats)?;
        let reading = Bounds {
            deadline: patient_until,
            patience: Duration::from_secs_f64(shared.config.limits.client_stall_timeout_s),
            draining: shared.draining.clone(),
            call: caller.call.clone(),
        };
        tracing::info!(request = %request_id, "a cut stream goes on");
        Ok(Resumed {
            request_id,
            stream: GenerationStream::new(run, reading),
            form,
            num_choices,
        })
    }

    /// Whether the tenant may have a stream's choices in flight beside its own and those of others,
    /// as [`Holdings`](spectrie_types::Holdings) rules; those that wait for a worker count too, but for
    /// the stream's own `running` ones.
    pub(super) fn check_room(&self, outline: &Outline, running: usize) -> Result<(), RequestError> {
        let unfinished = outline.num_unfinished();
        let room = self.shared.registry.room(&outline.model, &outline.share);
        // To repeat what has ended takes no room.
        let Some(room) = room.filter(|_| unfinished > 0) else {
            return Ok(());
        };
        // Where no worker is, as many may wait for one as may of those that begin.
        let limit = match room.places {
            0 => self.shared.config.limits.max_waiting,
            _ => room.limit,
        };
        let mut standing = room.standing;
        standing.own = standing.own.saturating_sub(running);
        standing.total = standing.total.saturating_sub(running);
        if standing.excess(unfinished, limit, room.places) == 0 {
            return Ok(());
        }
        let share = standing.share(limit).min(limit);
        let message = held(
            standing.own,
            "completions are running or waiting",
            share,
            limit,
        );
        Err(RequestError::retry(
            ErrorKind::QueueFull,
            message,
            RETRY_DELAY,
        ))
    }
}

/// What a stream that may go on has.
#[derive(Debug)]
struct Admitted {
    marks: Vec<Mark>,
    model: Arc<ServedModel>,
    pass: Option<Pass>,
}

/// What everyone hears who has not both the id and the token of a stream of its own.
pub(super) fn unknown() -> RequestError {
    let message = "no stream of yours with this request_id and resume_token can be resumed: it was \
                   never begun, or it was cut longer ago than --resume-window allows, or its record \
                   made room for younger ones";
    RequestError::new(ErrorKind::NotFound, message)
}
