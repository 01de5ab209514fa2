//! Options of how a model is loaded.

use super::Value;
use super::host::WORKERS;
use super::kind::{Kind, at_least};
use super::macros::rows;
use super::row::{Group, OptionRow};

/// Commands that run a model.
pub(super) const RUNNERS: &[&str] = &["serve", "worker", "generate", "demo"];

/// An option of how a model is loaded.
const fn machine(kind: Kind) -> OptionRow {
    OptionRow::new(Group::Machine, kind).keyword()
}

rows! {
    /// How a model is loaded.
    pub static MODEL;

    /// Device that runs the model.
    device = Value::text("auto") => machine(Kind::Choice(&["auto", "cpu", "cuda"]))
        .flag("device", RUNNERS);
    /// Number format of the weights; auto goes by CPU features, never by timing.
    dtype = Value::text("auto")
        => machine(Kind::Choice(&["auto", "float32", "bfloat16", "float16"]))
        .flag("dtype", RUNNERS);
    /// Arithmetic of a model on a GPU; on a CPU it is always exact.
    ///
    /// `exact`: equal requests and seeds get equal answers, by kernels whose rows do not depend on one
    /// another, which is checked at the start. `fast`: each token is the model's own draw, drafted or not,
    /// but answers may differ. `auto`: exact where that is possible, else fast with a warning.
    gpu_arithmetic = Value::text("auto") => machine(Kind::Choice(&["auto", "exact", "fast"]))
        .flag("gpu_arithmetic", RUNNERS);
    /// Folder of a drafter trained for the model, such as an EAGLE-3 head; the name of a head that ships, such as
    /// smollm2-135m-eagle3; a model of the same tokenizer, named as MODEL is; mtp: the layer for multi-token prediction
    /// in the model's own folder; auto: that layer, else the head that ships for exactly these weights, else none; off:
    /// none; repeat for up to four.
    ///
    /// On a CPU, or on one GPU, there one alone. Tokens do not depend on it. Of several, a step asks the one that
    /// is worth most; modes tiers, eagle2 and chain ask the first.
    drafter = Value::List(Vec::new()) => machine(Kind::Texts("PATH"))
        .flag("drafter", RUNNERS).shown("off");
    /// Threads per worker, or per rank of a worker.
    threads = Value::None => machine(at_least(1))
        .flag("threads", RUNNERS).flag_range(1.0, 1024.0).shown("measured once");
    /// Processes (on GPUs: devices) that share the model of each worker; tokens do not depend on it.
    tensor_parallel = Value::Integer(1) => machine(at_least(1))
        .flag("tensor_parallel", WORKERS).flag_range(1.0, 64.0).unit("processes");
    /// Maximum length of prompt plus answer.
    max_context = Value::None => machine(at_least(1))
        .flag("max_context", RUNNERS).flag_range(16.0, f64::INFINITY).shown("the model's, as far as memory allows").unit("tokens");
    /// Memory for keys and values, per worker.
    kv_memory_bytes = Value::None => machine(Kind::Size)
        .flag("kv_memory", RUNNERS).shown("by free memory");
    /// Pages of the key/value cache, instead of `kv_memory_bytes`.
    num_pages = Value::None => machine(at_least(1)).unit("pages");
}
