"""The public functions: each checks its arguments and runs the form that `backend` names."""
