//! The output of `show`: a conversation as text or as JSON, whole or bounded.

use std::cell::Cell;
use std::io::{self, Write};
use std::path::Path;

use rethread::{Library, LoadedTranscript, LogSource, MessageNo, Transcript, TranscriptSubagent};
use rethread_render::{self as render, NextStep, ShowOptions, ShownRow, TextLimit, shell_word};

use super::ShowArgs;
use super::rows::{RowCounts, RowWriter};
use crate::args::GlobalArgs;
use crate::bounded::{BoundedOutput, fit, fit_beginning};
use crate::commands::{json_bytes, library_options};
use crate::failure::Failure;
use crate::resume_command::{ResumeCommand, not_resumable};
use crate::terminal::Terminal;
use crate::wording::command_on;

/// The number of characters to which texts are cut at most so that all messages fit.
const MIN_TEXT: usize = 200;

/// A conversation, and how it was asked for.
pub(super) struct ShownConversation<'a> {
    args: &'a ShowArgs,
    global: &'a GlobalArgs,
    terminal: &'a Terminal,
    source: &'a LogSource,
    loaded: &'a LoadedTranscript,
    /// The command that shows this session; `None` for standard input.
    command: Option<String>,
    /// The commands that continue it.
    next: Option<NextStep>,
}

impl<'a> ShownConversation<'a> {
    /// Prepares the output of a conversation.
    pub(super) fn new(
        args: &'a ShowArgs,
        global: &'a GlobalArgs,
        terminal: &'a Terminal,
        library: &Library,
        source: &'a LogSource,
        loaded: &'a LoadedTranscript,
    ) -> Self {
        let shown = Self { args, global, terminal, source, loaded, command: None, next: None };
        let has_next = !args.removed && !global.demo && !global.json;
        let next = has_next.then(|| shown.next_step(library)).flatten();
        Self { command: shown.session_command(library), next, ..shown }
    }

    /// Prints all of it.
    pub(super) fn print(&self) -> Result<(), Failure> {
        let mut out = self.terminal.output();
        let transcript = self.loaded.transcript();
        if self.global.json {
            self.write_rows(&mut out, &transcript, None, &mut RowCounts::default())?;
        } else {
            self.write_text(&mut out, &transcript, None)?;
        }
        out.finish()?;
        Ok(())
    }

    /// Prints at most `max_chars` characters of it.
    pub(super) fn print_bounded(&self, max_chars: usize) -> Result<(), Failure> {
        if self.global.json { self.print_bounded_rows(max_chars) } else { self.print_bounded_text(max_chars) }
    }

    fn print_bounded_rows(&self, max_chars: usize) -> Result<(), Failure> {
        let transcript = self.loaded.transcript();
        // The numbers of the last line have more digits in the end.
        let last =
            RowCounts::default().row(&transcript.header, self.command_from(MessageNo::new(1), false), true);
        let room = max_chars.saturating_sub(json_bytes(&last)?.len() + 64);
        let whole = fit(room, MIN_TEXT, &mut |out, limit| {
            let mut counts = RowCounts::default();
            self.write_rows(out, &transcript, limit, &mut counts).map(|()| counts)
        })?;
        let mut fewer = None;
        for transcript in self.smaller_surroundings(whole.is_none()) {
            fewer = fit(room, MIN_TEXT, &mut |out, limit| {
                let mut counts = RowCounts::default();
                self.write_rows(out, &transcript, limit, &mut counts).map(|()| counts)
            })?;
            if fewer.is_some() {
                break;
            }
        }
        if let Some((fitted, counts)) = fewer {
            return self
                .print_rows(&fitted.text, &counts.row(&transcript.header, self.command_with_room(), true));
        }
        let (fitted, counts) = match whole {
            Some(whole) => whole,
            None => {
                let mut counts = RowCounts::default();
                let transcript = self.starting_at_wanted();
                let write = &mut |out: &mut BoundedOutput, limit| {
                    self.write_rows(out, &transcript, limit, &mut counts)
                };
                (fit_beginning(room, MIN_TEXT, write)?, counts)
            }
        };
        let next = self.command_from(counts.current, counts.messages == 0).filter(|_| fitted.is_cut_off);
        self.print_rows(&fitted.text, &counts.row(&transcript.header, next, fitted.is_cut_off))
    }

    fn print_rows(&self, rows: &[u8], last: &ShownRow) -> Result<(), Failure> {
        let mut out = self.terminal.output();
        out.write_all(rows)?;
        out.write_all(&json_bytes(last)?)?;
        out.finish()?;
        Ok(())
    }

