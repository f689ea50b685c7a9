//! Disk: config roots, projects, session files and what lies beside them.
//!
//! A file may grow or be torn while it is read: it is read to the length that it had when it was
//! opened. A file that we write is whole or not there.

mod find;
mod index;
mod live;
mod pipeline;
mod project;
mod read;
mod write;

pub use find::{Agents, FindError, Found, SessionFile, Store};
pub use index::{Listed, add_to_index};
pub use live::Live;
pub use pipeline::scan_for_two;
pub use project::{project_dir, project_dir_name, same_project};
pub use read::{read_at, read_facts, read_facts_from, read_whole, scan_file, scan_to_length, uuids_in};
pub use write::{
    NewSession, Written, copy_beside, copy_files, copy_private, hash_of, holds_files, make_dir,
    remove_stale_parts, replace_session, write_session, write_whole,
};
