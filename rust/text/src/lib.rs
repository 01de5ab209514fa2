//! Tokenizer, chat template, incremental detokenization and stop strings.
