//! The identity of a vocabulary.

use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::TextError;

/// Bytes of the digest that are kept.
const KEPT_BYTES: usize = 8;

/// Returns the fingerprint of the tokenizer.json at `path`, or in the folder `path`. Equal
/// fingerprints mean that token ids stand for the same text.
///
/// It is the first 16 hexadecimal digits of the SHA-256 of the file.
///
/// # Errors
/// [`TextError::Read`] if the file cannot be read.
///
/// # Example
///
/// ```no_run
/// let name = spectrie_text::tokenizer_fingerprint("models/smollm2-135m".as_ref())?;
/// assert_eq!(name.len(), 16);
/// # Ok::<(), spectrie_text::TextError>(())
/// ```
pub fn tokenizer_fingerprint(path: &Path) -> Result<String, TextError> {
    let file = if path.is_dir() {
        path.join("tokenizer.json")
    } else {
        path.to_owned()
    };
    let bytes = std::fs::read(&file).map_err(|source| TextError::Read { path: file, source })?;
    let digest = Sha256::digest(&bytes);
    let kept = digest.iter().take(KEPT_BYTES);
    let number = kept.fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    Ok(format!("{number:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_and_its_folder_have_the_name_of_its_bytes() {
        let folder = std::env::temp_dir().join(format!("fingerprint-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("tokenizer.json");
        std::fs::write(&file, "abc").unwrap();
        // The first test vector of FIPS 180-2.
        assert_eq!(tokenizer_fingerprint(&file).unwrap(), "ba7816bf8f01cfea");
        assert_eq!(tokenizer_fingerprint(&folder).unwrap(), "ba7816bf8f01cfea");
        std::fs::remove_dir_all(&folder).unwrap();
        let message = tokenizer_fingerprint(&folder).unwrap_err().to_string();
        assert!(message.contains("cannot read"), "{message}");
    }
}
