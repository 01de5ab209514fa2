//! The snapshot that is saved to: what is on disk, and what of memory is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::TrieError;
use crate::budget::pool::Pool;
use crate::namespaces::shared_trie::SharedTrie;
use crate::namespaces::snapshot::compaction::parts_to_rewrite;
use crate::namespaces::snapshot::erase::{self, Erased};
use crate::namespaces::snapshot::folder::{Found, SnapshotFolder};
use crate::namespaces::snapshot::info::SnapshotInfo;
use crate::namespaces::snapshot::load::Loaded;
use crate::namespaces::snapshot::manifest::Manifest;
use crate::namespaces::snapshot::part::PartWriter;
use crate::namespaces::snapshot::restore;
use crate::namespaces::snapshot::save::{RunsOfBlocks, Save, Stopped};
use crate::namespaces::snapshot::single::file::{Refusal, SingleFile};
use crate::store::disk::Disk;

/// Snapshots in one folder, that last saved to or restored from.
#[derive(Debug)]
pub(crate) struct Snapshots {
    disk: Arc<dyn Disk>,
    root: Option<PathBuf>,
    open: Option<Open>,
    /// One that could not be read, which nothing may be saved over.
    unread: Option<SnapshotFolder>,
}

/// The snapshot of one tokenizer, as it is on disk.
#[derive(Debug)]
struct Open {
    folder: SnapshotFolder,
    /// The checksum of the manifest; `None` if there is none.
    manifest: Option<u64>,
    /// Bytes of the parts.
    parts: BTreeMap<u32, u64>,
    /// Parts that the manifest refers to, and those of the manifest before it.
    current: BTreeSet<u32>,
    previous: BTreeSet<u32>,
    /// Runs of the blocks in memory.
    runs: RunsOfBlocks,
}

impl Open {
    /// The snapshot in `folder`, of which nothing is read into memory.
    fn at(folder: SnapshotFolder) -> io::Result<Self> {
        let manifests = folder.manifests()?;
        let manifests = erase::finish_if_begun(&folder, manifests)?;
        Self::new(folder, &manifests)
    }

    /// The snapshot in `folder`, of which `manifests` were found.
    fn new(folder: SnapshotFolder, manifests: &(Found, Found)) -> io::Result<Self> {
        let parts_of = |found: &Found| found.as_manifest().map(Manifest::parts).unwrap_or_default();
        let encoded = manifests
            .0
            .as_manifest()
            .map(|manifest| manifest.encode(folder.fingerprint()));
        Ok(Self {
            manifest: encoded.map(|encoded| checksum(&encoded)),
            parts: folder.parts()?,
            current: parts_of(&manifests.0),
            previous: parts_of(&manifests.1),
            runs: RunsOfBlocks::new(),
            folder,
        })
    }

    /// Bytes of the parts that `manifest` refers to.
    fn part_bytes(&self, manifest: &Manifest) -> usize {
        let parts = manifest.parts();
        let parts = parts.iter().filter_map(|part| self.parts.get(part));
        parts.sum::<u64>() as usize
    }

    fn live_bytes(&self, tries: &[Arc<SharedTrie>]) -> BTreeMap<u32, u64> {
        let mut live = BTreeMap::new();
        for shared in tries {
            for block in shared.view().blocks() {
                if let Some(runs) = self.runs.get(&block.dirty().serial()) {
                    for (run, bytes) in runs.live_bytes() {
                        *live.entry(run.part).or_default() += bytes;
                    }
                }
            }
        }
        live
    }

    fn save(
        &mut self,
        tries: &[Arc<SharedTrie>],
        is_awaited: impl Fn() -> bool,
    ) -> Result<SnapshotInfo, Stopped> {
        let rewritten = parts_to_rewrite(&self.parts, &self.live_bytes(tries));
        // Numbers are never used again while a manifest refers to them.
        let used = self.current.iter().chain(&self.previous);
        let used = used.chain(self.parts.keys()).copied().collect();
        let writer = PartWriter::new(&self.folder, used);
        let mut save = Save::new(writer, &self.runs, &rewritten);
        let prepared = self.prepare(&mut save, tries, is_awaited);
        let (encoded, new_parts) = prepared.inspect_err(|_| save.undo())?;
        let (manifest, runs) = save.into_result();
        let new_bytes: u64 = new_parts.values().sum();
        self.parts.extend(new_parts);
        self.runs = runs;
        let mut info = SnapshotInfo {
            num_namespaces: manifest.namespaces.len(),
            num_tokens: manifest.num_tokens(),
            bytes: self.part_bytes(&manifest) + encoded.len(),
            ..SnapshotInfo::default()
        };
        if self.manifest != Some(checksum(&encoded)) {
            info.written_bytes = new_bytes + encoded.len() as u64;
            self.publish(&encoded, manifest.parts())
                .map_err(Stopped::Unsettled)?;
        }
        Ok(info)
    }

