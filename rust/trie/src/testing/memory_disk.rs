//! A disk in memory that keeps a record of what was done, and can lose what was not synced.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::disk::Disk;

/// One recorded change.
#[derive(Clone, Debug)]
enum Change {
    Write {
        file: usize,
        offset: u64,
        bytes: Vec<u8>,
    },
    Sync {
        file: usize,
    },
    /// Names that files or folders get or, `None`, lose, all in one step.
    Names(Vec<(PathBuf, Option<Node>)>),
    /// A folder gets another name, with what is in it.
    RenameFolder {
        from: PathBuf,
        to: PathBuf,
    },
    SyncFolder(PathBuf),
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File(usize),
    Folder,
}

#[derive(Clone, Debug, Default)]
struct State {
    files: Vec<Vec<u8>>,
    names: BTreeMap<PathBuf, Node>,
    /// Folders, the one changed longest ago first.
    changed: Vec<PathBuf>,
}

impl State {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write {
                file,
                offset,
                bytes,
            } => {
                let file = &mut self.files[*file];
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                file.resize(file.len().max(end), 0);
                file[start..end].copy_from_slice(bytes);
            }
            Change::Names(names) => {
                for (path, node) in names {
                    match node {
                        Some(node) => self.names.insert(path.clone(), *node),
                        None => self.names.remove(path),
                    };
                    self.note_changed(parent(path));
                }
            }
            Change::RenameFolder { from, to } => {
                let names = std::mem::take(&mut self.names).into_iter();
                let moved = |path: &Path| match path.strip_prefix(from) {
                    Ok(rest) if rest == Path::new("") => to.clone(),
                    Ok(rest) => to.join(rest),
                    Err(_) => path.to_owned(),
                };
                self.names = names.map(|(path, node)| (moved(&path), node)).collect();
                self.changed.iter_mut().for_each(|path| *path = moved(path));
                self.note_changed(parent(to));
            }
            Change::Sync { .. } | Change::SyncFolder(_) => {}
        }
    }

    fn note_changed(&mut self, folder: PathBuf) {
        self.changed.retain(|changed| *changed != folder);
        self.changed.push(folder);
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        match self.names.get(path) {
            Some(Node::File(file)) => Ok(*file),
            Some(Node::Folder) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn in_folder(&self, folder: &Path) -> impl Iterator<Item = (&PathBuf, Node)> {
        let names = self.names.iter().map(|(path, node)| (path, *node));
        names.filter(move |(path, _)| path.parent() == Some(folder))
    }
}

fn parent(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}

fn is_sync(change: &Change, folder: &Path) -> bool {
    matches!(change, Change::SyncFolder(synced) if synced == folder)
}

/// A disk in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryDisk {
    changes: Mutex<(State, Vec<Change>)>,
    /// Whether reading a file fails for now.
    is_unreadable: AtomicBool,
}

impl MemoryDisk {
    fn lock(&self) -> MutexGuard<'_, (State, Vec<Change>)> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether files can be read from now on.
    pub(crate) fn set_readable(&self, is_readable: bool) {
        self.is_unreadable.store(!is_readable, Relaxed);
    }

    fn change(&self, change: Change) {
        let (state, record) = &mut *self.lock();
        state.apply(&change);
        record.push(change);
    }

    /// Every file with its bytes.
    pub(crate) fn all(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (state, _) = &*self.lock();
        let files = state.names.iter().filter_map(|(path, node)| match node {
            Node::File(file) => Some((path.clone(), state.files[*file].clone())),
            Node::Folder => None,
        });
        files.collect()
    }

    /// Makes a file what it is to be.
    pub(crate) fn put(&self, path: &Path, bytes: Vec<u8>) {
        let (state, _) = &mut *self.lock();
        state.files.push(bytes);
        let file = Node::File(state.files.len() - 1);
        for folder in path.ancestors().skip(1) {
            state.names.insert(folder.to_owned(), Node::Folder);
        }
        state.names.insert(path.to_owned(), file);
    }

    /// Changes so far.
    pub(crate) fn num_changes(&self) -> usize {
        self.lock().1.len()
    }

    /// Which of the first `count` changes a power cut could lose: those that no sync made last.
    pub(crate) fn unsynced(&self, count: usize) -> Vec<usize> {
        let (_, record) = &*self.lock();
        let unsynced = |index: &usize| {
            let later = &record[*index..count];
            match &record[*index] {
                Change::Write { file, .. } => !later.iter().any(
                    |change| matches!(change, Change::Sync { file: synced } if synced == file),
                ),
                Change::Names(names) => !names.iter().all(|(path, _)| {
                    let folder = parent(path);
                    later.iter().any(|change| is_sync(change, &folder))
                }),
                Change::RenameFolder { to, .. } => {
                    let folder = parent(to);
                    !later.iter().any(|change| is_sync(change, &folder))
                }
                Change::Sync { .. } | Change::SyncFolder(_) => false,
            }
        };
        (0..count).filter(unsynced).collect()
    }

