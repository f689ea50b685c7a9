//! Sessions that a client has open: `sessions/<pid>.json`.

use std::fs;
use std::path::Path;

use serde::Deserialize;

/// A client that has a session open.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Live {
    /// The client's process.
    pub pid: u32,
    /// The session that it has open.
    pub session_id: String,
}

/// Reads which sessions are open under a config root. A file whose process is gone is ignored.
pub(crate) fn live_sessions(root: &Path) -> Vec<Live> {
    let Ok(files) = fs::read_dir(root.join("sessions")) else { return Vec::new() };
    files
        .filter_map(|file| {
            let path = file.ok()?.path();
            (path.extension()? == "json").then_some(())?;
            // A file of this sort is a few hundred bytes; anything large is something else.
            (fs::metadata(&path).ok()?.len() < 1 << 20).then_some(())?;
            let live: Live = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            runs(live.pid).then_some(live)
        })
        .collect()
}

/// Where processes cannot be looked up, a client that left its file is taken to be running.
fn runs(pid: u32) -> bool {
    let processes = Path::new("/proc");
    !processes.join("self").exists() || processes.join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_running_clients_count() {
        let root = tempfile::tempdir().expect("a directory");
        let dir = root.path().join("sessions");
        fs::create_dir(&dir).expect("created");
        let pid = std::process::id();
        let write = |name: &str, text: &str| fs::write(dir.join(name), text).expect("written");
        write("1.json", &format!(r#"{{"pid":{pid},"sessionId":"a","cwd":"/x"}}"#));
        write("2.json", r#"{"pid":4294967294,"sessionId":"b"}"#);
        write("3.json", "torn {");
        write("4.key", "x");
        assert_eq!(live_sessions(root.path()), [Live { pid, session_id: "a".into() }]);
    }
}
