//! The files of one tokenizer's snapshot: parts, the manifest and the one before it.
//!
//! They lie in a folder of their own, named after the tokenizer, so that another tokenizer's
//! snapshot stays. What is damaged is kept beside them as `*.damaged`, at most a few files; a folder
//! that could not be read, as `*.unread`, at most one for each tokenizer.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::namespaces::snapshot::manifest::{HEADER_BYTES, Manifest, fingerprint_of};
use crate::store::disk::Disk;

const MANIFEST: &str = "manifest";
const PREVIOUS: &str = "manifest.previous";
const PARTIAL: &str = "manifest.partial";
const PART: &str = "part-";
const DAMAGED: &str = ".damaged";
/// What the folder of a tokenizer is called, before its fingerprint.
const FOLDER: &str = "memory-";
/// What one that could not be read is called, behind that.
const UNREAD: &str = ".unread";

/// Most damaged files that are kept.
const MAX_DAMAGED: usize = 4;

/// Most tokenizers whose snapshots are kept, the current one included.
const MAX_TOKENIZERS: usize = 4;

/// What there is of a manifest.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    Manifest(Manifest),
    /// It is kept aside: what it was instead.
    Damaged(&'static str),
}

impl Found {
    pub(super) fn manifest(self) -> Option<Manifest> {
        match self {
            Self::Manifest(manifest) => Some(manifest),
            Self::Nothing | Self::Damaged(_) => None,
        }
    }

    pub(super) fn as_manifest(&self) -> Option<&Manifest> {
        match self {
            Self::Manifest(manifest) => Some(manifest),
            Self::Nothing | Self::Damaged(_) => None,
        }
    }
}

/// The folder of one tokenizer's snapshot.
#[derive(Clone, Debug)]
pub(super) struct SnapshotFolder {
    disk: Arc<dyn Disk>,
    /// Where the folders of all tokenizers are.
    root: PathBuf,
    path: PathBuf,
    fingerprint: String,
}

impl SnapshotFolder {
    /// That of the tokenizer with `fingerprint`, in `root`.
    pub(super) fn new(disk: &Arc<dyn Disk>, root: &Path, fingerprint: &str) -> Self {
        let is_name =
            !fingerprint.is_empty() && fingerprint.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let name = if is_name {
            format!("{FOLDER}{fingerprint}")
        } else {
            // The headers inside hold what this stands for.
            let hash = xxhash_rust::xxh3::xxh3_64(fingerprint.as_bytes());
            format!("{FOLDER}hash-{hash:016x}")
        };
        Self {
            disk: Arc::clone(disk),
            root: root.to_owned(),
            path: root.join(name),
            fingerprint: fingerprint.to_owned(),
        }
    }

    /// Those of every tokenizer in `root`, those kept aside included; `Err` with the path of one that
    /// cannot be told.
    pub(super) fn all(disk: &Arc<dyn Disk>, root: &Path) -> io::Result<Vec<Result<Self, PathBuf>>> {
        let mut folders = disk.folders(root)?;
        folders.retain(|path| is_tokenizer(path));
        let folders = folders.into_iter().map(|path| {
            let manifests = [MANIFEST, PREVIOUS].map(|name| path.join(name));
            let fingerprint = manifests.iter().find_map(|manifest| {
                let mut header = [0; HEADER_BYTES];
                disk.read(manifest, 0, &mut header).ok()?;
                fingerprint_of(&header)
            });
            match fingerprint.map(|fingerprint| Self::new(disk, root, &fingerprint)) {
                Some(folder) if folder.path == path => Ok(folder),
                Some(folder) if folder.aside() == path => Ok(Self { path, ..folder }),
                _ => Err(path),
            }
        });
        Ok(folders.collect())
    }

    pub(super) fn is_of(&self, root: &Path, fingerprint: &str) -> bool {
        self.root == root && self.fingerprint == fingerprint
    }

    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn manifest_path(&self) -> PathBuf {
        self.path.join(MANIFEST)
    }

    pub(super) fn part_path(&self, part: u32) -> PathBuf {
        self.path.join(format!("{PART}{part:08x}"))
    }

    /// What the folder is renamed to when it could not be read.
    pub(super) fn aside(&self) -> PathBuf {
        with_suffix(&self.path, UNREAD)
    }