    /// The disk after the first `count` changes without those that were `lost`.
    pub(crate) fn after(&self, count: usize, lost: &BTreeSet<usize>) -> Self {
        let (now, record) = &*self.lock();
        let mut state = State {
            files: vec![Vec::new(); now.files.len()],
            ..State::default()
        };
        for (index, change) in record[..count].iter().enumerate() {
            if !lost.contains(&index) {
                state.apply(change);
            }
        }
        // What is in a folder that was lost is lost too.
        let folders: BTreeSet<_> = state.names.keys().cloned().collect();
        state.names.retain(|path, _| {
            let mut folders_of = path
                .ancestors()
                .skip(1)
                .filter(|path| path.parent().is_some());
            folders_of.all(|folder| folders.contains(folder))
        });
        Self {
            changes: Mutex::new((state, Vec::new())),
            ..Self::default()
        }
    }
}

impl Disk for MemoryDisk {
    fn files(&self, folder: &Path) -> io::Result<Vec<String>> {
        let (state, _) = &*self.lock();
        let files = state
            .in_folder(folder)
            .filter(|(_, node)| *node != Node::Folder);
        let names = files.filter_map(|(path, _)| path.file_name()?.to_str().map(str::to_owned));
        Ok(names.collect())
    }

    fn folders(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let (state, _) = &*self.lock();
        let folders = state
            .in_folder(folder)
            .filter(|(_, node)| *node == Node::Folder);
        let mut folders: Vec<_> = folders.map(|(path, _)| path.clone()).collect();
        folders.sort_by_key(|folder| state.changed.iter().position(|changed| changed == folder));
        Ok(folders)
    }

    fn len(&self, file: &Path) -> io::Result<u64> {
        let (state, _) = &*self.lock();
        Ok(state.files[state.file(file)?].len() as u64)
    }

    fn read(&self, file: &Path, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.is_unreadable.load(Relaxed) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (state, _) = &*self.lock();
        let bytes = &state.files[state.file(file)?];
        let bytes = bytes.get(offset as usize..).unwrap_or_default();
        let bytes = bytes
            .get(..buffer.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        let mut missing: Vec<_> = folder.ancestors().map(Path::to_owned).collect();
        missing.retain(|path| path.parent().is_some() && !self.lock().0.names.contains_key(path));
        for path in missing.into_iter().rev() {
            self.change(Change::Names(vec![(path, Some(Node::Folder))]));
        }
        Ok(())
    }

    fn write(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let found = self.lock().0.file(path);
        let file = match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !self.lock().0.names.contains_key(&parent(path)) {
                    return Err(error);
                }
                let file = {
                    let (state, _) = &mut *self.lock();
                    state.files.push(Vec::new());
                    state.files.len() - 1
                };
                self.change(Change::Names(vec![(
                    path.to_owned(),
                    Some(Node::File(file)),
                )]));
                file
            }
            found => found?,
        };
        self.change(Change::Write {
            file,
            offset,
            bytes: bytes.to_vec(),
        });
        Ok(())
    }

    fn sync(&self, file: &Path) -> io::Result<()> {
        let file = self.lock().0.file(file)?;
        self.change(Change::Sync { file });
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let is_folder = self.lock().0.names.get(from) == Some(&Node::Folder);
        if is_folder {
            let (from, to) = (from.to_owned(), to.to_owned());
            self.change(Change::RenameFolder { from, to });
            return Ok(());
        }
        let file = self.lock().0.file(from)?;
        let to = (to.to_owned(), Some(Node::File(file)));
        self.change(Change::Names(vec![to, (from.to_owned(), None)]));
        Ok(())
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        if self.lock().0.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = self.lock().0.file(file)?;
        self.change(Change::Names(vec![(
            name.to_owned(),
            Some(Node::File(file)),
        )]));
        Ok(())
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        self.lock().0.file(file)?;
        self.change(Change::Names(vec![(file.to_owned(), None)]));
        Ok(())
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        let names = {
            let (state, _) = &*self.lock();
            let inside = state.names.keys().filter(|path| path.starts_with(folder));
            inside.map(|path| (path.clone(), None)).collect()
        };
        self.change(Change::Names(names));
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.change(Change::SyncFolder(folder.to_owned()));
        Ok(())
    }
}
