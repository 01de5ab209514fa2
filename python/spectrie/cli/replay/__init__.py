"""`spectrie replay`: recorded requests drafted again, and what that would save."""
