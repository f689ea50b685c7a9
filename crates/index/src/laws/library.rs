//! A library of logs on disk to which anything can happen.
#![cfg(test)]

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use proptest::sample::Index as Choice;
use rethread_model::{LogSummary, Session, SessionKind, SessionSummary, Severity, Time, TitleSource, title};
use rethread_store::{SessionFile, Store};
use rethread_testkit::LogBuilder;
use serde_json::json;

use crate::catalogue::IndexLevel;
use crate::error::IndexError;
use crate::index::Index;
use crate::sync::{SyncOptions, SyncReport};

/// Texts of the logs. Each is found by one of the queries.
pub(super) const TEXTS: [&str; 16] = [
    "Is the working tree clean?",
    "The working\ntree is clean.",
    "tree working against a.go:12",
    "fn parseLine(retry_count: u32)",
    "parse_line with HTTPServer2",
    "检查点设置完成",
    "Проверь состояние дерева",
    "C++ [foo] and => { x }",
    "Grüße aus der naïve café",
    "\u{1b}[31mred\u{1b}[0m \u{202e}dehsrever\u{7}",
    "<system-reminder>be kind</system-reminder>\nwhy?",
    "<command-name>/clear</command-name><command-args>tree</command-args>",
    "ckpt_ab_id and ckpt_cd_id",
    "안녕하세요 세계 テスト ﾃｽﾄ",
    "x",
    "…",
];

/// Something that is appended to a log. Numbers select a text.
#[derive(Debug, Clone)]
pub(super) enum Append {
    Prompt(u8),
    Answer(u8),
    /// A call of a tool with thinking before it, and its result.
    Call(u8),
    /// A result before its call.
    LateResult(u8),
    Compaction(u8),
    /// A prompt after an earlier entry.
    Rewind(Choice),
    /// An earlier line again.
    Replay(Choice),
    Title(u8),
    Note(u8),
    Garbage(u8),
}

/// A log and what is known about it.
struct TestLog {
    path: PathBuf,
    builder: LogBuilder,
    /// The rest of a torn line.
    rest: Vec<u8>,
}

/// A library with an index.
pub(super) struct Library {
    root: tempfile::TempDir,
    logs: Vec<TestLog>,
    /// The number of changes so far.
    clock: u64,
    pub(super) index: Index,
}

impl Default for Library {
    fn default() -> Self {
        // The index waits for its disk often; in memory, the tests take a tenth of the time.
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let root = root.expect("a directory");
        let index = Index::at(root.path().join("cache"));
        Self { root, logs: Vec::new(), clock: 0, index }
    }
}

fn text(n: u8) -> &'static str {
    TEXTS[usize::from(n) % TEXTS.len()]
}

impl Library {
    pub(super) fn files(&self) -> Vec<SessionFile> {
        Store::new(vec![self.root.path().to_owned()]).sessions(true)
    }

    pub(super) fn sync(&self, files: &[SessionFile], level: IndexLevel) -> Result<SyncReport, IndexError> {
        let options =
            SyncOptions { level, is_complete: true, waits: true, describe: &describe, progress: &|_| {} };
        self.index.sync(files, &options)
    }

    /// Begins with another index.
    pub(super) fn forget_index(&mut self) {
        self.index = Index::at(self.root.path().join("cache2"));
    }

    /// Returns a path without the directory of the library.
    pub(super) fn name_of<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(self.root.path()).unwrap_or(path)
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn path_of(&self, n: u64, is_subagent: bool) -> PathBuf {
        let project = self.root.path().join(format!("projects/-home-user-app{}", n % 2));
        match is_subagent {
            true => {
                project.join(format!("{:08x}-0000-4000-8000-000000000000/subagents/agent-{n}.jsonl", n - 1))
            }
            false => project.join(format!("{n:08x}-0000-4000-8000-000000000000.jsonl")),
        }
    }

    fn choose(&self, choice: Choice) -> Option<usize> {
        (!self.logs.is_empty()).then(|| choice.index(self.logs.len()))
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) {
        fs::create_dir_all(path.parent().expect("below the library")).expect("created");
        fs::write(path, bytes).expect("written");
        self.set_time(path);
    }

