//! Files that a router keeps: a reader finds the old content or the whole new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::de::DeserializeOwned;

/// They name tenants.
const MODE: u32 = 0o600;

/// Replaces a file that its owner alone may read; blocks until the content is on disk. A reader
/// finds the old content or the new one, even after a power cut.
///
/// # Errors
/// What the system says; the file is as before then.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("json.partial");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(MODE)
        .open(&partial)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    path.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// What a file of JSON holds, whose form has the number that `version_of` finds; nothing when there is
/// no file.
///
/// # Errors
/// What is wrong with it, for the log: it cannot be read, is damaged or of another version.
pub(crate) fn read_whole<T: DeserializeOwned + Default>(
    path: &Path,
    version: u32,
    version_of: impl Fn(&T) -> u32,
) -> Result<T, String> {
    let json = match fs::read(path) {
        Ok(json) => json,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
        Err(error) => return Err(error.to_string()),
    };
    let content: T = serde_json::from_slice(&json)
        .map_err(|error| format!("it is damaged or of another version: {error}"))?;
    let found = version_of(&content);
    if found == version {
        return Ok(content);
    }
    Err(format!(
        "its version is {found}, this router reads {version}"
    ))
}
