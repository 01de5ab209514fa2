//! API keys: who calls, and as which tenant.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

use super::grant::Grant;
use super::key_entry::KeyEntry;
use super::keys_text::parse;
use crate::error::{ErrorKind, RequestError, RouterError};
use crate::fleet::Fleet;
use crate::sync::lock;

/// Largest keys file, in bytes: some 50,000 keys.
const MAX_BYTES: usize = 16 << 20;

type Digest = [u8; 32];

/// What each key allows, by its digest.
type Grants = HashMap<Digest, Grant>;

/// The keys that may call. Without a file everyone may.
#[derive(Debug, Default)]
pub struct ApiKeys(Option<KeysFile>);

/// A file, and what is in force of it.
#[derive(Debug)]
struct KeysFile {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    grants: Arc<Grants>,
    /// Digest of what the file held when it was last read, or why it could not be read.
    seen: Result<Digest, String>,
    /// With whom limits are shared.
    fleet: Fleet,
}

impl ApiKeys {
    /// Everyone may call, as no tenant in particular.
    pub fn open() -> Self {
        Self::default()
    }

    /// Reads a keys file: TOML, or lines `KEY TENANT`.
    ///
    /// # Errors
    /// [`RouterError::File`] names the line at fault, without the key itself.
    pub fn from_file(path: &Path) -> Result<Self, RouterError> {
        let text = read(path).map_err(|message| refuse(path, message))?;
        let entries = parse(&text).map_err(|message| refuse(path, message))?;
        let state = State {
            grants: grants(entries, &Grants::new(), &Fleet::default()),
            seen: Ok(digest(&text)),
            fleet: Fleet::default(),
        };
        Ok(Self(Some(KeysFile {
            path: path.to_owned(),
            state: Mutex::new(state),
        })))
    }

    /// The same keys, with limits that all routers of a fleet share.
    pub(crate) fn shared_by(self, fleet: &Fleet) -> Self {
        if let Some(file) = &self.0 {
            let mut state = lock(&file.state);
            state.fleet = fleet.clone();
            let entries = state.grants.values();
            let entries = entries.map(|grant| (*grant.entry).clone());
            state.grants = grants(entries.collect(), &Grants::new(), fleet);
        }
        self
    }

    /// What the key of a call allows; `None` when everyone may call.
    ///
    /// Looks for the key's digest: how long that takes says something of digests at most, and who
    /// could choose the digest of a guess would have broken SHA-256.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] when a key is needed and none, an unknown or an expired one
    /// was given.
    pub fn grant(&self, key: Option<&str>) -> Result<Option<Grant>, RequestError> {
        let Some(file) = &self.0 else {
            return Ok(None);
        };
        let Some(key) = key else {
            return Err(unauthenticated(
                "no API key: send the header authorization: Bearer KEY",
            ));
        };
        let grants = lock(&file.state).grants.clone();
        let found = grants.get(&digest(key));
        let grant = found.ok_or_else(|| unauthenticated("unknown api key"))?;
        if grant.entry.is_expired(SystemTime::now()) {
            return Err(unauthenticated("this API key has expired"));
        }
        Ok(Some(grant.clone()))
    }

    /// The key in an `authorization` header's value, if it is of the form `Bearer KEY`.
    pub fn bearer(header: &str) -> Option<&str> {
        let (scheme, key) = header.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    }