    /// Gives half of the changed files a time that differs from all others; the others keep that of the clock, which
    /// may not have advanced since the last change.
    fn set_time(&mut self, path: &Path) {
        let n = self.tick();
        if n.is_multiple_of(2) {
            let time = SystemTime::now() - Duration::from_secs(1_000_000) + Duration::from_secs(n);
            let file = File::options().append(true).open(path).expect("opened");
            file.set_modified(time).expect("changed");
        }
    }

    pub(super) fn create(&mut self, is_subagent: bool) {
        let n = self.tick();
        let path = self.path_of(n, is_subagent);
        let mut builder = LogBuilder::new(n as u32);
        builder.sidechain(is_subagent.then_some("a1"));
        builder.prompt(text(n as u8));
        self.write(&path, &builder.bytes());
        self.logs.push(TestLog { path, builder, rest: Vec::new() });
    }

    pub(super) fn append(&mut self, log: Choice, what: &Append) {
        let Some(at) = self.choose(log) else { return };
        let new = self.logs[at].add(what);
        self.append_bytes(at, &new);
    }

    fn append_bytes(&mut self, at: usize, bytes: &[u8]) {
        let path = self.logs[at].path.clone();
        let mut file = OpenOptions::new().append(true).open(&path).expect("opened");
        file.write_all(bytes).expect("written");
        drop(file);
        self.set_time(&path);
    }

    pub(super) fn tear(&mut self, log: Choice, what: &Append, cut: Choice) {
        let Some(at) = self.choose(log) else { return };
        let mut new = self.logs[at].add(what);
        // The line break alone is missing as often as anything else.
        let cut = if cut.index(2) == 0 { new.len() - 1 } else { cut.index(new.len()) };
        self.logs[at].rest = new.split_off(cut);
        self.append_bytes(at, &new);
    }

    pub(super) fn complete(&mut self, log: Choice) {
        let Some(at) = self.choose(log) else { return };
        let rest = std::mem::take(&mut self.logs[at].rest);
        self.append_bytes(at, &rest);
    }

    pub(super) fn truncate(&mut self, log: Choice, to: Choice) {
        let Some(at) = self.choose(log) else { return };
        let path = self.logs[at].path.clone();
        let file = OpenOptions::new().write(true).open(&path).expect("opened");
        let len = file.metadata().expect("a file").len() as usize;
        file.set_len(to.index(len + 1) as u64).expect("truncated");
        drop(file);
        self.set_time(&path);
    }

    pub(super) fn rewrite(&mut self, log: Choice, same_size: bool, new_file: bool) {
        let Some(at) = self.choose(log) else { return };
        let path = self.logs[at].path.clone();
        let old = String::from_utf8_lossy(&fs::read(&path).expect("read")).into_owned();
        let new = old.replace("tree", if same_size { "root" } else { "branch" });
        let target = if new_file { path.with_extension("new") } else { path.clone() };
        self.write(&target, new.as_bytes());
        fs::rename(&target, &path).expect("renamed");
    }

    pub(super) fn rename(&mut self, log: Choice) {
        let Some(at) = self.choose(log) else { return };
        let n = self.tick();
        let path = self.path_of(n, false);
        fs::create_dir_all(path.parent().expect("below the library")).expect("created");
        fs::rename(&self.logs[at].path, &path).expect("renamed");
        self.logs[at].path = path;
    }

    pub(super) fn delete(&mut self, log: Choice) {
        let Some(at) = self.choose(log) else { return };
        fs::remove_file(self.logs.remove(at).path).expect("removed");
    }

    pub(super) fn copy(&mut self, log: Choice, new_ids: bool) {
        let Some(at) = self.choose(log) else { return };
        let n = self.tick();
        let path = self.path_of(n, false);
        let mut bytes = fs::read(&self.logs[at].path).expect("read");
        if new_ids {
            let session = self.logs[at].builder.session();
            let text = String::from_utf8_lossy(&bytes);
            bytes = text.replace(&session[..8], &format!("{n:08x}")).into_bytes();
        }
        let builder = self.logs[at].builder.clone();
        self.write(&path, &bytes);
        self.logs.push(TestLog { path, builder, rest: Vec::new() });
    }

    pub(super) fn link(&mut self, log: Choice) {
        let Some(at) = self.choose(log) else { return };
        let n = self.tick();
        let path = match n % 2 {
            // As a backup does it.
            0 => self.root.path().join(format!("backup{n}")),
            _ => self.path_of(n, false),
        };
        fs::create_dir_all(path.parent().expect("below the library")).expect("created");
        fs::hard_link(&self.logs[at].path, path).expect("linked");
    }

