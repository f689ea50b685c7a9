//! Sessions and a screen for the tests of the picker.

#![allow(dead_code, reason = "no test file needs all of it")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use rethread::{
    CheckOptions, Client, Hit, Library, LogSource, MatchQuality, MessageKey, MessageNo, MessagePlace,
    SessionSummary, Snippet, TextSource, Time, TranscriptOptions, TranscriptSubagent,
};
use rethread_picker::{
    ContentMatch, HitExcerpt, PickerAction, PickerItem, PickerLook, PickerScope, PickerState, SessionPreview,
};
use rethread_render::{DisplayOptions, ShowOptions, ToolDetail, conversation_lines};
use rethread_testkit::LogBuilder;
use serde_json::json;

pub(crate) const NOW: &str = "2026-01-09T12:00:00Z";

/// Titles and projects of the sample list.
pub(crate) const SAMPLE: [(&str, &str); 8] = [
    ("Fix lost checkpoint", "/home/ada/api"),
    ("Release notes for the spring release", "/home/ada/web"),
    ("Kettle: choose a sensor and write a driver for it that reads every second", "/home/ada/kettle"),
    ("修正登录流程的错误并且添加测试用例到项目之中", "/home/ada/登录"),
    ("emoji 👩‍💻 and e\u{301} combined ❤️ text", "/home/ada/web"),
    ("evil \u{1b}[2J\u{1b}]0;pwned\u{7} \u{202e}txt.exe\u{200b} \u{9b}31m", "/home/ada/\u{1b}[31mred"),
    ("", "/home/ada/api"),
    ("Query planner", "/home/ada/api"),
];

/// Returns a log with this title; the third one has two paths.
pub(crate) fn log(at: usize) -> LogSource {
    let (title, cwd) = SAMPLE[at];
    let mut log = LogBuilder::new(u32::try_from(at + 1).expect("few logs"));
    log.cwd = cwd.to_owned();
    if title.is_empty() {
        log.answer("An answer without a question.");
    } else {
        log.prompt(title);
        log.answer("Let me see.\n\nThis is a **longer** answer with a list:\n- one\n- two");
        let prompt = log.prompt("Try the other way");
        log.answer("Done.");
        if at == 2 {
            log.back_to(&prompt);
            log.prompt("Then go on from here");
            log.answer("Went on.");
        }
    }
    log.raw(&json!({ "type": "custom-title", "customTitle": title, "sessionId": log.session() }).to_string());
    LogSource::from_bytes(&log.session(), format!("{}.jsonl", log.session()).as_ref(), &log.bytes())
}

/// Returns the time of a log: one for each day.
pub(crate) fn modified(at: usize) -> Time {
    let newest = Time::parse(b"2026-01-09T10:00:00.000Z").expect("a time").millis();
    Time::from_millis(newest - 86_400_000 * i64::try_from(at).expect("few logs"))
}

pub(crate) fn summary(at: usize) -> SessionSummary {
    SessionSummary { modified: Some(modified(at)), ..log(at).summary().expect("in memory") }
}

/// Returns a hit in the message with this number; the part of the text between `«` and `»` matches.
pub(crate) fn found(at: usize, n: u32, place: MessagePlace, text: &str) -> ContentMatch {
    let (before, rest) = text.split_once('«').expect("a match");
    let (matched, after) = rest.split_once('»').expect("a match");
    let hit = Hit {
        message: MessageNo::new(n),
        key: MessageKey::from_u64(n.into()),
        line: Some(n),
        source: if n % 2 == 1 { TextSource::Prompt } else { TextSource::Answer },
        place,
        uuid: None,
        time: None,
        tool: None,
        quality: MatchQuality::Phrase,
        score: 1.0,
        position: (0, 0),
        snippet: Some(Snippet {
            text: format!("{before}{matched}{after}"),
            matches: std::iter::once(before.len()..before.len() + matched.len()).collect(),
            cut_before: true,
            cut_after: true,
        }),
    };
    ContentMatch { at, path: PathBuf::from(format!("/c/{at}.jsonl")), hit }
}

/// Returns the preview of a session that was found by its contents.
pub(crate) fn preview_from_hit(at: usize) -> SessionPreview {
    let mut preview = preview(at);
    let lines = std::mem::take(&mut preview.beginning);
    preview.excerpt =
        Some(HitExcerpt { message: MessageNo::new(1).expect("not 0"), is_subagent: false, lines });
    preview
}

