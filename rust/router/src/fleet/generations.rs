//! Generations of namespaces: how often each was forgotten, as everyone must know.
//!
//! A generation is a time in milliseconds, above the one before: whoever forgets later has the
//! higher one, also where two routers did not hear of each other. Text of a lower generation than
//! the one known is text that was forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::keys::{MAX_NAMESPACES, ModelKey};
use crate::sync::{read_whole, write_whole};

const FILE: &str = "forgotten.json";
/// Form of the file.
const VERSION: u32 = 1;

/// What is known of one namespace.
#[derive(Clone, Copy, Debug, Default)]
struct Generation {
    /// The highest that was heard of.
    known: u64,
    /// The one that all workers have forgotten up to, and the file holds.
    settled: u64,
    /// The one that the bus is known to have.
    announced: u64,
    /// Whether it rose in this router's life: a worker that joins may still hold what was forgotten.
    is_new: bool,
}

type Namespaces = BTreeMap<String, Generation>;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Generations {
    models: BTreeMap<ModelKey, Namespaces>,
    file: Option<PathBuf>,
}

impl Generations {
    /// Those that the file in `folder` holds. A file that cannot be read is logged and replaced.
    pub(super) fn open(folder: Option<&Path>) -> Self {
        let mut generations = Self {
            file: folder.map(|folder| folder.join(FILE)),
            ..Self::default()
        };
        let Some(path) = &generations.file else {
            return generations;
        };
        match read(path) {
            Ok(document) => {
                for (model, namespaces) in document.models {
                    let known = namespaces.into_iter().map(|(name, known)| {
                        let generation = Generation {
                            known,
                            settled: known,
                            ..Generation::default()
                        };
                        (name, generation)
                    });
                    let model = ModelKey::from(&*model);
                    generations.models.insert(model, known.collect());
                }
            }
            Err(reason) => tracing::warn!(file = %path.display(), %reason,
                "starting without the list of forgotten namespaces; the other routers have it too"),
        }
        generations
    }

    /// The generation of a namespace; 0 if it was never forgotten.
    pub(super) fn of(&self, model: &ModelKey, namespace: &str) -> u64 {
        self.get(model, namespace).known
    }

    /// The generation of text that workers learn now; none while any may still hold what was
    /// forgotten.
    pub(super) fn open_of(&self, model: &ModelKey, namespace: &str) -> Option<u64> {
        let entry = self.get(model, namespace);
        (entry.settled == entry.known).then_some(entry.known)
    }

    fn get(&self, model: &ModelKey, namespace: &str) -> Generation {
        let namespaces = self.models.get(model);
        let found = namespaces.and_then(|namespaces| namespaces.get(namespace));
        found.copied().unwrap_or_default()
    }

    /// The generation after the one known, at `now_ms`.
    pub(super) fn next(&self, model: &ModelKey, namespace: &str, now_ms: u64) -> u64 {
        now_ms.max(self.of(model, namespace).saturating_add(1))
    }

    /// Notes a generation; whether it is higher than the one known.
    pub(super) fn rise(&mut self, model: &ModelKey, namespace: &str, generation: u64) -> bool {
        if generation <= self.of(model, namespace) {
            return false;
        }
        let namespaces = self.models.entry(model.clone()).or_default();
        if namespaces.len() >= MAX_NAMESPACES && !namespaces.contains_key(namespace) {
            let oldest = namespaces.iter().min_by_key(|(_, entry)| entry.known);
            let oldest = oldest.map(|(name, entry)| (name.clone(), entry.known));
            match oldest {
                Some((name, known)) if known < generation => namespaces.remove(&name),
                // The bus remembers more of the past than there is room for.
                _ => return false,
            };
        }
        let entry = namespaces.entry(namespace.to_owned()).or_default();
        entry.known = generation;
        entry.is_new = true;
        true
    }

    /// Notes that all workers forgot up to `generation`; whether the file changes by it.
    pub(super) fn settle(&mut self, model: &ModelKey, namespace: &str, generation: u64) -> bool {
        let entry = self
            .models
            .get_mut(model)
            .and_then(|namespaces| namespaces.get_mut(namespace));
        let Some(entry) = entry.filter(|entry| entry.settled < generation) else {
            return false;
        };
        entry.settled = generation;
        true
    }

