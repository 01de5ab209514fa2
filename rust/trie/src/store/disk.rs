//! What snapshots do with files. Tests record it, and lose what was not synced.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::store::atomic_file;

/// Files in folders. A write outlasts a power cut once its file is synced; what is made, renamed
/// or removed in a folder, once the folder is.
pub(crate) trait Disk: fmt::Debug + Send + Sync {
    /// Names of the files in `folder`; none if there is no such folder.
    fn files(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// The folders in `folder`, the one changed longest ago first.
    fn folders(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
    /// Bytes of a file.
    fn len(&self, file: &Path) -> io::Result<u64>;
    /// Fills `buffer` from a file.
    fn read(&self, file: &Path, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Makes a folder and those that it is in, for this user alone, where there is none.
    fn make_folder(&self, folder: &Path) -> io::Result<()>;
    /// Writes to a file, which is made for this user alone if there is none.
    fn write(&self, file: &Path, offset: u64, bytes: &[u8]) -> io::Result<()>;
    fn sync(&self, file: &Path) -> io::Result<()>;
    /// Renames a file, over another one if there is one; or a folder with its files.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name.
    fn link(&self, file: &Path, name: &Path) -> io::Result<()>;
    fn remove(&self, file: &Path) -> io::Result<()>;
    /// Removes a file if there is one.
    fn remove_if_there(&self, file: &Path) -> io::Result<()> {
        match self.remove(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
    /// Removes a folder with its files.
    fn remove_folder(&self, folder: &Path) -> io::Result<()>;
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// The disks of this machine.
#[derive(Debug)]
pub(crate) struct Machine;

impl Machine {
    fn entries(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
        match fs::read_dir(folder) {
            Ok(entries) => entries.collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

impl Disk for Machine {
    fn files(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Self::entries(folder)? {
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    }

    fn folders(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut folders = Vec::new();
        for entry in Self::entries(folder)? {
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                let changed = (metadata.mtime(), metadata.mtime_nsec());
                folders.push((changed, entry.path()));
            }
        }
        folders.sort();
        Ok(folders.into_iter().map(|(_, path)| path).collect())
    }

    fn len(&self, file: &Path) -> io::Result<u64> {
        fs::metadata(file).map(|metadata| metadata.len())
    }

    fn read(&self, file: &Path, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        File::open(file)?.read_exact_at(buffer, offset)
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)
    }

    fn write(&self, file: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        options.open(file)?.write_all_at(bytes, offset)
    }

    fn sync(&self, file: &Path) -> io::Result<()> {
        File::open(file)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        fs::hard_link(file, name)
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        fs::remove_file(file)
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        fs::remove_dir_all(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        atomic_file::sync_folder(folder)
    }
}
