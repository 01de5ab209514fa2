//! The contents of a snapshot in numbers.

/// The contents of a snapshot in numbers, and what saving or restoring it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Number of namespaces with text.
    pub num_namespaces: usize,
    /// Number of tokens of their text.
    pub num_tokens: u64,
    /// Bytes of its files.
    pub bytes: usize,
    /// Bytes that this save wrote: 0 if nothing was new, and for a restore.
    pub written_bytes: u64,
    /// Runs of up to 64 Ki tokens that a restore found damaged and left out.
    pub damaged_runs: u64,
    /// Tokens in them that nothing else held.
    pub damaged_tokens: u64,
    /// The first damage that a restore found: the file, the place and the remedy.
    pub first_damage: Option<String>,
}