    /// Notes that a worker may still hold what others forgot.
    pub(super) fn unsettle(&mut self, model: &ModelKey, namespace: &str) {
        let namespaces = self.models.get_mut(model);
        if let Some(entry) = namespaces.and_then(|namespaces| namespaces.get_mut(namespace)) {
            entry.settled = 0;
        }
    }

    /// Namespaces that a worker may still hold although they were forgotten, with what is known.
    pub(super) fn unsettled(&self, model: &ModelKey) -> Vec<(String, u64)> {
        self.select(model, |entry| entry.settled < entry.known)
    }

    /// Namespaces that a worker which joins is to forget first.
    pub(super) fn to_forget(&self, model: &ModelKey) -> Vec<(String, u64)> {
        self.select(model, |entry| entry.is_new)
    }

    /// Takes what the bus has, and gives what it does not have yet. What is `risen` of it was heard
    /// of for the first time.
    pub(super) fn merge(&mut self, model: &ModelKey, found: &BTreeMap<String, u64>) -> Merge {
        let mut risen = Vec::new();
        for (namespace, generation) in found {
            if self.rise(model, namespace, *generation) {
                risen.push((namespace.clone(), *generation));
            }
        }
        let mut missing = Vec::new();
        for (namespace, entry) in self.models.entry(model.clone()).or_default() {
            entry.announced = found.get(namespace).copied().unwrap_or(0);
            if entry.announced < entry.known {
                missing.push((namespace.clone(), entry.known));
            }
        }
        Merge { risen, missing }
    }

    /// Notes what the bus has.
    pub(super) fn announce(&mut self, model: &ModelKey, namespace: &str, generation: u64) {
        let namespaces = self.models.get_mut(model);
        if let Some(entry) = namespaces.and_then(|namespaces| namespaces.get_mut(namespace)) {
            entry.announced = entry.announced.max(generation);
        }
    }

    /// Whether the bus has this generation of a namespace.
    pub(super) fn is_announced(&self, model: &ModelKey, namespace: &str, generation: u64) -> bool {
        self.get(model, namespace).announced >= generation
    }

    /// Models of which anything was forgotten.
    pub(super) fn models(&self) -> BTreeSet<ModelKey> {
        self.models.keys().cloned().collect()
    }

    fn select(
        &self,
        model: &ModelKey,
        is_meant: impl Fn(&Generation) -> bool,
    ) -> Vec<(String, u64)> {
        let namespaces = self.models.get(model).into_iter().flatten();
        let meant = namespaces.filter(|(_, entry)| is_meant(entry));
        meant
            .map(|(name, entry)| (name.clone(), entry.known))
            .collect()
    }

    /// What the file is to hold now, if there is one: what workers have forgotten, not what they
    /// have yet to forget, or a restart would believe that they did.
    pub(super) fn to_save(&self) -> Option<ToSave> {
        let path = self.file.clone()?;
        let models = self.models.iter().map(|(model, namespaces)| {
            let settled = namespaces.iter().filter(|(_, entry)| entry.settled > 0);
            let settled = settled.map(|(name, entry)| (name.clone(), entry.settled));
            (model.as_str().to_owned(), settled.collect())
        });
        let document = Document {
            version: VERSION,
            models: models.collect(),
        };
        Some(ToSave { path, document })
    }
}

/// A file of generations that is not written yet.
#[derive(Debug)]
pub(super) struct ToSave {
    path: PathBuf,
    document: Document,
}

impl ToSave {
    /// Writes it; blocks until it is on disk. A failure is only logged.
    pub(super) fn write(&self) {
        let written = serde_json::to_vec_pretty(&self.document)
            .map_err(io::Error::other)
            .and_then(|content| write_whole(&self.path, &content));
        if let Err(error) = written {
            tracing::error!(file = %self.path.display(), %error,
                "what was forgotten is not on disk: other routers and Redis alone remember it");
        }
    }
}

/// What came of comparing with the bus.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Merge {
    /// Higher on the bus.
    pub(super) risen: Vec<(String, u64)>,
    /// Lower on the bus, or not there.
    pub(super) missing: Vec<(String, u64)>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    models: BTreeMap<String, BTreeMap<String, u64>>,
}

