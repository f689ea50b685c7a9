//! All disk access: config directories, projects, session files and their sidecars.
//!
//! [`Store`] finds sessions in config directories, [`scan_file`] and [`read_whole`] read a log,
//! [`NewSession`] and [`replace_session`] write one.
//!
//! A file may grow or be torn while it is read: it is read up to the length it had when it was opened. A
//! written file is complete or absent, and a session that a client has open is never changed.
//!
//! Every file is opened here, as a [`ConfinedPath`] or a [`SessionFile`]: a config directory and a
//! project may be reached through links; below a project, and in `sessions` and `file-history`, no link
//! is followed and only regular files are opened. Anything else is recorded in [`SkippedPaths`]. A log
//! that a user names through a link is resolved once, and its resolved path is used from then on.
//!
//! The content of files is left to `rethread-log` and `rethread-model`. Overwriting a session in place
//! was rejected; see `write.rs`.

mod cache;
mod confined;
mod dir;
mod find;
mod index;
mod live;
mod pipeline;
mod project;
mod read;
mod skip;
mod worktree;
mod write;

pub use cache::{CacheDir, CacheLock};
pub use confined::{ConfinedPath, PathRejection, open_regular};
pub use dir::FileStat;
pub use find::{FindError, FoundSessions, SessionFile, Store, SubagentIndex};
pub use index::{IndexEntry, add_to_index};
pub use live::{Holder, LiveClient, find_writer};
pub use pipeline::scan_into_two_sinks;
pub use project::{is_project_dir_for, project_dir, project_dir_name};
pub use read::{
    any_piece, bytes_read, end_of_last_line, find_uuids, for_each_piece_of, log_contains, read_at,
    read_facts, read_facts_from, read_line_at, read_user_text, read_whole, scan_file, scan_lines_with,
    scan_range, scan_to_length,
};
pub use skip::{SkippedPath, SkippedPaths};
pub use worktree::{client_worktree, worktree_of};
pub use write::{
    FileDigest, NewSession, ReplaceError, copy_files, copy_private, copy_side_dir, create_dir,
    create_private_tree, first_visible_file, hash_file, remove_file, remove_stale_parts, remove_tree,
    replace_session, write_atomic, write_session,
};
