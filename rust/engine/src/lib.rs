//! Scheduler, KV pages, draft budget, sampling and verification as a pure state machine.
