//! The corpora that operators added and removed, and the file that keeps them over restarts.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spectrie_proto::worker_v1::{AddCorpus, Readers};

use crate::error::RouterError;
use crate::sync::{read_whole, write_whole};

/// The option that names the folder.
const OPTION: &str = "--state-dir";
const FILE: &str = "corpora.json";
/// Held by the one router that may write the file.
const LOCK: &str = "corpora.lock";
/// Form of the file.
const VERSION: u32 = 1;
/// It names tenants.
const FILE_MODE: u32 = 0o600;

/// What was last done about a corpus.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Added {
        corpus: AddCorpus,
        /// Whether that was before this router's start.
        is_remembered: bool,
    },
    /// A worker's own options may open it again.
    Removed,
}

/// What was done about corpora, by model and name.
///
/// The file holds what was added. What was removed is not in it: a worker opens such a corpus only
/// by its own options, and those of a new start are the ones wanted now.
#[derive(Debug, Default)]
pub(crate) struct CorpusList {
    changes: BTreeMap<String, BTreeMap<String, Change>>,
    file: Option<PathBuf>,
}

/// Keeps other routers away from a state folder; ends with the process, however that ends.
#[derive(Debug)]
pub(crate) struct Claim(#[expect(dead_code, reason = "open for its lock")] File);

impl CorpusList {
    /// The list that the file in `folder` holds, for as long as the claim is kept.
    ///
    /// A file that cannot be read is logged, and the list is empty.
    ///
    /// # Errors
    /// [`RouterError::File`]: the folder cannot be used, or another router uses it.
    pub(crate) fn open(folder: &Path) -> Result<(Self, Claim), RouterError> {
        let refuse = |message: String| RouterError::File {
            path: folder.display().to_string(),
            option: OPTION,
            message,
        };
        let lock = fs::create_dir_all(folder).and_then(|()| {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(FILE_MODE)
                .open(folder.join(LOCK))
        });
        let lock = lock.map_err(|error| refuse(error.to_string()))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                refuse("another router uses it: give each its own folder".into())
            }
            TryLockError::Error(error) => refuse(error.to_string()),
        })?;
        let path = folder.join(FILE);
        let document = read(&path).unwrap_or_else(|reason| {
            tracing::warn!(file = %path.display(), %reason,
                "starting without the corpora that were added before, the next one added \
                 replaces the file");
            Document::default()
        });
        let mut corpus_list = Self {
            changes: BTreeMap::new(),
            file: Some(path),
        };
        for entry in document.corpora {
            let corpus = AddCorpus {
                corpus: entry.corpus,
                readers: entry.readers.map(|namespaces| Readers { namespaces }),
            };
            let change = Change::Added {
                corpus,
                is_remembered: true,
            };
            corpus_list.insert(&entry.model, entry.name, change);
        }
        Ok((corpus_list, Claim(lock)))
    }

    /// What was done about the corpora of a model, by name.
    pub(super) fn of(&self, model: &str) -> impl Iterator<Item = (&String, &Change)> {
        self.changes.get(model).into_iter().flatten()
    }

    /// Whether an operator added this corpus, and none removed it since.
    pub(super) fn is_added(&self, model: &str, name: &str) -> bool {
        let changes = self.changes.get(model);
        matches!(
            changes.and_then(|changes| changes.get(name)),
            Some(Change::Added { .. })
        )
    }

    /// Notes what was done about a corpus.
    pub(super) fn insert(&mut self, model: &str, name: String, change: Change) {
        let changes = self.changes.entry(model.to_owned()).or_default();
        changes.insert(name, change);
    }

    /// Writes what was added to the file, if there is one; blocks until it is on disk.
    ///
    /// The change is made already, so a failure is only logged.
    pub(super) fn save(&self) {
        let Some(path) = &self.file else { return };
        if let Err(error) = self.write(path) {
            tracing::error!(file = %path.display(), %error,
                "corpora added or removed now will not survive a restart");
        }
    }

    /// A reader finds the old file or the whole new one, even after a power cut.
    fn write(&self, path: &Path) -> io::Result<()> {
        let added = self.changes.iter().flat_map(|(model, changes)| {
            changes.iter().filter_map(|(name, change)| match change {
                Change::Added { corpus, .. } => Some(Entry {
                    model: model.clone(),
                    name: name.clone(),
                    corpus: corpus.corpus.clone(),
                    readers: corpus.readers.clone().map(|readers| readers.namespaces),
                }),
                Change::Removed => None,
            })
        });
        let document = Document {
            version: VERSION,
            corpora: added.collect(),
        };
        write_whole(path, &serde_json::to_vec_pretty(&document)?)
    }
}

