//! Erasing: what no run holds is overwritten.
//!
//! A manifest that says so is durable before anything is overwritten, and stays until all is. So a
//! crash meanwhile leaves the erasing to whoever opens the snapshot next.

use std::io;

use crate::namespaces::snapshot::folder::{Found, SnapshotFolder};
use crate::namespaces::snapshot::manifest::{HEADER_BYTES, Manifest};

/// What is overwritten at once.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// What erasing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Erased {
    /// Whether the namespace was in the snapshot.
    pub(crate) was_there: bool,
    pub(crate) written_bytes: u64,
}

/// Finishes the erasing that a crash left, after which there is one manifest.
pub(super) fn finish_if_begun(
    folder: &SnapshotFolder,
    manifests: (Found, Found),
) -> io::Result<(Found, Found)> {
    match manifests {
        (Found::Manifest(mut manifest), _) if manifest.is_erasing => {
            finish(folder, &mut manifest)?;
            Ok((Found::Manifest(manifest), Found::Nothing))
        }
        manifests => Ok(manifests),
    }
}

/// Removes `namespace` from the snapshot in `folder`. Gives what its manifest is now.
pub(super) fn forget_in(
    folder: &SnapshotFolder,
    namespace: &str,
) -> io::Result<(Manifest, Erased)> {
    let (current, previous) = folder.manifests()?;
    let manifest = current.manifest().or_else(|| previous.manifest());
    let Some(mut manifest) = manifest else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let erased = forget(folder, &mut manifest, namespace)?;
    Ok((manifest, erased))
}

/// Leaves `namespace` out of the snapshot in `folder`, whose manifest is `manifest`, and erases its
/// text. When this returns, no file there holds its name or text, and the manifest before is gone.
///
/// # Errors
///
/// Those of writing. The manifest then says that text is to be erased, or is the old one.
fn forget(folder: &SnapshotFolder, manifest: &mut Manifest, namespace: &str) -> io::Result<Erased> {
    let num_before = manifest.namespaces.len();
    manifest.namespaces.retain(|saved| saved.name != namespace);
    manifest.is_erasing = true;
    let encoded = manifest.encode(folder.fingerprint());
    folder.prepare(&encoded)?;
    folder.publish_alone()?;
    Ok(Erased {
        was_there: manifest.namespaces.len() < num_before,
        written_bytes: encoded.len() as u64 + finish(folder, manifest)?,
    })
}

/// Erases what no run of `manifest` holds, and then has it say that this is done. Gives the bytes
/// written.
fn finish(folder: &SnapshotFolder, manifest: &mut Manifest) -> io::Result<u64> {
    folder.remove_damaged()?;
    folder.remove_other_parts(&manifest.parts())?;
    let mut written = overwrite_dead(folder, manifest)?;
    manifest.is_erasing = false;
    let encoded = manifest.encode(folder.fingerprint());
    folder.prepare(&encoded)?;
    folder.publish_alone()?;
    written += encoded.len() as u64;
    Ok(written)
}

/// Writes zeros between the runs of each part.
fn overwrite_dead(folder: &SnapshotFolder, manifest: &Manifest) -> io::Result<u64> {
    let runs = manifest.runs();
    let place = |start: u32, bytes: usize| (u64::from(start), u64::from(start) + bytes as u64);
    let runs = runs.map(|run| (run.part, place(run.offset, run.bytes())));
    let mut runs: Vec<_> = runs.collect();
    runs.sort_unstable();
    let mut written = 0;
    let mut found = vec![0; ZEROS.len()];
    for (part, bytes) in folder.parts()? {
        let before = written;
        let mut free = HEADER_BYTES as u64;
        let of_part = runs.iter().filter(|(of, _)| *of == part);
        let end = [(bytes, bytes)];
        for &(start, end) in of_part.map(|(_, place)| place).chain(&end) {
            // A run may lie behind the end of a part that was cut short.
            let start = start.min(bytes);
            let mut at = free;
            while at < start {
                let count = (start - at).min(ZEROS.len() as u64) as usize;
                folder.read_part(part, at, &mut found[..count])?;
                // Most of it was erased before, where much is forgotten.
                if found[..count] != ZEROS[..count] {
                    folder.write_part(part, at, &ZEROS[..count])?;
                    written += count as u64;
                }
                at += count as u64;
            }
            free = free.max(end);
        }
        if written > before {
            folder.sync_part(part)?;
        }
    }
    Ok(written)
}
