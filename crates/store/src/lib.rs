//! Disk: config roots, projects, session files and what lies beside them.
//!
//! A file may grow or be torn while it is read: it is read to the length that it had when it was
//! opened. A file that we write is whole or not there.

mod find;
mod live;
mod project;
mod read;
mod write;

pub use find::{Agents, FindError, Found, SessionFile, Store};
pub use live::Live;
pub use project::{project_dir_name, same_project};
pub use read::{read_facts, read_facts_from, read_whole, uuids_in};
pub use write::{
    Written, copy_beside, hash_of, holds_files, remove_stale_parts, replace_session, write_session,
    write_whole,
};