fn read(path: &Path) -> Result<Document, String> {
    read_whole(path, VERSION, |document: &Document| document.version)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            let name = format!("spectrie-forgotten-{:x}", rand::random::<u64>());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn model() -> ModelKey {
        ModelKey::new("weights", "files")
    }

    fn named(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, generation)| ((*name).into(), *generation))
            .collect()
    }

    #[test]
    fn generations_only_rise_also_when_the_clock_goes_back() {
        let mut generations = Generations::default();
        assert_eq!(generations.next(&model(), "ann", 100), 100);
        assert!(generations.rise(&model(), "ann", 100));
        assert!(!generations.rise(&model(), "ann", 100) && !generations.rise(&model(), "ann", 99));
        assert_eq!(generations.next(&model(), "ann", 50), 101);
        assert_eq!(generations.of(&model(), "bob"), 0);
    }

    #[test]
    fn routers_that_meet_again_agree_on_the_highest() {
        let mut generations = Generations::default();
        for (name, generation) in [("ann", 5), ("bob", 5), ("carl", 5)] {
            generations.rise(&model(), name, generation);
        }
        let found = BTreeMap::from([("ann".into(), 5), ("bob".into(), 9), ("dora".into(), 2)]);
        let merge = generations.merge(&model(), &found);
        assert_eq!(merge.risen, named(&[("bob", 9), ("dora", 2)]));
        assert_eq!(merge.missing, named(&[("carl", 5)]));
        // After a flush nothing is there, and everything comes back.
        let merge = generations.merge(&model(), &BTreeMap::new());
        let all = named(&[("ann", 5), ("bob", 9), ("carl", 5), ("dora", 2)]);
        assert_eq!((merge.risen, merge.missing), (vec![], all));
        assert!(!generations.is_announced(&model(), "ann", 5));
        generations.announce(&model(), "ann", 5);
        assert!(generations.is_announced(&model(), "ann", 5));
    }

    #[test]
    fn nothing_is_learned_until_workers_have_forgotten() {
        let mut generations = Generations::default();
        assert_eq!(generations.open_of(&model(), "ann"), Some(0));
        generations.rise(&model(), "ann", 5);
        generations.rise(&model(), "ann", 6);
        generations.settle(&model(), "ann", 5);
        assert_eq!(generations.open_of(&model(), "ann"), None);
        assert_eq!(generations.open_of(&model(), "bob"), Some(0));
        generations.settle(&model(), "ann", 6);
        assert_eq!(generations.open_of(&model(), "ann"), Some(6));
    }

    #[test]
    fn the_next_router_of_the_folder_knows_what_workers_forgot_and_no_more() {
        let folder = Folder::new();
        let mut generations = Generations::open(Some(&folder.0));
        generations.rise(&model(), "ann", 5);
        generations.rise(&model(), "bob", 6);
        assert_eq!(
            generations.to_forget(&model()),
            named(&[("ann", 5), ("bob", 6)])
        );
        assert!(generations.settle(&model(), "ann", 5));
        assert!(!generations.settle(&model(), "ann", 5));
        assert_eq!(generations.unsettled(&model()), named(&[("bob", 6)]));
        generations.to_save().unwrap().write();
        let again = Generations::open(Some(&folder.0));
        assert_eq!(
            (again.of(&model(), "ann"), again.of(&model(), "bob")),
            (5, 0)
        );
        assert_eq!(again.to_forget(&model()), []);
    }

    #[test]
    fn a_damaged_file_leaves_nothing_and_is_replaced() {
        let folder = Folder::new();
        let path = folder.0.join(FILE);
        for damaged in ["", "{", r#"{"version": 2, "models": {}}"#] {
            fs::write(&path, damaged).unwrap();
            let mut generations = Generations::open(Some(&folder.0));
            assert_eq!(generations.of(&model(), "ann"), 0);
            generations.rise(&model(), "ann", 5);
            generations.settle(&model(), "ann", 5);
            generations.to_save().unwrap().write();
            assert_eq!(Generations::open(Some(&folder.0)).of(&model(), "ann"), 5);
        }
    }

    #[test]
    fn of_many_namespaces_those_forgotten_longest_ago_go_first() {
        let mut generations = Generations::default();
        for index in 0..=MAX_NAMESPACES as u64 {
            generations.rise(&model(), &format!("n{index}"), index + 1);
        }
        assert!(!generations.rise(&model(), "n0", 1));
        assert_eq!(generations.of(&model(), "n0"), 0);
        assert_eq!(generations.of(&model(), "n1"), 2);
        assert_eq!(generations.unsettled(&model()).len(), MAX_NAMESPACES);
    }
}
