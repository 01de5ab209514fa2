//! An answer that goes on where its client was.

use super::events::{Running, Shape};
use super::form::Form;
use super::place::Place;
use super::sse::Encoder;
use crate::error::{ErrorKind, RequestError};
use crate::generation::{Caller, Resume, Resumed};
use crate::http::convert::{Endpoint, Names};
use crate::http::error::HttpError;
use crate::state::AppState;

impl Running {
    /// Goes on with the stream of one prompt behind the event with the id `last`; from its first on
    /// when absent. `id` is the request's, or an answer's.
    ///
    /// # Errors
    /// As [`Generation::resume`](crate::generation::Generation::resume).
    pub(crate) async fn resume(
        state: &AppState,
        id: &str,
        token: &str,
        last: Option<&str>,
        caller: &Caller,
    ) -> Result<(Self, Encoder), HttpError> {
        let prefixes = [Endpoint::Chat, Endpoint::Completions].map(Endpoint::prefix);
        let of_answer = prefixes.iter().find_map(|prefix| id.strip_prefix(prefix));
        let of_answer = of_answer.and_then(|id| id.strip_prefix('-'));
        let num_choices = last.map(|last| 1 + last.matches('.').count() as u32);
        let place = last.map(|last| Place::from_id(last, num_choices.unwrap_or(1)));
        let bad_id = || {
            let message = "last-event-id: allowed: an id of one of the stream's events";
            HttpError::invalid("last-event-id", message)
        };
        // The core names what the id was read as.
        let of_core = |error: RequestError| match error.field() {
            Some(_) => bad_id(),
            None => error.into(),
        };
        let place = place.map(|place| place.ok_or_else(bad_id)).transpose()?;
        let resume = Resume {
            request_id: id.to_owned(),
            or_request_id: of_answer.map(str::to_owned),
            token: token.to_owned(),
            starting_after: place.as_ref().map(Place::positions).unwrap_or_default(),
            repeats: true,
        };
        let resumed = state.generation.resume(&resume, caller).await;
        let Resumed {
            request_id,
            stream,
            form,
            num_choices,
        } = resumed.map_err(of_core)?;
        let other = || RequestError::new(ErrorKind::NotFound, "another version began this stream");
        let form = form
            .as_deref()
            .and_then(Form::from_text)
            .ok_or_else(other)?;
        let shape = Shape {
            endpoint: form.endpoint,
            choices_per_prompt: num_choices,
            num_choices,
            names: Names::default(),
        };
        let place = match (place, last) {
            (Some(_), Some(last)) => Place::from_id(last, num_choices).ok_or_else(bad_id)?,
            _ => Place::start(num_choices),
        };
        let mut running = Self::of_streams(vec![stream], shape, &request_id);
        running.begin(state).await?;
        let mut encoder = running.encoder(form.extras);
        encoder.go_on_from(place);
        Ok((running, encoder))
    }
}