    /// Writes what is new, and the manifest if it is another than the last. Gives that, and the
    /// bytes of new parts.
    fn prepare(
        &self,
        save: &mut Save<'_>,
        tries: &[Arc<SharedTrie>],
        is_awaited: impl Fn() -> bool,
    ) -> Result<(Vec<u8>, BTreeMap<u32, u64>), Stopped> {
        save.write(tries, is_awaited)?;
        let new_parts = save.writer.finish()?.clone();
        let encoded = save.manifest.encode(self.folder.fingerprint());
        if self.manifest != Some(checksum(&encoded)) {
            self.folder.prepare(&encoded)?;
        }
        Ok((encoded, new_parts))
    }

    /// Puts the prepared manifest, which refers to the parts `current`, in place of the last, and
    /// removes the parts that none refers to.
    fn publish(&mut self, encoded: &[u8], current: BTreeSet<u32>) -> io::Result<()> {
        self.folder.publish(self.manifest.is_some())?;
        if self.manifest.replace(checksum(encoded)).is_some() {
            self.previous = mem::take(&mut self.current);
        }
        self.current = current;
        let kept = &self.current | &self.previous;
        self.parts.retain(|part, _| kept.contains(part));
        // What cannot be removed now is removed after the next save.
        let _ = self.folder.remove_other_parts(&kept);
        Ok(())
    }
}

fn checksum(manifest: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(manifest)
}