/// What the file holds.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    corpora: Vec<Entry>,
}

impl Default for Document {
    fn default() -> Self {
        Self {
            version: VERSION,
            corpora: Vec::new(),
        }
    }
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    model: String,
    name: String,
    /// Name or path, as the workers find it.
    corpus: String,
    /// Who may draft from it; everyone when absent.
    readers: Option<Vec<String>>,
}

/// What the file says; nothing when there is none.
fn read(path: &Path) -> Result<Document, String> {
    read_whole(path, VERSION, |document: &Document| document.version)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            let name = format!("spectrie-{:x}", rand::random::<u64>());
            Self(std::env::temp_dir().join(name))
        }

        fn open(&self) -> CorpusList {
            CorpusList::open(&self.0).unwrap().0
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn added(corpus: &str, readers: Option<&str>, is_remembered: bool) -> Change {
        let corpus = AddCorpus {
            corpus: corpus.into(),
            readers: readers.map(|name| Readers {
                namespaces: vec![name.into()],
            }),
        };
        Change::Added {
            corpus,
            is_remembered,
        }
    }

    fn changes(corpus_list: &CorpusList, model: &str) -> Vec<(String, Change)> {
        let changes = corpus_list.of(model);
        changes.map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    #[test]
    fn what_was_added_outlives_the_router_and_what_was_removed_does_not() {
        let folder = Folder::new();
        let mut corpus_list = folder.open();
        corpus_list.insert("m", "code".into(), added("/c.corpus", Some("ann"), false));
        corpus_list.insert("m", "gone".into(), added("gone", None, false));
        corpus_list.save();
        corpus_list.insert("m", "gone".into(), Change::Removed);
        corpus_list.insert("n", "text".into(), added("text", None, false));
        corpus_list.save();
        assert!(!corpus_list.is_added("m", "gone"));
        let again = folder.open();
        let code = ("code".to_owned(), added("/c.corpus", Some("ann"), true));
        assert_eq!(changes(&again, "m"), [code]);
        assert!(again.is_added("n", "text") && !again.is_added("m", "text"));
        let mode = fs::metadata(folder.0.join(FILE)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, FILE_MODE);
    }

    #[test]
    fn a_file_that_cannot_be_read_leaves_nothing_and_the_next_change_replaces_it() {
        let folder = Folder::new();
        let mut corpus_list = folder.open();
        corpus_list.insert("m", "code".into(), added("code", None, false));
        corpus_list.save();
        let path = folder.0.join(FILE);
        let whole = fs::read(&path).unwrap();
        let foreign = br#"{"version": 2, "corpora": []}"#;
        for damaged in [&whole[..whole.len() / 2], b"", b"\xff", foreign] {
            fs::write(&path, damaged).unwrap();
            let reason = read(&path).unwrap_err();
            assert!(reason.contains("version"), "{reason}");
            assert_eq!(changes(&folder.open(), "m"), []);
        }
        let mut corpus_list = folder.open();
        corpus_list.insert("m", "text".into(), added("text", None, false));
        corpus_list.save();
        assert!(folder.open().is_added("m", "text"));
    }

    #[test]
    fn a_write_that_was_cut_short_leaves_the_file_before() {
        let folder = Folder::new();
        let mut corpus_list = folder.open();
        corpus_list.insert("m", "code".into(), added("code", None, false));
        corpus_list.save();
        fs::write(folder.0.join("corpora.json.partial"), "{").unwrap();
        assert!(folder.open().is_added("m", "code"));
    }

    #[test]
    fn a_second_router_of_the_folder_is_refused() {
        let folder = Folder::new();
        let first = CorpusList::open(&folder.0).unwrap();
        let error = CorpusList::open(&folder.0).unwrap_err().to_string();
        assert!(
            error.contains(OPTION) && error.contains("another router"),
            "{error}"
        );
        drop(first);
        folder.open();
    }
}
