//! Options of the process that hosts an engine: what it decides before the engine starts.

use super::Value;
use super::kind::{DURATION, Kind, at_least};
use super::macros::rows;
use super::row::{Group, OptionRow};

/// Default draft memory of an engine, in bytes: 256 MiB.
pub const MEMORY_BYTES: usize = 256 << 20;

/// Default memory for corpora of an engine, in bytes: 1 GiB, the text and index of about 39 million
/// tokens.
pub const CORPUS_MEMORY_BYTES: usize = 1 << 30;

/// Commands that serve a model.
pub(super) const WORKERS: &[&str] = &["serve", "worker"];

rows! {
    /// Options of the host of an engine.
    pub static HOST;

    /// Maximum requests running at once.
    max_running = Value::None => OptionRow::new(Group::Machine, at_least(1))
        .flag("max_running", WORKERS).flag_range(1.0, 4096.0).shown("by device and free memory").unit("requests").keyword();
    /// Maximum prompt tokens computed in one step, over all requests.
    chunk_tokens = Value::None => OptionRow::new(Group::Machine, at_least(1))
        .flag("chunk_tokens", WORKERS).flag_range(16.0, 8192.0)
        .shown("256, on a GPU 2048").unit("tokens").keyword();
    /// Maximum rows of one step.
    max_batch_rows = Value::None => OptionRow::new(Group::Engine, at_least(1))
        .shown("512, on a GPU 4096").unit("rows");
    /// Insert text on a background thread while the model runs; auto: if a core is free.
    overlap = Value::text("off")
        => OptionRow::new(Group::Speculation, Kind::Choice(&["auto", "on", "off"]))
        .flag("overlap", WORKERS);
    /// Draft from the model's bigrams, computed once in idle time.
    bigrams = Value::text("auto")
        => OptionRow::new(Group::Speculation, Kind::Choice(&["auto", "off"]))
        .flag("bigrams", WORKERS).keyword();
    /// Built corpus to draft from, by name or path; repeat for several.
    corpora = Value::List(Vec::new()) => OptionRow::new(Group::Speculation, Kind::Texts("NAME"))
        .flag("corpus", WORKERS).keyword();
    /// Folder that keeps draft memory and added corpora across restarts; without it no text reaches
    /// the disk.
    state_dir = Value::None => OptionRow::new(Group::State, Kind::Text("DIR"))
        .flag("state_dir", &["serve", "router", "worker"]).keyword();
    /// Time between snapshots of draft memory in --state-dir; 0 writes one at shutdown only.
    snapshot_every_s = Value::Number(300.0) => OptionRow::new(Group::State, DURATION)
        .flag("snapshot_every", WORKERS);
}
