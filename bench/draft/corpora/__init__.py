"""The corpora that drafts are looked up in: which packages, pinned to the member."""
