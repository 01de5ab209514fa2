//! Limits of a request, the same for every API.

/// Maximum choices of one request.
pub const MAX_CHOICES: u32 = 8;
/// Maximum stop texts of one request.
pub const MAX_STOP_TEXTS: usize = 16;
/// Maximum length of a stop text, in bytes.
pub const MAX_STOP_TEXT_BYTES: usize = 256;
/// Maximum additional stop tokens of one request.
pub const MAX_STOP_TOKEN_IDS: usize = 64;
/// Maximum biased tokens of one request.
pub const MAX_LOGIT_BIAS_ENTRIES: usize = 1024;
/// Maximum chat messages of one request.
pub const MAX_MESSAGES: usize = 2048;
/// Maximum length of a request id or namespace, in bytes.
pub const MAX_NAME_BYTES: usize = 128;
/// Maximum length of `cache_salt` and `prompt_cache_key`, in bytes.
pub const MAX_CACHE_KEY_BYTES: usize = 1024;
/// Maximum banned texts (`bad_words`) of one request.
pub const MAX_BAD_WORDS: usize = 64;
/// Maximum length of a banned text, in bytes.
pub const MAX_BAD_WORD_BYTES: usize = 128;
/// Maximum length of a banned text, in token ids.
pub const MAX_BAD_WORD_IDS: usize = 32;
/// Maximum alternatives that a request may ask for beside each token's log-probability.
pub const MAX_TOP_LOGPROBS: u32 = 20;
/// Maximum length in bytes of a schema, regular expression or grammar, and of all texts of a choice
/// together.
pub const MAX_STRUCTURED_BYTES: usize = 65_536;
/// Maximum texts that an answer may be chosen from.
pub const MAX_STRUCTURED_CHOICES: usize = 1024;
/// Maximum draft nodes in one tree: node 0 is the last emitted token, and a tree's ancestor word
/// has 64 bits.
pub const MAX_DRAFT_TOKENS: usize = 63;
/// The longest context, in tokens, that any match compares.
pub const MAX_MATCH: usize = 64;
