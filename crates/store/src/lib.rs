//! Disk: config roots, projects, session files and what lies beside them.
//!
//! A file may grow or be torn while it is read: it is read to the length that it had when it was
//! opened. A file that we write is whole or not there.
//!
//! Every file is opened here, as a [`ConfinedPath`] or a [`SessionFile`]: a config root and a project may be reached
//! through links; below a project, and in `sessions` and `file-history`, no link is followed and only regular files are
//! opened. What is passed over so is noted in [`Skips`]. A log that a user names through a link is resolved once, and its
//! resolved path is used from then on.

mod confined;
mod dir;
mod find;
mod index;
mod live;
mod pipeline;
mod project;
mod read;
mod skip;
mod write;

pub use confined::{ConfinedPath, NotRegular, open_regular};
pub use find::{Agents, FindError, Found, SessionFile, Store};
pub use index::{Listed, add_to_index};
pub use live::{Holder, Live, writer_of};
pub use pipeline::scan_for_two;
pub use project::{project_dir, project_dir_name, same_project};
pub use read::{
    contains, read_at, read_facts, read_facts_from, read_whole, scan_file, scan_to_length, uuids_in,
};
pub use skip::{Skipped, Skips};
pub use write::{
    NewSession, ReplaceError, Written, copy_beside, copy_files, copy_private, hash_of, holds_files,
    remove_file, remove_stale_parts, replace_session, write_session, write_whole,
};
