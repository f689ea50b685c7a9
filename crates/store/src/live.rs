//! Finds processes that may write to a session: clients that are registered in `sessions/<pid>.json`, and
//! any process that has the file open.
//!
//! A session that a client has open is never changed. A file in `sessions` that is invalid, because the
//! client is writing it or because it is something else, counts as a client that may have any session of
//! its config directory open, as long as the process given by the file name runs.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::confined::{ConfinedPath, read_all};
use crate::dir::{Dir, FileKind};
use crate::skip::SkippedPaths;

/// The maximum size of a file in `sessions`. Real ones have a few hundred bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The length of a session id.
pub(crate) const UUID_LEN: usize = 36;

/// A client that has a session open.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveClient {
    /// The process of the client.
    pub pid: u32,
    /// The session that the client has open.
    pub session_id: String,
}

/// A process that has a session open, or may have it open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Holder {
    /// A client is registered with this session.
    #[error("session {session} is open in a client (process {pid})")]
    Client {
        /// The session.
        session: String,
        /// The process of the client.
        pid: u32,
    },
    /// A client runs that may have the session open.
    #[error("the session may be open in a client: cannot parse {}", .path.display())]
    Unknown {
        /// The registration file that could not be read.
        path: PathBuf,
    },
    /// A process has the file open for writing.
    #[error("process {pid} has {} open for writing", .path.display())]
    Writer {
        /// The file.
        path: PathBuf,
        /// The process.
        pid: u32,
    },
}

/// The state of a client according to its file in `sessions`.
#[derive(Debug, PartialEq, Eq)]
enum ClientStatus {
    Open(LiveClient),
    /// An unreadable file of a client that may be running.
    Unreadable(PathBuf),
}

/// Lists the sessions that are open in a config directory. Files of processes that have ended are
/// ignored.
pub(crate) fn live_clients_in(root: &Path, skips: &SkippedPaths) -> Vec<LiveClient> {
    let open = |status| match status {
        ClientStatus::Open(live) => Some(live),
        ClientStatus::Unreadable(path) => {
            let below = path.strip_prefix(root).unwrap_or(&path);
            if let Ok(FileKind::Other(reason)) = ConfinedPath::new(root, below).kind() {
                skips.record(path, reason);
            }
            None
        }
    };
    client_statuses_in(root).into_iter().filter_map(open).collect()
}

/// Finds a client in a config directory that has one of these sessions open, or may have it open.
pub(crate) fn holder_in(root: &Path, ids: &[String]) -> Option<Holder> {
    let holder = |status| match status {
        ClientStatus::Open(live) if ids.contains(&live.session_id) => {
            Some(Holder::Client { session: live.session_id, pid: live.pid })
        }
        ClientStatus::Open(_) => None,
        ClientStatus::Unreadable(path) => Some(Holder::Unknown { path }),
    };
    client_statuses_in(root).into_iter().find_map(holder)
}

fn client_statuses_in(root: &Path) -> Vec<ClientStatus> {
    let sessions = ConfinedPath::new(root, "sessions");
    match sessions.kind() {
        Ok(FileKind::Dir) => {}
        // The link may lead to the registrations of clients. It is not followed, so any session may be
        // open.
        Ok(FileKind::Other(_)) => return vec![ClientStatus::Unreadable(sessions.path())],
        _ => return Vec::new(),
    }
    let entries = match Dir::open(root).and_then(|dir| dir.descend(Path::new("sessions"))?.entries()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(_) => return vec![ClientStatus::Unreadable(sessions.path())],
    };
    entries
        .into_iter()
        .filter_map(|(name, kind)| read_client_status(&sessions.join(&name), &name, kind))
        .collect()
}

