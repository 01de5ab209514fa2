//! Bytes that requests hold while they wait, bounded over all and by each tenant.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use spectrie_types::{Holdings, Standing};

use crate::error::{ErrorKind, RequestError};
use crate::sync::lock;

/// What is small, in bytes: a short prompt. A tenant may hold as much however many others hold something.
const SMALL_BYTES: usize = 16 << 10;
/// Part of the bound that is left to what is small.
const SMALL_PART: usize = 8;
/// How long a caller is asked to wait when there is no room.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How many bytes are held, and how many may be. Cheap to clone.
///
/// What is free is anyone's. Where that is not enough a tenant has its share, an equal part of half of
/// the bound among the tenants that hold something, whatever the others took before. So one tenant may
/// fill the bound, and `k` hold at most the bound and `1/2 + 1/3 + … + 1/k` of its half.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    held: Arc<Mutex<Holdings>>,
    limit: usize,
}

impl Room {
    /// Nothing held yet, at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            held: Arc::default(),
            limit,
        }
    }

    /// Holds `num_bytes` of a tenant until what this gives is dropped; `what` names them in the error.
    /// Where no keys are set, all are one tenant.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`] when they are more than what is free, and more than the tenant's share.
    pub(crate) fn hold(
        &self,
        tenant: Option<&str>,
        num_bytes: usize,
        what: &str,
    ) -> Result<RoomShare, RequestError> {
        let tenant = tenant.unwrap_or_default();
        let mut held = lock(&self.held);
        let standing = held.standing(tenant);
        let share = self.share(standing);
        let fits = standing.own.saturating_add(num_bytes) <= share;
        if !fits && !self.has_free(standing.total, num_bytes) {
            let limit = self.limit;
            let (own, total) = (standing.own, standing.total);
            let message = format!(
                "{what} hold {total} bytes, yours {own}, and this one has {num_bytes}; allowed: up to {limit} in \
                 all, and up to {share} of yours where the others leave less. Send fewer or shorter ones at once, \
                 or again in {} s",
                RETRY_DELAY.as_secs()
            );
            return Err(RequestError::retry(
                ErrorKind::QueueFull,
                message,
                RETRY_DELAY,
            ));
        }
        Ok(RoomShare {
            room: self.clone(),
            tenant: held.add(tenant, num_bytes),
            num_bytes,
        })
    }

    /// What a tenant may hold whatever the others do.
    fn share(&self, standing: Standing) -> usize {
        standing.share(self.limit / 2).max(SMALL_BYTES)
    }

    /// Whether as much is free. One piece of any size has room where nothing is held.
    fn has_free(&self, total: usize, num_bytes: usize) -> bool {
        let left = if num_bytes <= SMALL_BYTES {
            0
        } else {
            self.limit / SMALL_PART
        };
        total == 0 || total.saturating_add(num_bytes) <= self.limit - left
    }

    /// What all hold together.
    #[cfg(test)]
    pub(crate) fn total(&self) -> usize {
        lock(&self.held).total()
    }
}

/// What is held, given back when dropped.
#[derive(Debug)]
pub(crate) struct RoomShare {
    room: Room,
    tenant: Arc<str>,
    num_bytes: usize,
}

impl Drop for RoomShare {
    fn drop(&mut self) {
        lock(&self.room.held).take(&self.tenant, self.num_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// As many pieces as a tenant may hold.
    fn fill(room: &Room, tenant: Option<&str>, num_bytes: usize) -> Vec<RoomShare> {
        std::iter::from_fn(|| room.hold(tenant, num_bytes, "texts").ok()).collect()
    }

    #[test]
    fn tenant_that_fills_the_room_keeps_no_other_out() {
        let room = Room::new(64 * MIB);
        let mut of_ann = fill(&room, Some("ann"), MIB);
        assert_eq!(of_ann.len(), 56);
        let of_bob = fill(&room, Some("bob"), MIB);
        assert_eq!(of_bob.len(), 16);
        let of_cat = fill(&room, Some("cat"), MIB);
        assert_eq!(of_cat.len(), 10);
        // Above its share it gets nothing for what it gives back.
        of_ann.truncate(26);
        assert!(room.hold(Some("ann"), 5 * MIB, "texts").is_err());
        drop((of_ann, of_bob, of_cat));
        assert_eq!(room.total(), 0);
    }

    #[test]
    fn what_is_small_has_room_beside_what_is_large_where_no_keys_are_set() {
        let room = Room::new(64 * MIB);
        let large = fill(&room, None, 4 * MIB);
        assert_eq!(large.len(), 14);
        let small = fill(&room, None, SMALL_BYTES);
        assert_eq!(small.len(), 512);
        assert!(room.hold(None, 1, "texts").is_err());
    }

    #[test]
    fn any_number_of_tenants_has_room_for_what_is_small() {
        let room = Room::new(MIB);
        let _large = fill(&room, Some("ann"), SMALL_BYTES + 1);
        let names: Vec<_> = (0..200).map(|name| name.to_string()).collect();
        let hold = |name: &String| room.hold(Some(name), SMALL_BYTES, "texts");
        let held: Result<Vec<_>, _> = names.iter().map(hold).collect();
        assert!(held.is_ok());
        assert!(room.hold(Some("0"), 1, "texts").is_err());
    }

    #[test]
    fn one_piece_of_any_size_has_room_alone() {
        let room = Room::new(MIB);
        let held = room.hold(Some("ann"), 4 * MIB, "texts").unwrap();
        let error = room.hold(Some("bob"), MIB, "texts").unwrap_err();
        assert_eq!(error.kind, ErrorKind::QueueFull);
        assert_eq!(error.retry_after, Some(RETRY_DELAY));
        assert_eq!(
            error.message,
            "texts hold 4194304 bytes, yours 0, and this one has 1048576; allowed: up to 1048576 in all, and up to \
             262144 of yours where the others leave less. Send fewer or shorter ones at once, or again in 1 s"
        );
        drop(held);
        assert!(room.hold(Some("bob"), MIB, "texts").is_ok());
    }
}
