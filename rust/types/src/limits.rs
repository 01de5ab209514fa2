//! Limits of a request, the same behind every API.

/// Most choices of one request.
pub const MAX_CHOICES: u32 = 8;
/// Most stop texts of one request.
pub const MAX_STOP_TEXTS: usize = 16;
/// Longest stop text, in bytes.
pub const MAX_STOP_TEXT_BYTES: usize = 256;
/// Most further stop tokens of one request.
pub const MAX_STOP_TOKEN_IDS: usize = 64;
/// Most biased tokens of one request.
pub const MAX_LOGIT_BIAS_ENTRIES: usize = 1024;
/// Most chat messages of one request.
pub const MAX_MESSAGES: usize = 2048;
/// Longest request id and namespace, in bytes.
pub const MAX_NAME_BYTES: usize = 128;
/// Most banned texts (`bad_words`) of one request.
pub const MAX_BAD_WORDS: usize = 64;
/// Longest banned text, in bytes.
pub const MAX_BAD_WORD_BYTES: usize = 128;
/// Longest banned text, in token ids.
pub const MAX_BAD_WORD_IDS: usize = 32;
/// Most alternatives that a request may ask for beside each token's log-probability.
pub const MAX_TOP_LOGPROBS: u32 = 20;
/// Longest schema, regular expression or grammar, and all texts of a choice together, in bytes.
pub const MAX_STRUCTURED_BYTES: usize = 65_536;
/// Most texts that an answer may be chosen from.
pub const MAX_STRUCTURED_CHOICES: usize = 1024;
/// Most draft nodes in one tree: node 0 is the last emitted token, and a tree's ancestor word has
/// 64 bits.
pub const MAX_DRAFT_TOKENS: usize = 63;