    /// Keeps a folder that could not be read under another name, so that nothing is saved over it.
    ///
    /// # Errors
    ///
    /// Also if one is kept already. That one may be the better one, and a third would fill the disk:
    /// both stay.
    pub(super) fn set_aside(&self) -> io::Result<()> {
        let aside = self.aside();
        if self.disk.folders(&self.root)?.contains(&aside) {
            let reason = format!(
                "it could not be read, and {} is kept already: restart to read it again, or move \
                 one of them away",
                aside.display()
            );
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
        }
        match self.disk.rename(&self.path, &aside) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed.and_then(|()| self.disk.sync_folder(&self.root)),
        }
    }

    /// Makes the folder, if there is none.
    pub(super) fn make(&self) -> io::Result<()> {
        let is_there = self.disk.folders(&self.root)?.contains(&self.path);
        if !is_there {
            self.disk.make_folder(&self.path)?;
            if let Some(parent) = self.root.parent() {
                self.disk.sync_folder(parent)?;
            }
            self.disk.sync_folder(&self.root)?;
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.disk.sync_folder(&self.path)
    }

    /// The parts there are, with their bytes.
    pub(super) fn parts(&self) -> io::Result<BTreeMap<u32, u64>> {
        let mut parts = BTreeMap::new();
        for name in self.disk.files(&self.path)? {
            if let Some(part) = part_number(&name) {
                parts.insert(part, self.disk.len(&self.path.join(&name))?);
            }
        }
        Ok(parts)
    }

    pub(super) fn read_part(&self, part: u32, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.disk.read(&self.part_path(part), offset, buffer)
    }

    pub(super) fn write_part(&self, part: u32, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write(&self.part_path(part), offset, bytes)
    }

    pub(super) fn sync_part(&self, part: u32) -> io::Result<()> {
        self.disk.sync(&self.part_path(part))
    }

    pub(super) fn remove_part(&self, part: u32) -> io::Result<()> {
        self.disk.remove(&self.part_path(part))
    }

    /// Keeps a damaged part under a second name, for whoever wants to look at it.
    pub(super) fn keep_part_aside(&self, part: u32) {
        let path = self.part_path(part);
        let name = with_suffix(&path, DAMAGED);
        if self.num_damaged() < MAX_DAMAGED {
            // It is of no use to Spectrie: what cannot be kept is let go.
            let _ = self.disk.link(&path, &name);
        }
    }

    fn num_damaged(&self) -> usize {
        let files = self.disk.files(&self.path).unwrap_or_default();
        files.iter().filter(|name| name.ends_with(DAMAGED)).count()
    }

    /// The manifest, and the one before it. Damaged ones are kept aside.
    pub(super) fn manifests(&self) -> io::Result<(Found, Found)> {
        Ok((self.read_manifest(MANIFEST)?, self.read_manifest(PREVIOUS)?))
    }

    fn read_manifest(&self, name: &str) -> io::Result<Found> {
        let path = self.path.join(name);
        let bytes = match self.disk.len(&path) {
            Ok(length) => {
                let mut bytes = vec![0; length as usize];
                self.disk.read(&path, 0, &mut bytes)?;
                bytes
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
        match Manifest::decode(&bytes, &self.fingerprint) {
            Ok(manifest) => Ok(Found::Manifest(manifest)),
            Err(found) => {
                self.disk.rename(&path, &with_suffix(&path, DAMAGED))?;
                Ok(Found::Damaged(found))
            }
        }
    }

    /// Writes the next manifest, which takes the place of the last with
    /// [`SnapshotFolder::publish`].
    pub(super) fn prepare(&self, manifest: &[u8]) -> io::Result<()> {
        self.make()?;
        let partial = self.path.join(PARTIAL);
        // One that a killed process left may be longer.
        self.disk.remove_if_there(&partial)?;
        self.disk.write(&partial, 0, manifest)?;
        self.disk.sync(&partial)
    }

    /// Puts the prepared manifest in place of the last, which becomes the one before it. A crash
    /// leaves this one or the last, under either name.
    pub(super) fn publish(&self, has_last: bool) -> io::Result<()> {
        let manifest = self.manifest_path();
        if has_last {
            self.disk.rename(&manifest, &self.path.join(PREVIOUS))?;
        }
        self.disk.rename(&self.path.join(PARTIAL), &manifest)?;
        self.sync()
    }

    /// Puts the prepared manifest in place of the last and of the one before, which are gone when
    /// this returns.
    pub(super) fn publish_alone(&self) -> io::Result<()> {
        self.disk
            .rename(&self.path.join(PARTIAL), &self.manifest_path())?;
        self.disk.remove_if_there(&self.path.join(PREVIOUS))?;
        self.sync()
    }

    /// Removes the parts that are not in `kept`, and what killed processes left.
    pub(super) fn remove_other_parts(&self, kept: &BTreeSet<u32>) -> io::Result<()> {
        for name in self.disk.files(&self.path)? {
            let is_other = part_number(&name).is_some_and(|part| !kept.contains(&part));
            if is_other || name == PARTIAL {
                self.disk.remove(&self.path.join(&name))?;
            }
        }
        Ok(())
    }

    /// Removes the damaged files that were kept.
    pub(super) fn remove_damaged(&self) -> io::Result<()> {
        for name in self.disk.files(&self.path)? {
            if name.ends_with(DAMAGED) {
                self.disk.remove(&self.path.join(&name))?;
            }
        }
        self.sync()
    }

    /// Removes the folder with all that is in it.
    pub(super) fn remove(&self) -> io::Result<()> {
        self.disk.remove_folder(&self.path)
    }

    /// Removes the snapshots of the tokenizers that were not used for longest, if there are many.
    pub(super) fn remove_old_tokenizers(&self) -> io::Result<()> {
        let mut folders = self.disk.folders(&self.root)?;
        folders.retain(|path| is_tokenizer(path));
        let mut kept = vec![self.path.clone()];
        for folder in folders.into_iter().rev() {
            // What is kept aside goes with the rest of its tokenizer.
            let tokenizer = without_unread(&folder);
            if kept.contains(&tokenizer) {
                continue;
            }
            if kept.len() < MAX_TOKENIZERS {
                kept.push(tokenizer);
            } else {
                self.disk.remove_folder(&folder)?;
            }
        }
        Ok(())
    }
}

/// Whether a folder is called like that of a tokenizer.
fn is_tokenizer(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(FOLDER))
}

/// The folder of the tokenizer that `folder` is of.
fn without_unread(folder: &Path) -> PathBuf {
    let name = folder.file_name().and_then(|name| name.to_str());
    let name = name.and_then(|name| name.strip_suffix(UNREAD));
    name.map_or_else(|| folder.to_owned(), |name| folder.with_file_name(name))
}

fn part_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(PART)?;
    u32::from_str_radix(digits, 16).ok()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}
