//! Writes text and index of a corpus in bounded memory, front to back.
//!
//! The buckets of all orders, one order after the other, are cut into ranges whose heads fit in
//! memory. Each pass over the tokens links the positions of one range and leaves their links and
//! the heads in scratch files. The last pass writes the file: a position's bucket says which range
//! its link is in, and each range left its links in the order of positions, so all are read front
//! to back. Nothing is read or written in another order than it lies in.

use std::io::{self, Write};
use std::ops::Range;

use super::cells::{Cells, Visitor, WALK_BYTES};
use super::scratch::{Appender, BUFFER_BYTES, Scratch, Stream};
use super::word_writer::WordWriter;
use crate::TokenId;
use crate::sources::corpora::block_file::checksum_of;
use crate::sources::corpora::header::Header;
use crate::sources::corpora::layout::{BLOCK_CELLS, num_heads};
use crate::store::chains::{ORDERS, bucket};

/// How far a corpus has been indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildProgress {
    /// Tokens visited so far; each pass over the text visits all.
    pub done: u64,
    /// Tokens that all passes visit.
    pub total: u64,
    /// Bytes of memory that the builder holds for text and index.
    pub held_bytes: usize,
}

/// The buckets of one range, and the newest position in each.
struct Heads {
    buckets: Range<u64>,
    newest: Vec<u32>,
}

impl Heads {
    fn new(buckets: Range<u64>) -> Self {
        let newest = vec![0; (buckets.end - buckets.start) as usize];
        Self { buckets, newest }
    }

    /// Makes `position` the newest of its bucket, if that is of this range; gives the one before.
    #[inline]
    fn link(&mut self, bucket: u64, position: u32) -> Option<u32> {
        let newest = self
            .newest
            .get_mut(bucket.checked_sub(self.buckets.start)? as usize)?;
        Some(std::mem::replace(newest, position))
    }

    fn bytes(&self) -> usize {
        size_of::<u32>() * self.newest.capacity()
    }
}

/// Where the buckets of each order begin among those of all orders.
struct Buckets {
    starts: [u64; ORDERS.len()],
    counts: [usize; ORDERS.len()],
}

impl Buckets {
    fn new(num_cells: u32) -> Self {
        let counts = num_heads(num_cells);
        let mut end = 0;
        let starts = counts.map(|count| {
            let start = end;
            end += count as u64;
            start
        });
        Self { starts, counts }
    }

    fn total(&self) -> u64 {
        self.counts.iter().map(|&count| count as u64).sum()
    }

    /// The bucket of each order that has a hash.
    #[inline]
    fn of<'a>(&'a self, hashes: &'a [u32]) -> impl Iterator<Item = u64> + 'a {
        let orders = self.starts.iter().zip(&self.counts).zip(hashes);
        orders.map(|((start, &count), &hash)| start + bucket(hash, count) as u64)
    }
}

/// The scratch files of the ranges before the last.
struct Earlier {
    links: Scratch,
    heads: Scratch,
    streams: Vec<Stream>,
}

impl Earlier {
    /// The next link of a range.
    #[inline]
    fn next(&mut self, range: u64) -> io::Result<u32> {
        match self.streams.get_mut(range as usize) {
            Some(stream) => stream.next(&self.links),
            None => Ok(0),
        }
    }
}

/// Writes one corpus.
pub(super) struct IndexWriter<'a> {
    pub(super) cells: &'a Cells,
    pub(super) header: &'a Header,
    /// Most heads in memory, at least one.
    pub(super) max_heads: usize,
    /// Called now and then; an error ends the writing.
    pub(super) progress: &'a mut dyn FnMut(BuildProgress) -> io::Result<()>,
}

impl IndexWriter<'_> {
    /// Writes the whole file.
    pub(super) fn write(self, out: &mut impl Write) -> io::Result<()> {
        let header = self.header.encode();
        out.write_all(&header)?;
        let buckets = Buckets::new(self.header.num_cells);
        let span = (self.max_heads as u64).clamp(1, buckets.total());
        let mut ranges: Vec<_> = (0..buckets.total().div_ceil(span))
            .map(|range| range * span..((range + 1) * span).min(buckets.total()))
            .collect();
        let last = ranges.pop().unwrap_or_default();
        let mut tracker = Tracker {
            state: BuildProgress {
                done: 0,
                total: self.cells.len() as u64 * (ranges.len() as u64 + 1),
                held_bytes: 0,
            },
            report: self.progress,
        };
        let mut earlier = None;
        for range in ranges {
            let earlier = match &mut earlier {
                Some(earlier) => earlier,
                none => none.insert(Earlier {
                    links: Scratch::new(self.cells.folder())?,
                    heads: Scratch::new(self.cells.folder())?,
                    streams: Vec::new(),
                }),
            };
            link(self.cells, &buckets, range, earlier, &mut tracker)?;
        }
        let mut last = LastPass {
            cells: self.cells,
            buckets: &buckets,
            span,
            heads: Heads::new(last),
            earlier,
            links: Vec::with_capacity(BLOCK_CELLS * ORDERS.len()),
            words: WordWriter::new(out, self.header.layout().words()),
            tracker,
        };
        self.cells.walk(&mut last)?;
        let checksums = last.finish()?;
        for checksum in &checksums {
            out.write_all(&checksum.to_le_bytes())?;
        }
        out.write_all(&checksum_of(&header, &checksums).to_le_bytes())
    }
}

