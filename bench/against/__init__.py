"""Two builds in turn: this checkout's against another one's, by the same measuring code."""
