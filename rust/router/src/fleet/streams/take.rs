//! Takes streams over from routers that let them go, or live no more.

use std::collections::BTreeMap;
use std::time::Duration;

use spectrie_request::wire_name;

use super::commands::{Found, LEASE};
use super::sharing::Sharing;
use super::tend::place;
use crate::failover::{Record, ResumeToken};
use crate::fleet::entry::Unreadable;
use crate::fleet::handle::{Fleet, Link, Shared};
use crate::fleet::keys::{ModelKey, stream};
use crate::fleet::records::entry::{Entry, Names};
use crate::fleet::records::written::read;
use crate::sync::now;

/// How long Redis may take for one answer. A client that asks here has lost its stream: it waits for
/// nothing else.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same where this router has a record of its own.
const OWN_PATIENCE: Duration = Duration::from_millis(300);
/// Time between looks at a stream whose owner was asked to let it go, or may be dead.
const PAUSE: Duration = Duration::from_millis(25);
/// How long that may take.
const LEAVING: Duration = Duration::from_secs(5);
/// A stream that was taken longer ago than this may be another's again: the lease that began then may be over,
/// and what this router does not run yet is not among the streams that it asks for. Its client asks again.
const FRESH: Duration = Duration::from_millis(LEASE.as_millis() as u64 / 2);

/// A stream that is this router's now.
#[derive(Debug)]
pub(crate) struct TakenOver {
    /// None where what this router itself has is the newest.
    pub(crate) record: Option<Record>,
    pub(crate) sharing: Sharing,
}

/// What came of asking for a stream.
#[derive(Debug)]
pub(crate) enum Taking {
    /// The fleet knows of none.
    Nothing,
    /// The fleet cannot be asked.
    Unasked,
    /// Another router holds on to it.
    Held,
    /// It was this router's, which stood still since: it may be another's by now. Where the record that this
    /// router itself has was the newest, the owner that it is to be taken from again.
    Late(Option<String>),
    /// It cannot be read here: it is damaged, or of another version.
    Unreadable,
    Taken(Box<TakenOver>),
}

impl Fleet {
    /// Takes over a tenant's stream for whom showed its token. `own` is the record that this router itself
    /// has of it.
    pub(crate) async fn take(
        &self,
        tenant: Option<&str>,
        id: &str,
        token: &ResumeToken,
        own: Option<&Record>,
    ) -> Taking {
        let Some(shared) = &self.0 else {
            return Taking::Nothing;
        };
        let until = now() + LEAVING;
        let names = Names {
            key: stream(&wire_name(tenant, id)),
            tenant: tenant.map(str::to_owned),
            id: id.to_owned(),
        };
        if !matches!(*shared.link.borrow(), Link::Up(_)) {
            return Taking::Unasked;
        }
        let holder = own.and_then(|own| own.holder.as_deref());
        if let Some(holder) = holder {
            // A client that is cut once this has asked leaves what Redis has: that is to be the newest.
            shared.streams.said(holder, OWN_PATIENCE).await;
        }
        // From before it is asked for: whatever becomes of the answer, it is let go.
        let mut sharing = Sharing::new(shared, names, true);
        sharing.frees();
        let entry = sharing.entry().clone();
        entry.is_known_by(&token.hex_digest());
        let place = place(shared, &entry);
        let patience = if own.is_some() {
            OWN_PATIENCE
        } else {
            PATIENCE
        };
        loop {
            let Link::Up(mut wire) = shared.link.borrow().clone() else {
                return Taking::Unasked;
            };
            let begun = now();
            let asked = wire.take_stream(place, shared.streams.limit, holder);
            match tokio::time::timeout(patience, asked).await {
                Ok(Ok(Found::Taken(owner, fields))) => {
                    let owner = owner.strip_prefix('-').unwrap_or(&owner);
                    let is_own = holder == Some(owner);
                    if now().saturating_duration_since(begun) > FRESH {
                        return Taking::Late(is_own.then(|| entry.owner.clone()));
                    }
                    entry.note_taken();
                    return match own.filter(|_| is_own) {
                        Some(own) => shared.again(sharing, own),
                        None => shared.taken(sharing, &fields, token),
                    };
                }
                Ok(Ok(Found::Owned)) if now() < until => {}
                Ok(Ok(Found::Owned)) => return Taking::Held,
                Ok(Ok(Found::Nothing)) => return Taking::Nothing,
                Ok(Err(_)) | Err(_) => return Taking::Unasked,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Shared {
    /// What this router itself has is the newest.
    fn again(&self, sharing: Sharing, own: &Record) -> Taking {
        let model = ModelKey::new(&own.model_hash, &own.model_digest);
        let namespace = &own.request.namespace;
        let Some(generation) = self.with_generations(|all| all.open_of(&model, namespace)) else {
            return Taking::Nothing;
        };
        sharing.entry().is_of(namespace, generation);
        Taking::Taken(Box::new(TakenOver {
            record: None,
            sharing,
        }))
    }

    /// What the fields of a record that was taken give.
    fn taken(
        &self,
        mut sharing: Sharing,
        fields: &BTreeMap<String, Vec<u8>>,
        token: &ResumeToken,
    ) -> Taking {
        match self.read(sharing.entry(), fields, token) {
            Ok((mut record, generation)) => {
                record.may_be_behind();
                for choice in &mut record.choices {
                    choice.attempt = self.streams.behind_all(choice.attempt);
                }
                sharing.entry().is_of(&record.request.namespace, generation);
                self.metrics.fleet.taken_over();
                Taking::Taken(Box::new(TakenOver {
                    record: Some(record),
                    sharing,
                }))
            }
            Err(Unreadable::Damaged) => {
                // It is of no use to anyone.
                sharing.drops();
                self.metrics.fleet.refused("damaged");
                Taking::Unreadable
            }
            Err(Unreadable::Version) => {
                self.metrics.fleet.refused("version");
                Taking::Unreadable
            }
        }
    }

    fn read(
        &self,
        entry: &Entry,
        fields: &BTreeMap<String, Vec<u8>>,
        token: &ResumeToken,
    ) -> Result<(Record, u64), Unreadable> {
        let none = Vec::new();
        let head = fields.get("h").unwrap_or(&none);
        let numbered = (0..).map_while(|number: u64| fields.get(&format!("p{number}")));
        let written: Vec<&[u8]> = numbered.map(Vec::as_slice).collect();
        let (record, generation) = read(head, &written, token)?;
        let num_pieces = fields.keys().filter(|field| field.starts_with('p')).count();
        let is_named = record.tenant == entry.tenant && record.id() == entry.id;
        let model = ModelKey::new(&record.model_hash, &record.model_digest);
        let namespace = &record.request.namespace;
        let known = self.with_generations(|all| all.open_of(&model, namespace));
        let is_meant = known == Some(generation) && !self.is_private(namespace);
        if is_named && is_meant && num_pieces == written.len() {
            Ok((record, generation))
        } else {
            Err(Unreadable::Damaged)
        }
    }
}