/// Links the positions whose buckets are in `range`.
fn link(
    cells: &Cells,
    buckets: &Buckets,
    range: Range<u64>,
    earlier: &mut Earlier,
    tracker: &mut Tracker<'_>,
) -> io::Result<()> {
    let start = earlier.links.words();
    let mut pass = EarlierPass {
        cells,
        buckets,
        heads: Heads::new(range),
        links: Appender::new(&mut earlier.links),
        tracker,
    };
    cells.walk(&mut pass)?;
    let EarlierPass {
        heads, mut links, ..
    } = pass;
    links.flush()?;
    drop(links);
    earlier
        .streams
        .push(Stream::new(start, earlier.links.words()));
    earlier.heads.append(&heads.newest)
}

/// A pass that leaves the links of one range.
struct EarlierPass<'a, 'b> {
    cells: &'a Cells,
    buckets: &'a Buckets,
    heads: Heads,
    links: Appender<'a>,
    tracker: &'a mut Tracker<'b>,
}

impl Visitor for EarlierPass<'_, '_> {
    #[inline]
    fn cell(&mut self, position: u32, _: TokenId, hashes: &[u32]) -> io::Result<()> {
        for bucket in self.buckets.of(hashes) {
            if let Some(link) = self.heads.link(bucket, position) {
                self.links.push(link)?;
            }
        }
        Ok(())
    }

    fn passed(&mut self, count: usize) -> io::Result<()> {
        let held = self.cells.bytes() + WALK_BYTES + 2 * BUFFER_BYTES + self.heads.bytes();
        self.tracker.show(count, held)
    }
}

/// The pass that writes the file.
struct LastPass<'a, W> {
    cells: &'a Cells,
    buckets: &'a Buckets,
    /// Buckets of each range but the last.
    span: u64,
    heads: Heads,
    earlier: Option<Earlier>,
    /// Of the block that is being written.
    links: Vec<u32>,
    words: WordWriter<'a, W>,
    tracker: Tracker<'a>,
}

impl<W: Write> LastPass<'_, W> {
    /// Writes the links of the cells since the last block.
    fn end_cells(&mut self) -> io::Result<()> {
        for link in self.links.drain(..) {
            self.words.push(link)?;
        }
        Ok(())
    }

    /// Writes what follows the last cell; gives the checksums of all blocks.
    fn finish(mut self) -> io::Result<Vec<u64>> {
        self.end_cells()?;
        if let Some(earlier) = &self.earlier {
            let mut heads = Stream::new(0, earlier.heads.words());
            for _ in 0..earlier.heads.words() {
                self.words.push(heads.next(&earlier.heads)?)?;
            }
        }
        for &head in &self.heads.newest {
            self.words.push(head)?;
        }
        self.words.finish()
    }
}

impl<W: Write> Visitor for LastPass<'_, W> {
    #[inline]
    fn cell(&mut self, position: u32, token: TokenId, hashes: &[u32]) -> io::Result<()> {
        self.words.push(token)?;
        let mut links = [0; ORDERS.len()];
        for (link, bucket) in links.iter_mut().zip(self.buckets.of(hashes)) {
            *link = match (self.heads.link(bucket, position), &mut self.earlier) {
                (Some(link), _) => link,
                (None, Some(earlier)) => earlier.next(bucket / self.span)?,
                (None, None) => 0,
            };
        }
        self.links.extend(links);
        if (position as usize + 1).is_multiple_of(BLOCK_CELLS) {
            self.end_cells()?;
            self.words.pad()?;
        }
        Ok(())
    }

    fn passed(&mut self, count: usize) -> io::Result<()> {
        let streams = self
            .earlier
            .as_ref()
            .map_or(0, |earlier| earlier.streams.len());
        let links = size_of::<u32>() * self.links.capacity();
        let buffers = WALK_BYTES + (streams + 2) * BUFFER_BYTES + links;
        let held = self.cells.bytes() + buffers + self.heads.bytes() + self.words.bytes();
        self.tracker.show(count, held)
    }
}

/// Reports progress.
struct Tracker<'a> {
    state: BuildProgress,
    report: &'a mut dyn FnMut(BuildProgress) -> io::Result<()>,
}

impl Tracker<'_> {
    fn show(&mut self, count: usize, held_bytes: usize) -> io::Result<()> {
        self.state.done += count as u64;
        self.state.held_bytes = held_bytes;
        (self.report)(self.state)
    }
}
