//! The names of token sources.

/// Names by number of `spectrie.v1.Source`; the first has none.
pub const SOURCE_NAMES: [&str; 8] = [
    "",
    "model",
    "prediction",
    "request",
    "shared",
    "corpus",
    "recycled",
    "grammar",
];
