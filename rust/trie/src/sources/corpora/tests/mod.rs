//! Corpora as drafts read them: the same whoever built them, in bounded memory, and without a word
//! of what is damaged or cut off.

mod built;
mod damage;
mod format_one;
mod fuzz;
mod reads;
mod support;