    /// Returns the wanted message with fewer and fewer messages before and after it, if there is no room for all.
    fn smaller_surroundings(&self, is_too_long: bool) -> impl Iterator<Item = Transcript<'_>> {
        let around = self.args.around.filter(|_| is_too_long && self.loaded.at.is_some()).unwrap_or(0);
        let smaller = |around: &usize| Some(if *around > 8 { around / 2 } else { around.saturating_sub(1) });
        let sizes = std::iter::successors(Some(around), smaller).skip(1).take_while(|&around| around > 0);
        sizes.map(|around| self.loaded.transcript_around(around))
    }

    /// Returns the command that prints all that was asked for, or more of it.
    fn command_with_room(&self) -> Option<String> {
        self.command_at(self.loaded.at, self.args.around, true)
    }

    fn print_bounded_text(&self, max_chars: usize) -> Result<(), Failure> {
        let current = Cell::new(None);
        let write = |out: &mut BoundedOutput, transcript: &Transcript<'_>, limit: Option<usize>| {
            let limit = limit.map(|chars| TextLimit { chars, current: &current });
            self.write_text(out, transcript, limit)
        };
        let transcript = self.loaded.transcript();
        let fitted = match fit(max_chars, MIN_TEXT, &mut |out, limit| write(out, &transcript, limit))? {
            Some((fitted, ())) => fitted,
            None => {
                let transcript = self.starting_at_wanted();
                fit_beginning(max_chars, MIN_TEXT, &mut |out, limit| write(out, &transcript, limit))?
            }
        };
        let mut out = self.terminal.output();
        out.write_all(&fitted.text)?;
        out.finish()?;
        if let Some(limit) = fitted.limit {
            let command = self.command.as_ref().map_or_else(String::new, |show| {
                format!("; `{show} --at N --around 0` shows message N in full")
            });
            self.terminal.print_note(&format!("texts are cut to {limit} characters{command}"));
        }
        if let Some(next) =
            self.command_from(current.get(), fitted.text.is_empty()).filter(|_| fitted.is_cut_off)
        {
            self.terminal.print_note(&format!("there is more: {next}"));
        }
        Ok(())
    }

    /// Returns what is shown if not everything fits: no messages before the wanted one.
    fn starting_at_wanted(&self) -> Transcript<'_> {
        let mut transcript = self.loaded.transcript();
        transcript.range.from = self.loaded.at.or(transcript.range.from);
        transcript
    }

    fn write_rows(
        &self,
        out: &mut impl Write,
        transcript: &Transcript<'_>,
        limit: Option<usize>,
        counts: &mut RowCounts,
    ) -> io::Result<()> {
        let rest = &|session: &str, n: MessageNo| {
            let show = match session == self.source.file.id {
                true => self.command.clone()?,
                false => self.command_of(session),
            };
            Some(format!("{show} --at {n} --around 0 --json"))
        };
        transcript.walk(&mut RowWriter { out, transcript, limit, rest, counts })
    }

    fn write_text(
        &self,
        out: &mut dyn Write,
        transcript: &Transcript<'_>,
        limit: Option<TextLimit<'_>>,
    ) -> io::Result<()> {
        let options = ShowOptions {
            tools: self.args.tools.into(),
            subagent: &describe_subagent,
            next: self.next.clone(),
            limit,
        };
        render::write_conversation(out, transcript, &options, &self.terminal.stdout)
    }

    fn session_command(&self, library: &Library) -> Option<String> {
        let file = &self.source.file;
        match self.args.session.as_deref() {
            Some(named) if named == "-" => None,
            Some(named) if Path::new(named).is_file() => Some(self.command_of(&file.path.to_string_lossy())),
            _ => Some(command_on("show", &self.source.id(), &file.path, library, self.global)),
        }
    }

    fn command_of(&self, session: &str) -> String {
        format!("rethread{} show {}", library_options(self.global), shell_word(session))
    }

    /// Returns the command that shows this path from a message on; `is_empty` if nothing before it was shown.
    fn command_from(&self, message: Option<MessageNo>, is_empty: bool) -> Option<String> {
        // A message for which there was no room at all needs more.
        self.command_at(message, None, is_empty)
    }

    /// Returns the command that shows this path at a message, perhaps with room for twice as many characters.
    fn command_at(
        &self,
        message: Option<MessageNo>,
        around: Option<usize>,
        needs_room: bool,
    ) -> Option<String> {
        let mut command = format!("{} --at {}", self.command.as_ref()?, message?);
        let max_chars = self.args.max_chars.map(|chars| chars.saturating_mul(1 + usize::from(needs_room)));
        let options = [("--path", self.args.path), ("--around", around), ("--max-chars", max_chars)];
        for (option, value) in options.into_iter().filter_map(|(option, value)| Some((option, value?))) {
            command += &format!(" {option} {value}");
        }
        command += if self.global.json { " --json" } else { "" };
        Some(command)
    }

    /// Returns the command that continues the shown path: a client resumes the active one, a clone any other.
    fn next_step(&self, library: &Library) -> Option<NextStep> {
        let file = &self.source.file;
        let resume = ResumeCommand::for_log(&file.path, &self.source.id(), self.loaded.resume_dir.clone());
        let resume = resume.filter(|_| !file.is_subagent)?;
        let header = self.loaded.transcript().header;
        if !header.active {
            let clone = command_on("clone", &resume.id, &file.path, library, self.global);
            let clone = format!("{clone} --path {}", header.path_n);
            return Some(NextStep { label: "clone", commands: vec![clone] });
        }
        if let Err(failure) = resume.existing_dir(library) {
            self.terminal.print_note(&not_resumable(&failure));
            return None;
        }
        let enter = resume.dir.as_ref().map(|dir| format!("cd {}", shell_word(&dir.to_string_lossy())));
        let client = ResumeCommand { dir: None, ..resume }.to_string();
        Some(NextStep { label: "resume", commands: enter.into_iter().chain([client]).collect() })
    }
}

/// Describes a subagent under the call that started it.
fn describe_subagent(subagent: &TranscriptSubagent<'_>) -> String {
    match &subagent.log {
        Some(path) => format!("subagent: rethread show {}", render::shell_word(&path.to_string_lossy())),
        None => "subagent, in this file".to_owned(),
    }
}
