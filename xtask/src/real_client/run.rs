//! One run of one program on a copy of one session.
//!
//! A [`ClientHome`] is a temporary home with a config directory that contains the copy. Both the client and `rethread`
//! run on it, with an environment that has nothing of the user's. The original session is never touched.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::api::{ApiServer, main_request};
use super::compare::{SentRequest, normalise, parse};
use super::install::InstalledClient;
use crate::tools::copy_dir;

/// The time limit for a client. A resume takes a second.
const TIME_LIMIT: Duration = Duration::from_secs(40);
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The id for a log without one.
const SOME_ID: &str = "5e551011-0000-4000-8000-000000000001";

/// A home for one run with a copy of a session. It is removed when it is dropped.
pub(crate) struct ClientHome {
    home: PathBuf,
    /// The path of the copy.
    pub(crate) session: PathBuf,
    _dir: tempfile::TempDir,
}

/// Error messages for sessions that cannot be cloned.
const IMPOSSIBLE_CLONE: [&str; 3] =
    ["this session has no conversation", "\"message\":\"no path ", "\"message\":\"no message "];

impl ClientHome {
    /// Copies a session and its sidecar files into a new home.
    pub(crate) fn of(source: &Path) -> Result<Self> {
        let bytes = fs::read(source).with_context(|| source.display().to_string())?;
        let dir = tempfile::Builder::new().prefix("real-client-").tempdir()?;
        // A client names the project after the canonical path of its directory.
        let home = fs::canonicalize(dir.path())?;
        let work = home.join("work");
        fs::create_dir(&work)?;
        let project: String =
            work.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let project = home.join(".claude/projects").join(project);
        fs::create_dir_all(&project)?;
        let session = project.join(session_id(source, &bytes)).with_extension("jsonl");
        fs::write(&session, bytes)?;
        let sidecars = source.with_extension("");
        if sidecars.is_dir() {
            copy_dir(&sidecars, &session.with_extension(""))?;
        }
        // Version 1 does not start if a project has no list of tools.
        let settings = json!({ "hasCompletedOnboarding": true, "autoUpdates": false,
            "projects": { (work.to_string_lossy()): { "allowedTools": [], "hasTrustDialogAccepted": true } } });
        fs::write(home.join(".claude/.claude.json"), settings.to_string())?;
        Ok(Self { home, session, _dir: dir })
    }

    /// Resumes the session with a client and a new prompt, and returns the request.
    pub(crate) fn resume(&self, client: &InstalledClient, prompt: &str) -> Result<SentRequest> {
        let api = ApiServer::start().context("no port on loopback")?;
        let id = self.session.file_stem().context("a session has a name")?;
        let (out, err) = (self.home.join("stdout"), self.home.join("stderr"));
        let started = Instant::now();
        // `timeout` puts the client into a process group and ends only that group, even if we are killed.
        let status = self
            .command("timeout")
            .args(["--signal=KILL", &TIME_LIMIT.as_secs().to_string()])
            .args(&client.command)
            .args(["-p", prompt, "--output-format", "json", "--resume"])
            .arg(id)
            .envs(CLIENT_ENV)
            .env("ANTHROPIC_BASE_URL", api.url())
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .status()
            .context("timeout")?;
        let requests = api.requests();
        let main = main_request(&requests, prompt).filter(|_| status.success());
        let client_output = if started.elapsed() >= TIME_LIMIT {
            format!("it was stopped after {} s", TIME_LIMIT.as_secs())
        } else {
            final_message(&fs::read(&out)?, &fs::read(&err)?)
        };
        let messages = main.and_then(|request| request.body["messages"].as_array());
        Ok(SentRequest {
            accepted: messages.is_some(),
            messages: messages.map_or_else(Vec::new, |messages| normalise(messages)),
            client_output,
        })
    }

    /// Returns the request that `rethread preview` predicts for a client.
    pub(crate) fn preview(&self, rethread: &Path, version: &str, prompt: &str) -> Result<SentRequest> {
        let args = ["preview", "--json", "--client", version, "--prompt", prompt];
        let answers = self.run_rethread(rethread, &args)?;
        let preview = answers.iter().find(|answer| answer["type"] == "preview");
        Ok(SentRequest::from_json(preview.context("`rethread preview` printed no preview")?))
    }

    /// Repairs the session; returns the new one, or `None` if there was nothing to repair.
    pub(crate) fn repair(&self, rethread: &Path) -> Result<Option<PathBuf>> {
        let before = fs::read(&self.session)?;
        let answers = self.run_rethread(rethread, &["repair", "--json"])?;
        if fs::read(&self.session)? != before {
            bail!("`rethread repair` changed the session itself");
        }
        let repair = answers.iter().find(|answer| answer["type"] == "repair");
        let output = repair.context("`rethread repair` printed no repair")?["output"].as_str();
        // The path may be relative to the working directory of the command.
        Ok(output.map(|path| self.home.join("work").join(path)))
    }

    /// Clones the session; returns the clone, or `None` if there is none: the session is empty, or it has no such path
    /// or message.
    pub(crate) fn make_clone(&self, rethread: &Path, recipe: &[&str]) -> Result<Option<PathBuf>> {
        let before = fs::read(&self.session)?;
        let args = [&["clone", "--json"], recipe].concat();
        let answers = match self.run_rethread(rethread, &args) {
            Err(error) if IMPOSSIBLE_CLONE.iter().any(|reason| error.to_string().contains(reason)) => {
                return Ok(None);
            }
            answers => answers?,
        };
        if fs::read(&self.session)? != before {
            bail!("`rethread clone` changed the session itself");
        }
        let clone = answers.iter().find(|answer| answer["type"] == "clone");
        let output = clone.context("`rethread clone` printed no clone")?["path"].as_str();
        Ok(output.map(|path| self.home.join("work").join(path)))
    }