    pub(super) fn touch(&mut self, log: Choice) {
        let Some(at) = self.choose(log) else { return };
        let path = self.logs[at].path.clone();
        self.set_time(&path);
    }
}

impl TestLog {
    /// Adds something; returns what has to be appended to the file.
    fn add(&mut self, what: &Append) -> Vec<u8> {
        let log = &mut self.builder;
        let before = log.bytes();
        match what {
            Append::Prompt(n) => drop(log.prompt(text(*n))),
            Append::Answer(n) => drop(log.answer(text(*n))),
            Append::Call(n) => {
                let input = json!({ "file_path": format!("/home/user/app/{n}.rs"), "old_string": text(*n) });
                let thinking =
                    json!({ "type": "thinking", "thinking": text(n.wrapping_add(1)), "signature": "x" });
                log.message(&[thinking, json!({ "type": "text", "text": text(n.wrapping_add(2)) })]);
                let call = log.call(if n % 2 == 0 { "Edit" } else { "Bash" }, &input);
                log.result(&call, text(n.wrapping_add(3)));
            }
            Append::LateResult(n) => {
                let id = format!("toolu_late{n}");
                let block = json!({ "tool_use_id": id, "type": "tool_result", "content": text(*n) });
                log.entry("user", json!({ "message": { "role": "user", "content": [block] } }));
                let call = json!({ "type": "tool_use", "id": id, "name": "Read",
                    "input": { "file_path": format!("/home/user/late{n}.rs") } });
                log.message(&[call]);
            }
            Append::Compaction(n) => drop(log.compact(text(*n))),
            Append::Rewind(to) => {
                let text_of = String::from_utf8(before.clone()).expect("text");
                let uuids: Vec<&str> = text_of.split("\"uuid\":\"").skip(1).map(|rest| &rest[..36]).collect();
                log.back_to(uuids[to.index(uuids.len())]);
                log.prompt("Another way to the tree?");
            }
            Append::Replay(which) => {
                let text_of = String::from_utf8(before.clone()).expect("text");
                let lines: Vec<&str> = text_of.lines().collect();
                log.raw(lines[which.index(lines.len())]);
            }
            Append::Title(n) => {
                let title =
                    json!({ "type": "custom-title", "customTitle": text(*n), "sessionId": log.session() });
                log.raw(&title.to_string());
            }
            Append::Note(n) => drop(log.system("informational", text(*n))),
            Append::Garbage(n) => {
                log.raw(
                    ["", "{}", "{\"type\":\"user\"}", "null", "{\"a\":1}{\"b\":2}", "{torn"]
                        [usize::from(n % 6)],
                );
            }
        }
        log.bytes()[before.len()..].to_vec()
    }
}

/// Summarises a log, as far as these tests compare it.
pub(super) fn describe(file: &SessionFile, session: &Session) -> LogSummary {
    let facts = &session.facts;
    let title = title(facts, None);
    let accepts_title = title.source >= TitleSource::FirstPrompt;
    let summary = SessionSummary {
        id: file.id.as_str().into(),
        path: file.path.clone(),
        kind: SessionKind::Conversation,
        title,
        cwd: facts.cwds.first().map(str::to_owned),
        resume_dir: None,
        first_prompt: facts.first_prompt.clone(),
        created: facts.time_span.map(|(first, _)| first),
        modified: facts.time_span.map(|(_, last)| last).or_else(|| Time::from_system(file.modified?)),
        bytes: file.bytes,
        entries: facts.locations.len() as u64,
        messages: facts.messages.len() as u64,
        turns: session.turns() as u64,
        tool_calls: facts.calls.len() as u64,
        paths: 1,
        compactions: session.compactions() as u64,
        subagents: session.inline_subagent_count() as u64,
        models: facts.models.iter().map(|(model, _)| model.to_owned()).collect(),
        versions: facts.versions.iter().map(|(version, _)| version.to_owned()).collect(),
        git_branch: facts.git_branches.last().map(str::to_owned),
        is_live: false,
        defects: session.defects().len() as u64,
        worktree: None,
        origin: None,
        severity: Some(Severity::Harmless),
    };
    LogSummary {
        project: facts.cwds.first().unwrap_or_default().to_owned(),
        other_titles: facts.summaries.clone(),
        accepts_title,
        summary,
    }
}