fn read_client_status(file: &ConfinedPath, name: &OsStr, kind: FileKind) -> Option<ClientStatus> {
    let name = name.to_string_lossy();
    let stem = name.strip_suffix(".json")?;
    let pid_in_name: Option<u32> = stem.parse().ok();
    let text = match kind {
        FileKind::File => match read_small(file) {
            Ok(text) => text,
            // The file is removed when the client ends.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(_) => Vec::new(),
        },
        _ => Vec::new(),
    };
    let live: Option<LiveClient> = serde_json::from_slice(&text).ok();
    // An id that is too short may be a partly written one.
    let live = live.filter(|live| live.session_id.len() >= UUID_LEN);
    match live {
        Some(live) => {
            (is_running(live.pid) || pid_in_name.is_some_and(is_running)).then_some(ClientStatus::Open(live))
        }
        // Without a pid in the file name no process can be checked.
        None => pid_in_name.is_none_or(is_running).then(|| ClientStatus::Unreadable(file.path())),
    }
}

fn read_small(file: &ConfinedPath) -> io::Result<Vec<u8>> {
    let file = file.open()?;
    if file.metadata()?.len() > MAX_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    read_all(&file)
}

/// Returns whether a process runs. Where that cannot be determined, a client with a file counts as
/// running.
fn is_running(pid: u32) -> bool {
    let processes = Path::new("/proc");
    if !processes.join("self").exists() {
        return can_signal(pid).unwrap_or(true);
    }
    // Some systems hide processes in `/proc`.
    processes.join(pid.to_string()).exists() || can_signal(pid).unwrap_or(false)
}

/// Asks the system whether a signal could be sent to a process.
fn can_signal(pid: u32) -> Option<bool> {
    #[cfg(unix)]
    {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
        match rustix::process::test_kill_process(pid) {
            Ok(()) | Err(rustix::io::Errno::PERM) => Some(true),
            Err(_) => Some(false),
        }
    }
    #[cfg(not(unix))]
    {
        let _ = pid;
        None
    }
}

/// Finds a process that has one of these files open for writing, under any name. Files that cannot be
/// opened are skipped.
///
/// Reads `/proc/<pid>/fd` on Linux, for the processes of this user. Finds nothing on other systems.
pub fn find_writer<'p>(paths: impl IntoIterator<Item = &'p ConfinedPath>) -> Option<Holder> {
    let open = paths.into_iter().filter_map(|path| Some((path.open().ok()?, path.path())));
    find_writer_of_open(&open.collect::<Vec<_>>())
}

/// Finds a process that has one of these files open for writing.
pub(crate) fn find_writer_of_open(files: &[(File, PathBuf)]) -> Option<Holder> {
    #[cfg(target_os = "linux")]
    {
        use std::collections::HashMap;
        use std::os::unix::fs::MetadataExt;
        let known = |(file, path): &(File, PathBuf)| {
            let metadata = file.metadata().ok()?;
            Some(((metadata.dev(), metadata.ino()), path.clone()))
        };
        let known: HashMap<(u64, u64), PathBuf> = files.iter().filter_map(known).collect();
        let numbered = |entry: io::Result<std::fs::DirEntry>| -> Option<(u32, PathBuf)> {
            let entry = entry.ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, entry.path()))
        };
        let written = |fd: &Path| {
            // The mode of the link gives the mode in which the file was opened.
            let writes = std::fs::symlink_metadata(fd).is_ok_and(|link| link.mode() & 0o200 != 0);
            let open = if writes { std::fs::metadata(fd).ok()? } else { return None };
            known.get(&(open.dev(), open.ino())).cloned()
        };
        std::fs::read_dir("/proc").ok()?.filter_map(numbered).find_map(|(pid, process)| {
            let mut open = std::fs::read_dir(process.join("fd")).into_iter().flatten().filter_map(numbered);
            open.find_map(|(_, fd)| written(&fd)).map(|path| Holder::Writer { path, pid })
        })
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = files;
        None
    }
}

/// Returns the sessions that a path belongs to, judged by its components: a log, or a file in a sidecar
/// directory.
pub(crate) fn session_ids_in_path(path: &Path) -> Vec<String> {
    let id = |name: &OsStr| {
        let name = name.to_string_lossy();
        name.strip_suffix(".jsonl").unwrap_or(&name).to_owned()
    };
    path.iter().map(id).collect()
}

