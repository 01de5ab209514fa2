//! Draft memory: token sources, scores and draft trees.