pub(crate) fn preview(at: usize) -> SessionPreview {
    let (library, source) = (Library::demo(), log(at));
    let loaded = library.load(&source).expect("in memory");
    let transcript = library.transcript(&source, &TranscriptOptions::default()).expect("a conversation");
    let display =
        DisplayOptions { width: Some(60), ..PickerLook::plain(NOW.parse().expect("a time")).display };
    let subagent = |_: &TranscriptSubagent<'_>| String::new();
    let options = ShowOptions { tools: ToolDetail::Brief, subagent: &subagent, next: None, limit: None };
    let lines = |n| conversation_lines(&transcript.transcript(), &options, &display, n).expect("in memory");
    SessionPreview {
        summary: summary(at),
        paths: loaded.tree(Client::NEWEST),
        report: library.check(&source, &CheckOptions::new()).ok(),
        beginning: lines(100),
        omitted_turns: 12,
        end: lines(4),
        excerpt: None,
    }
}

/// A picker on a screen of a size.
pub(crate) struct Desk {
    pub(crate) state: PickerState,
    pub(crate) terminal: Terminal<TestBackend>,
    pub(crate) now: Instant,
}

impl Desk {
    /// Opens the sample list; nothing has been read.
    pub(crate) fn unread(width: u16, height: u16) -> Self {
        Self::with_look(width, height, PickerLook::plain(NOW.parse().expect("a time")))
    }

    pub(crate) fn with_look(width: u16, height: u16, look: PickerLook) -> Self {
        let item = |at: usize| PickerItem::new(&log(at).file.id, "-home-ada", Some(modified(at)));
        let items = (0..SAMPLE.len()).map(item).collect();
        let mut desk = Self {
            state: PickerState::new(look, PickerScope::All, items),
            terminal: Terminal::new(TestBackend::new(width, height)).expect("a test terminal"),
            now: Instant::now(),
        };
        desk.draw();
        desk
    }

    /// Opens the sample list with all summaries.
    pub(crate) fn read(width: u16, height: u16) -> Self {
        let mut desk = Self::unread(width, height);
        desk.read_all();
        desk
    }

    pub(crate) fn read_all(&mut self) {
        self.state.add_summaries((0..SAMPLE.len()).map(|at| (at, Ok::<_, ()>(Some(summary(at))))));
        self.draw();
    }

    /// Answers the search of the current query.
    pub(crate) fn find(&mut self, found: impl IntoIterator<Item = ContentMatch>) {
        let query = self.state.wanted_search().expect("a query to search for");
        self.state.set_search_results(&query, found);
        self.draw();
    }

    /// Lets time pass until the preview of the selected session has been read.
    pub(crate) fn read_preview(&mut self) {
        self.draw();
        assert_eq!(self.state.wanted_preview(self.now), None, "not while the selection moves");
        self.now += Duration::from_secs(1);
        let (at, _) = self.state.wanted_preview(self.now).expect("a preview is visible");
        let is_found = self.state.content_match(at).is_some();
        let preview = if is_found { preview_from_hit(at) } else { preview(at) };
        self.state.add_preview(at, Ok(preview));
        self.draw();
    }

    pub(crate) fn draw(&mut self) {
        let state = &mut self.state;
        // The test backend keeps what a wide character covered, which a terminal does not.
        self.terminal.clear().expect("a test terminal");
        self.terminal.draw(|frame| state.draw(frame)).expect("a test terminal");
    }

    pub(crate) fn press(&mut self, code: KeyCode) -> Option<PickerAction> {
        self.key(code, KeyModifiers::NONE)
    }

    pub(crate) fn control(&mut self, c: char) -> Option<PickerAction> {
        self.key(KeyCode::Char(c), KeyModifiers::CONTROL)
    }

    pub(crate) fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Option<PickerAction> {
        let action = self.state.handle(&Event::Key(KeyEvent::new(code, modifiers)), self.now);
        self.draw();
        action
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            assert_eq!(self.press(KeyCode::Char(c)), None);
        }
    }

    /// Returns the text on the screen.
    pub(crate) fn screen(&self) -> String {
        let buffer = self.terminal.backend().buffer();
        let mut text = String::new();
        for y in 0..buffer.area.height {
            let mut line = String::new();
            let mut skip = 0;
            for x in 0..buffer.area.width {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                let symbol = buffer[(x, y)].symbol();
                skip = unicode_width::UnicodeWidthStr::width(symbol).saturating_sub(1);
                line.push_str(symbol);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}
