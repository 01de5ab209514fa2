//! Draft memory from outside: one program, because linking one for each file is slow.
#![allow(clippy::expect_used, reason = "a failed helper is a failed test")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/drafts.rs"]
mod drafts;
#[path = "../common/tenants.rs"]
mod tenants;

mod bigrams;
mod corpus;
mod drafter;
mod dropped;
mod edges;
mod fixed_modes;
mod head_modes;
mod inquiries;
mod insertion;
mod memory;
mod model;
mod pushed_out;
mod recorded_drafts;
mod replay;
mod replay_heads;
mod request_room;
mod share_laws;
mod shares;
mod snapshot;
mod snapshot_forget;
mod snapshot_parts;
mod tenancy;
