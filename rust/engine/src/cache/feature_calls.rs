//! What the cache is told and asked of features.

use super::cache::Cache;
use super::features::{FeatureCopies, Features, LEFT_OUT};
use super::table::PageTable;

impl Cache {
    /// Keeps features of up to so many running requests from now on, before any page was filled, or goes on to; `None`
    /// keeps none any more.
    pub(crate) fn keep_features(&mut self, max_running: Option<usize>) {
        let num_pages = self.pool.total();
        let kept = self.features.take();
        self.features =
            max_running.map(|most| kept.unwrap_or_else(|| Features::new(num_pages, most)));
    }

    /// The row of the store with the feature of a request's last token; −1 where it is not known, [`LEFT_OUT`] for
    /// one that is left out, `None` without a drafter.
    pub(crate) fn feature_row(&self, table: &PageTable) -> Option<i32> {
        self.features.as_ref()?;
        let row = table.seat.map(|seat| seat.row_after(table.kv_len));
        Some(row.map_or(LEFT_OUT, |row| row.unwrap_or(-1)))
    }

    /// Index of a request's first token of which drafters that read features keep entries; `None` without such a drafter.
    pub(crate) fn first_entry(&self, table: &PageTable) -> Option<usize> {
        let first = table.seat.map_or(0, |_| table.first_entry);
        self.features.as_ref().map(|_| first)
    }

    /// Whether drafters that read features see enough of a running request's text to be asked about it: all of it, or a page.
    pub(crate) fn is_in_sight(&self, table: &PageTable) -> bool {
        let least = table.first_entry + self.page_size();
        let is_enough = table.first_entry == 0 || table.kv_len >= least;
        self.features.is_some() && table.seat.is_some() && is_enough
    }

    /// Has drafters that read features keep the rows of a running request from its token at `from` on, or sooner if they do.
    pub(crate) fn follow(&mut self, table: &mut PageTable, from: usize) {
        let (kv_len, page_size) = (table.kv_len, self.page_size());
        let Some(features) = &mut self.features else {
            return;
        };
        let first = table.seat.map(|_| table.first_entry);
        table.seat = table.seat.or_else(|| features.seat(None, kv_len));
        // A row gets an entry where the feature of the token before it is there; the first needs none.
        let seat = table.seat.filter(|_| kv_len > 0);
        let is_gone = seat.is_some_and(|seat| seat.row_after(kv_len).is_none());
        let next = (kv_len + usize::from(is_gone)).max(from / page_size * page_size);
        table.first_entry = first.map_or(next, |first| first.min(next));
    }

    /// Has drafters that read features keep nothing of a running request's rows from now on.
    pub(crate) fn leave_out(&mut self, table: &mut PageTable) {
        if let (Some(features), Some(seat)) = (&mut self.features, table.seat.take()) {
            features.give_back(seat);
        }
    }

    /// Keeps the features of a request's tokens from the one at `first` on, which `rows` of the last
    /// forward computed.
    pub(crate) fn keep_rows(
        &mut self,
        table: &mut PageTable,
        first: usize,
        rows: impl Iterator<Item = usize>,
    ) {
        let page_size = self.page_size();
        let Some(features) = &mut self.features else {
            return;
        };
        match &mut table.seat {
            Some(seat) => {
                let pages = (&*table.pages, page_size);
                features.keep(seat, pages, table.first_entry, (first..).zip(rows));
            }
            None => features.leave_out(&table.pages, page_size, first, rows.count()),
        }
    }

    /// The copies of features that the runner does before its next call.
    pub(crate) fn take_feature_copies(&mut self) -> FeatureCopies {
        self.features
            .as_mut()
            .map(Features::take)
            .unwrap_or_default()
    }

    /// Notes that the runner has done the copies that it was given.
    pub(crate) fn note_features_copied(&mut self) {
        if let Some(features) = &mut self.features {
            features.settle();
        }
    }

    /// Forgets the features of the last forward, and of what the runner may not have copied: it failed,
    /// or another forward comes in between.
    pub(crate) fn doubt_features(&mut self) {
        if let Some(features) = &mut self.features {
            features.doubt();
        }
    }
}