/// Returns the config directories that a path may be in: `<root>/projects/…`.
pub(crate) fn config_roots_above(path: &Path) -> Vec<PathBuf> {
    let is_projects = |dir: &&Path| dir.file_name().is_some_and(|name| name == "projects");
    let above = path.ancestors().filter(is_projects).filter_map(Path::parent);
    above.chain(path.ancestors().nth(3)).map(Path::to_owned).collect()
}

/// Returns the session that the first entry of a subagent log of an older client names.
pub(crate) fn owner_session_id(log: &ConfinedPath) -> Option<String> {
    use std::io::Read;
    let mut head = Vec::new();
    log.open().ok()?.take(64 * 1024).read_to_end(&mut head).ok()?;
    let line = head.split(|&b| b == b'\n').next().unwrap_or_default();
    Some(rethread_log::Json::new(line).get("sessionId")?.as_str()?.into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_running_clients_are_live() {
        let root = tempfile::tempdir().expect("a directory");
        let dir = root.path().join("sessions");
        fs::create_dir(&dir).expect("created");
        let pid = std::process::id();
        let (a, b) = ("a".repeat(UUID_LEN), "b".repeat(UUID_LEN));
        let write = |name: &str, text: &str| fs::write(dir.join(name), text).expect("written");
        write("1.json", &format!(r#"{{"pid":{pid},"sessionId":"{a}","cwd":"/x"}}"#));
        write("4294967294.json", &format!(r#"{{"pid":4294967294,"sessionId":"{b}"}}"#));
        write("4294967293.json", "torn {");
        write("4.key", "x");
        assert_eq!(
            live_clients_in(root.path(), &SkippedPaths::default()),
            [LiveClient { pid, session_id: a.clone() }]
        );
        let held = Holder::Client { session: a.clone(), pid };
        assert_eq!(holder_in(root.path(), &[b.clone(), a]), Some(held));
        assert_eq!(holder_in(root.path(), &[b]), None);
    }

    #[test]
    fn invalid_file_of_running_client_holds_every_session() {
        let pid = std::process::id();
        let root = tempfile::tempdir().expect("a directory");
        let dir = root.path().join("sessions");
        fs::create_dir(&dir).expect("created");
        let file = dir.join(format!("{pid}.json"));
        let holds = || matches!(holder_in(root.path(), &["x".into()]), Some(Holder::Unknown { .. }));
        let torn = format!(r#"{{"pid":{pid},"sessionId":"a"#);
        for text in ["", "{", "{}", "[]", &torn, &format!("{torn}\"}}"), &format!(r#"{{"pid":{pid}}}"#)] {
            fs::write(&file, text).expect("written");
            assert!(holds(), "{text}");
        }
        fs::remove_file(&file).expect("removed");
        assert!(!holds());
        fs::create_dir(&file).expect("created");
        assert!(holds(), "a directory instead of the file");
        #[cfg(unix)]
        {
            fs::remove_dir(&file).expect("removed");
            std::os::unix::fs::symlink("/nonexistent", &file).expect("linked");
            assert!(holds(), "a link instead of the file");
            fs::remove_dir_all(&dir).expect("removed");
            std::os::unix::fs::symlink(root.path(), &dir).expect("linked");
            assert!(holds(), "a link instead of the directory");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn writer_is_found_under_any_name_of_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, two) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&one, "x").expect("written");
        fs::hard_link(&one, &two).expect("linked");
        let _read = File::open(&one).expect("opened");
        let file = [ConfinedPath::of_file(&one)];
        assert_eq!(find_writer(&file), None, "a reader is not a writer");
        let open = File::options().append(true).open(&two).expect("opened");
        let pid = std::process::id();
        assert_eq!(find_writer(&file), Some(Holder::Writer { path: one.clone(), pid }));
        drop(open);
        assert_eq!(find_writer(&file), None);
    }
}