    /// Reads the file again if there is one; what it holds now is in force if it can be read, and
    /// keys keep what they used. Blocks for the time of reading.
    ///
    /// Its content is compared, not its date: a file behind a link that was swapped counts too.
    pub(super) fn reload(&self) {
        let Some(file) = &self.0 else { return };
        let text = read(&file.path);
        let seen = text.as_deref().map(digest).map_err(Clone::clone);
        if lock(&file.state).seen == seen {
            return;
        }
        let entries = text.and_then(|text| parse(&text));
        let mut state = lock(&file.state);
        state.seen = seen;
        match entries {
            Ok(entries) => {
                state.grants = grants(entries, &state.grants, &state.fleet);
                tracing::info!(path = %file.path.display(), keys = state.grants.len(),
                    "API keys were read again");
            }
            Err(reason) => tracing::error!(path = %file.path.display(), %reason,
                "the changed API keys are not used: those before stay in force"),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.is_none()
    }
}

/// Every entry of a keys file, in its order.
///
/// # Errors
/// As [`ApiKeys::from_file`].
pub fn read_keys(path: &Path) -> Result<Vec<KeyEntry>, RouterError> {
    read(path)
        .and_then(|text| parse(&text))
        .map_err(|message| refuse(path, message))
}

fn refuse(path: &Path, message: String) -> RouterError {
    RouterError::File {
        path: path.display().to_string(),
        option: "--api-keys",
        message,
    }
}

fn unauthenticated(message: &str) -> RequestError {
    RequestError::new(ErrorKind::Unauthenticated, message)
}

fn digest(text: &str) -> Digest {
    Sha256::digest(text.as_bytes()).into()
}

fn read(path: &Path) -> Result<String, String> {
    use std::io::Read as _;
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let mut bounded = file.take(MAX_BYTES as u64 + 1);
    bounded
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    if text.len() > MAX_BYTES {
        return Err(format!("it is too large; allowed: up to {MAX_BYTES} bytes"));
    }
    Ok(text)
}

/// What each entry allows; a key that was there before goes on with what it used.
fn grants(entries: Vec<KeyEntry>, before: &Grants, fleet: &Fleet) -> Arc<Grants> {
    let grants = entries.into_iter().map(|entry| {
        let usage = before.get(&entry.digest).map(|grant| grant.usage.clone());
        let grant = Grant {
            usage: usage.unwrap_or_default(),
            entry: Arc::new(entry),
            fleet: fleet.clone(),
        };
        (grant.entry.digest, grant)
    });
    Arc::new(grants.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in a folder of its own.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            let name = format!("spectrie-keys-{:x}", rand::random::<u64>());
            let folder = std::env::temp_dir().join(name);
            std::fs::create_dir(&folder).unwrap();
            Self(folder)
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn tenant(keys: &ApiKeys, key: &str) -> Result<String, ErrorKind> {
        let grant = keys.grant(Some(key)).map_err(|error| error.kind)?;
        Ok(grant.unwrap().tenant().to_owned())
    }

    #[test]
    fn known_key_gives_its_tenant_and_others_are_refused() {
        let folder = Folder::new();
        let path = folder.write("keys", "# keys\nalpha one\n\nbeta two\n");
        let keys = ApiKeys::from_file(&path).unwrap();
        assert_eq!(tenant(&keys, "beta").as_deref(), Ok("two"));
        for key in [None, Some("gamma"), Some("")] {
            let error = keys.grant(key).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unauthenticated);
        }
    }

    #[test]
    fn each_of_very_many_keys_finds_its_own_tenant() {
        let folder = Folder::new();
        let lines = (0..50_000).map(|index| format!("key-{index} tenant-{index}\n"));
        let path = folder.write("keys", &lines.collect::<String>());
        let keys = ApiKeys::from_file(&path).unwrap();
        for index in (0..50_000).step_by(7) {
            let found = tenant(&keys, &format!("key-{index}"));
            assert_eq!(found, Ok(format!("tenant-{index}")));
        }
        assert!(tenant(&keys, "key-50000").is_err());
    }

    #[test]
    fn without_keys_everyone_may_call() {
        assert!(ApiKeys::open().grant(None).unwrap().is_none());
    }

    #[test]
    fn expired_key_is_refused() {
        let folder = Folder::new();
        let digest = |key: &str| format!("{:x}", Sha256::digest(key));
        let path = folder.write(
            "keys.toml",
            &format!(
                "[[keys]]\ntenant = \"one\"\nsha256 = \"{}\"\nexpires = 2020-01-01\n\
                 [[keys]]\ntenant = \"two\"\nsha256 = \"{}\"\nexpires = 9999-01-01\n",
                digest("old"),
                digest("new")
            ),
        );
        let keys = ApiKeys::from_file(&path).unwrap();
        assert_eq!(tenant(&keys, "old"), Err(ErrorKind::Unauthenticated));
        assert_eq!(tenant(&keys, "new").as_deref(), Ok("two"));
    }

    #[test]
    fn changed_file_is_in_force_and_a_bad_one_is_not() {
        let folder = Folder::new();
        let path = folder.write("keys", "alpha one\n");
        let keys = ApiKeys::from_file(&path).unwrap();
        folder.write("keys", "alpha two\n");
        keys.reload();
        assert_eq!(tenant(&keys, "alpha").as_deref(), Ok("two"));
        for bad in ["alpha\n", "# none\n", "[[keys]]\nkey = 1\n"] {
            folder.write("keys", bad);
            keys.reload();
            assert_eq!(tenant(&keys, "alpha").as_deref(), Ok("two"), "{bad}");
        }
        std::fs::remove_file(&path).unwrap();
        keys.reload();
        assert_eq!(tenant(&keys, "alpha").as_deref(), Ok("two"));
        folder.write("keys", "beta three\n");
        keys.reload();
        assert_eq!(tenant(&keys, "beta").as_deref(), Ok("three"));
        assert!(tenant(&keys, "alpha").is_err());
    }

    #[test]
    fn file_behind_a_swapped_link_is_read_again() {
        use std::os::unix::fs::symlink;
        // As Kubernetes changes a Secret: the folder behind `..data` is replaced, no file changes.
        let folder = Folder::new();
        for (name, text) in [("first", "alpha one\n"), ("second", "alpha two\n")] {
            std::fs::create_dir(folder.0.join(name)).unwrap();
            folder.write(&format!("{name}/keys"), text);
        }
        let data = folder.0.join("..data");
        symlink("first", &data).unwrap();
        symlink("..data/keys", folder.0.join("keys")).unwrap();
        let keys = ApiKeys::from_file(&folder.0.join("keys")).unwrap();
        assert_eq!(tenant(&keys, "alpha").as_deref(), Ok("one"));
        symlink("second", folder.0.join("..new")).unwrap();
        std::fs::rename(folder.0.join("..new"), &data).unwrap();
        keys.reload();
        assert_eq!(tenant(&keys, "alpha").as_deref(), Ok("two"));
    }

    #[test]
    fn key_goes_on_with_what_it_used_when_the_file_changes() {
        let folder = Folder::new();
        let text = |limit| {
            format!(
                "[[keys]]\ntenant = \"one\"\nsha256 = \"{:x}\"\nrequests_per_minute = {limit}\n",
                Sha256::digest("alpha")
            )
        };
        let path = folder.write("keys", &text(2));
        let keys = ApiKeys::from_file(&path).unwrap();
        let begin = || keys.grant(Some("alpha")).unwrap().unwrap().begin();
        assert!(begin().is_ok() && begin().is_ok() && begin().is_err());
        folder.write("keys", &text(3));
        keys.reload();
        assert!(begin().is_ok() && begin().is_err());
    }

    #[test]
    fn bearer_takes_any_case_of_the_scheme() {
        assert_eq!(ApiKeys::bearer("bearer  k"), Some("k"));
        assert_eq!(ApiKeys::bearer("Basic k"), None);
    }
}
