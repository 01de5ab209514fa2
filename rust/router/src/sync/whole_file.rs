//! Files of which a reader finds the old content or the whole new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

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