    /// Cleans the session in place.
    pub(crate) fn clean(&self, rethread: &Path, options: &[&str]) -> Result<PathBuf> {
        let args = [&["clean", "--json", "--in-place"], options].concat();
        let answers = self.run_rethread(rethread, &args)?;
        answers
            .iter()
            .find(|answer| answer["type"] == "cleaned")
            .context("`rethread clean` printed nothing")?;
        Ok(self.session.clone())
    }

    /// Runs `rethread` on the session and returns the printed documents.
    fn run_rethread(&self, rethread: &Path, args: &[&str]) -> Result<Vec<Value>> {
        let output = self.command(rethread).args(args).arg(&self.session).output().context("rethread")?;
        // Exit code 1 means findings, which are in the output too.
        if !matches!(output.status.code(), Some(0 | 1)) {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("`rethread {}` failed: {}", args[0], stderr.lines().next().unwrap_or("no reason given"));
        }
        // One document over several lines, or one per line.
        if let Ok(document) = parse(&output.stdout) {
            return Ok(vec![document]);
        }
        let lines = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| parse(line).with_context(|| format!("`rethread {}` printed no JSON", args[0])))
            .collect()
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", &self.home)
            .env("CLAUDE_CONFIG_DIR", self.home.join(".claude"))
            .env("LANG", "C.UTF-8")
            .current_dir(self.home.join("work"))
            .stdin(Stdio::null());
        command
    }
}

/// The environment of a client apart from its paths: no traffic other than the API, no downloads, no retries.
const CLIENT_ENV: [(&str, &str); 11] = [
    ("ANTHROPIC_API_KEY", "none"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("CLAUDE_CODE_MAX_RETRIES", "0"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_ERROR_REPORTING", "1"),
    ("DISABLE_TELEMETRY", "1"),
    // We are root inside the namespace, and a session may ask for a mode that a client denies to root.
    ("IS_SANDBOX", "1"),
    ("SHELL", "/bin/bash"),
    ("TERM", "dumb"),
    // Otherwise a session that is too long for the model would be summarised or refused for that alone.
    ("DISABLE_AUTO_COMPACT", "1"),
    ("CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE", "1000000000"),
];

/// Returns the final message of a client: the `result` that it printed, or its errors.
fn final_message(out: &[u8], err: &[u8]) -> String {
    let result = parse(out).ok().and_then(|printed| {
        let results = if let Value::Array(events) = printed { events } else { vec![printed] };
        results.iter().rev().find_map(|event| Some(event["result"].as_str()?.to_owned()))
    });
    result.unwrap_or_else(|| {
        let text = if err.is_empty() { out } else { err };
        String::from_utf8_lossy(text).trim().to_owned()
    })
}

/// Returns the id by which a client finds a session: the name of its file, or an id in the log, since a client accepts
/// only names that are ids.
fn session_id(path: &Path, bytes: &[u8]) -> String {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    if is_uuid(&name) {
        return name;
    }
    let text = String::from_utf8_lossy(bytes);
    let ids = text.split("\"sessionId\":").skip(1);
    let mut ids = ids.filter_map(|after| after.trim_start_matches(' ').strip_prefix('"')?.get(..36));
    ids.find(|id| is_uuid(id)).unwrap_or(SOME_ID).to_owned()
}

pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_id_is_the_file_name_or_in_the_log() {
        let id = "0a1b2c3d-0000-4000-8000-00000000000f";
        let log = format!("{{\"sessionId\":\"no id\"}}\n{{\"sessionId\": \"{id}\"}}\n");
        assert_eq!(session_id(Path::new("x/session.jsonl"), log.as_bytes()), id);
        let other = SOME_ID.replace('1', "2");
        assert_eq!(session_id(Path::new(&format!("x/{other}.jsonl")), log.as_bytes()), other);
        assert_eq!(session_id(Path::new("x/empty.jsonl"), b""), SOME_ID);
    }

    #[test]
    fn client_home_contains_the_copy_and_its_sidecars() {
        let dir = tempfile::tempdir().expect("a directory");
        let source = dir.path().join(SOME_ID).with_extension("jsonl");
        fs::write(&source, "{}\n").expect("a file");
        fs::create_dir_all(dir.path().join(SOME_ID).join("subagents")).expect("a directory");
        fs::write(dir.path().join(SOME_ID).join("subagents/a.jsonl"), "{}").expect("a file");
        let home = ClientHome::of(&source).expect("home is created");
        assert_eq!(fs::read(&home.session).expect("the copy"), b"{}\n");
        assert!(home.session.with_extension("").join("subagents/a.jsonl").is_file());
        assert!(home.session.starts_with(home.home.join(".claude/projects")));
    }

    #[test]
    fn final_message_of_a_client_is_found() {
        assert_eq!(final_message(br#"{"type":"result","result":"done"}"#, b"warning"), "done");
        assert_eq!(final_message(br#"[{"type":"system"},{"type":"result","result":"done"}]"#, b""), "done");
        assert_eq!(final_message(b"", b"No conversation found\n"), "No conversation found");
        assert_eq!(final_message(b"text\n", b""), "text");
    }
}