impl Snapshots {
    /// No snapshot yet.
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self {
            disk,
            root: None,
            open: None,
            unread: None,
        }
    }

    /// Saves what is new in `tries`, the one idle longest first, in `root`. `None` if `is_awaited`
    /// said that somebody waits: then nothing was saved, and it is to be called again.
    pub(crate) fn save(
        &mut self,
        root: &Path,
        fingerprint: &str,
        tries: &[Arc<SharedTrie>],
        is_awaited: impl Fn() -> bool,
    ) -> Result<Option<SnapshotInfo>, TrieError> {
        self.root = Some(root.to_owned());
        let folder = SnapshotFolder::new(&self.disk, root, fingerprint);
        let path = folder.path().to_owned();
        let failed = |error: io::Error| TrieError::io("write", &path, &error);
        let is_unread = |unread: &SnapshotFolder| unread.is_of(root, fingerprint);
        if self.unread.as_ref().is_some_and(is_unread) {
            // Text that was to be forgotten is not kept.
            if let Ok(manifests) = folder.manifests() {
                erase::finish_if_begun(&folder, manifests).map_err(failed)?;
            }
            folder.set_aside().map_err(failed)?;
            let single = SingleFile::new(&*self.disk, root);
            single.set_aside().map_err(failed)?;
            self.unread = None;
        }
        let mut open = match self.open.take() {
            Some(open) if open.folder.is_of(root, fingerprint) => open,
            _ => Open::at(folder).map_err(failed)?,
        };
        let is_first = open.manifest.is_none();
        let result = open.save(tries, is_awaited);
        if is_first && result.is_ok() {
            self.remove_single(root, fingerprint);
            let _ = open.folder.remove_old_tokenizers();
        }
        if !matches!(result, Err(Stopped::Unsettled(_))) {
            self.open = Some(open);
        }
        match result {
            Ok(info) => Ok(Some(info)),
            Err(Stopped::Interrupted) => Ok(None),
            Err(Stopped::Failed(error) | Stopped::Unsettled(error)) => Err(failed(error)),
        }
    }

    /// Removes the file of an earlier version in `root`, if it is of this tokenizer: a snapshot has
    /// taken its place.
    fn remove_single(&self, root: &Path, fingerprint: &str) {
        let single = SingleFile::new(&*self.disk, root);
        if single.index(fingerprint).is_ok() {
            // Until it can be removed it does no harm: the new one is read before it.
            let _ = single.remove();
        }
    }

    /// Reads the snapshot of the tokenizer with `fingerprint` in `root`, as far as `pool` has bytes
    /// for it; nothing when there is none. One that cannot be read now is kept aside by the next save.
    pub(crate) fn restore(
        &mut self,
        root: &Path,
        fingerprint: &str,
        max_namespaces: usize,
        pool: &Pool,
    ) -> Result<Loaded, TrieError> {
        self.root = Some(root.to_owned());
        self.open = None;
        let folder = SnapshotFolder::new(&self.disk, root, fingerprint);
        self.unread = Some(folder.clone());
        let aside = folder.aside();
        match self.read(folder, root, max_namespaces, pool) {
            Err(TrieError::Io {
                action,
                path,
                reason,
            }) => Err(TrieError::Io {
                action,
                path,
                reason: format!("{reason}; the next save keeps it as {}", aside.display()),
            }),
            read => {
                self.unread = None;
                read
            }
        }
    }

    fn read(
        &mut self,
        folder: SnapshotFolder,
        root: &Path,
        max_namespaces: usize,
        pool: &Pool,
    ) -> Result<Loaded, TrieError> {
        let fingerprint = folder.fingerprint().to_owned();
        let path = folder.path().to_owned();
        let failed = |error: io::Error| TrieError::io("read", &path, &error);
        let manifests = folder.manifests().map_err(failed)?;
        let manifests = erase::finish_if_begun(&folder, manifests).map_err(failed)?;
        let mut open = Open::new(folder, &manifests).map_err(failed)?;
        let chosen = restore::choose(&open.folder, manifests).inspect_err(|_| {
            // Where one is kept already, the manifests alone are kept: without them the parts are
            // of little use.
            let _ = open.folder.set_aside();
        })?;
        let Some((manifest, damage)) = chosen else {
            self.open = Some(open);
            return self.restore_single(root, &fingerprint, max_namespaces, pool);
        };
        let (mut loaded, runs) =
            restore::from_parts(&open.folder, &manifest, max_namespaces, pool).map_err(failed)?;
        let encoded = manifest.encode(&fingerprint);
        loaded.info.bytes = open.part_bytes(&manifest) + encoded.len();
        loaded.info.first_damage = damage.or(loaded.info.first_damage);
        open.runs = runs;
        self.open = Some(open);
        // A crash may have left it.
        self.remove_single(root, &fingerprint);
        Ok(loaded)
    }

    fn restore_single(
        &self,
        root: &Path,
        fingerprint: &str,
        max_namespaces: usize,
        pool: &Pool,
    ) -> Result<Loaded, TrieError> {
        let single = SingleFile::new(&*self.disk, root);
        match restore::from_single(&single, fingerprint, max_namespaces, pool) {
            Err(Refusal::NotOurs) => Ok(Loaded::default()),
            loaded => loaded.map_err(|refusal| single.refuse(refusal)),
        }
    }

    /// Removes `namespace` from what is on disk, for every tokenizer: from the manifests, and its
    /// text from the parts. What cannot be rewritten is removed as a whole, since a cold start is
    /// better than text that was to be forgotten. `tries` are saved first where only the file of an
    /// earlier version holds them.
    ///
    /// # Errors
    ///
    /// [`TrieError::Io`] for the first file that could neither be rewritten nor removed: it may still
    /// hold the text, and a restart would bring it back. Also if what the file of an earlier version
    /// held of others could not be saved: until a save succeeds, it is in memory only.
    pub(crate) fn forget(
        &mut self,
        namespace: &str,
        tries: &[Arc<SharedTrie>],
    ) -> Result<Erased, TrieError> {
        let mut erased = Erased::default();
        let Some(root) = self.root.clone() else {
            return Ok(erased);
        };
        let failed = |path: &Path, error: io::Error| TrieError::io("erase from", path, &error);
        let mut result = Ok(());
        match self.replace_single(&root, tries) {
            Ok(bytes) => erased.written_bytes += bytes,
            Err(error) => result = Err(error),
        }
        let folders = SnapshotFolder::all(&self.disk, &root);
        let mut open = self.open.take();
        for folder in folders.map_err(|error| failed(&root, error))? {
            let removed = match folder {
                Ok(folder) => match erase::forget_in(&folder, namespace) {
                    Ok((manifest, of_folder)) => {
                        erased.was_there |= of_folder.was_there;
                        erased.written_bytes += of_folder.written_bytes;
                        let is_open = |open: &mut Open| open.folder.path() == folder.path();
                        if let Some(open) = open.take_if(is_open) {
                            // The blocks in memory have the runs that they had.
                            self.open =
                                Open::new(folder, &(Found::Manifest(manifest), Found::Nothing))
                                    .ok();
                            if let Some(reopened) = &mut self.open {
                                reopened.runs = open.runs;
                            }
                        }
                        Ok(())
                    }
                    Err(_) => folder
                        .remove()
                        .map_err(|error| failed(folder.path(), error)),
                },
                Err(path) => self
                    .disk
                    .remove_folder(&path)
                    .map_err(|error| failed(&path, error)),
            };
            result = result.and(removed);
        }
        result.map(|()| erased)
    }

    /// Removes the file of an earlier version in `root`, once its text is saved anew if it is ours. A
    /// save that fails is an error, but the file is removed all the same.
    fn replace_single(&mut self, root: &Path, tries: &[Arc<SharedTrie>]) -> Result<u64, TrieError> {
        let mut written = Ok(0);
        if let Some(open) = &self.open {
            let fingerprint = open.folder.fingerprint().to_owned();
            let single = SingleFile::new(&*self.disk, root);
            if open.manifest.is_none() && single.index(&fingerprint).is_ok() {
                let saved = self.save(root, &fingerprint, tries, || false);
                written = saved.map(|info| info.map_or(0, |info| info.written_bytes));
            }
        }
        let single = SingleFile::new(&*self.disk, root);
        let removed = single.remove().and_then(|()| single.remove_damaged());
        removed.map_err(|error| TrieError::io("erase from", root, &error))?;
        written
    }
}
