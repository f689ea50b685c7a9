//! Output to a terminal, a pager or a pipe.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rethread::Progress;
use rethread_render::{DisplayOptions, Style};

use crate::args::{ColorArg, GlobalArgs};
use crate::ascii::AsciiWriter;
use crate::commands::json_bytes;
use crate::failure::Failure;

/// The properties of the terminal and the output options.
pub(crate) struct Terminal {
    pub(crate) stdout: DisplayOptions,
    stdout_is_ascii: bool,
    pager: bool,
    quiet: bool,
    stderr: DisplayOptions,
    stderr_is_ascii: bool,
    stderr_is_terminal: bool,
    /// Set if printed commands need `--demo`.
    demo: bool,
    /// Set if errors are printed as JSON.
    json: bool,
}

impl Terminal {
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        let now = now();
        let is_terminal = io::stdout().is_terminal();
        let stderr_is_terminal = io::stderr().is_terminal();
        let wanted = |is_terminal: bool| match global.color {
            ColorArg::Always => true,
            ColorArg::Never => false,
            ColorArg::Auto => is_terminal && !no_color() && !is_dumb(),
        };
        let look = |is_terminal: bool| DisplayOptions {
            color: wanted(is_terminal),
            // Colours are requested for display, so escape as on a terminal.
            escape: is_terminal || global.color == ColorArg::Always,
            width: if is_terminal { Some(width()) } else { columns() },
            now,
            zone: jiff::tz::TimeZone::system(),
        };
        Self {
            // A pager moves the cursor.
            pager: is_terminal && !is_dumb() && !global.no_pager && !global.json,
            quiet: global.quiet,
            stderr: look(stderr_is_terminal),
            stderr_is_ascii: stderr_is_terminal && !shows_utf8(),
            stderr_is_terminal,
            stdout: look(is_terminal),
            stdout_is_ascii: stdout_is_ascii(),
            demo: global.demo,
            json: global.json,
        }
    }

    /// Opens the output, with a pager if appropriate.
    pub(crate) fn output(&self) -> PagedOutput {
        let pager = if self.pager { start_pager() } else { None };
        let to = match pager {
            Some(child) => Destination::Pager(child),
            None => Destination::Stdout(io::BufWriter::with_capacity(1 << 16, io::stdout())),
        };
        if self.stdout_is_ascii { PagedOutput::Ascii(AsciiWriter::new(to)) } else { PagedOutput::Utf8(to) }
    }

    fn messages(&self) -> Box<dyn Write> {
        if self.stderr_is_ascii { Box::new(AsciiWriter::new(io::stderr())) } else { Box::new(io::stderr()) }
    }

    /// Prints a line of data, without a pager.
    pub(crate) fn print_line(&self, text: &str) -> io::Result<()> {
        writeln!(io::stdout(), "{}", self.stdout.sanitize(text))
    }

    /// Returns whether notes are left out.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Prints a note on stderr, unless `--quiet` is set.
    pub(crate) fn print_note(&self, text: &str) {
        if !self.quiet {
            let text = self.fit_message("", text);
            let _ = writeln!(self.messages(), "{}", self.stderr.paint(Style::Dim, text));
        }
    }

    /// Prints a warning about an error that does not stop the work.
    pub(crate) fn warn(&self, failure: &Failure) {
        self.print("warning", failure);
    }

    /// Prints the error that ends the program. With `--json` it is one object, the last line on stderr.
    pub(crate) fn print_error(&self, failure: &Failure) {
        if self.json {
            print_json_error(&failure.to_json(|text| self.with_options(text).into_owned()));
        } else {
            self.print("error", failure);
        }
    }

    fn print(&self, word: &str, failure: &Failure) {
        let mut err = self.messages();
        let word = format!("{word}:");
        let error = match &failure.pointer {
            Some(lines) => self.fit_message(&word, &format!("{}\n{lines}", failure.error)),
            None => self.fit_message(&word, &failure.error),
        };
        let _ = writeln!(err, "{}{error}", self.stderr.paint(Style::Error, &word));
        for hint in &failure.hints {
            let hint = self.fit_message("hint:", hint);
            let _ = writeln!(err, "{}{hint}", self.stderr.paint(Style::Active, "hint:"));
        }
    }

    /// Prepares a message for the terminal: escaped, and wrapped between words. Returns what follows `label`.
    fn fit_message(&self, label: &str, text: &str) -> String {
        let text = self.with_options(text);
        let text = self.stderr.sanitize(&text);
        let text = if label.is_empty() { text.into_owned() } else { format!("{label} {text}") };
        let lines = text.split('\n').map(|line| match self.stderr.width {
            Some(width) if self.stderr_is_terminal => rethread_render::wrap_message(line, width),
            _ => line.to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n")[label.len()..].to_owned()
    }

    /// Adds `--demo` to the commands in a message, so that they can be pasted into a shell.
    fn with_options<'t>(&self, text: &'t str) -> Cow<'t, str> {
        const COMMAND: &str = "`rethread ";
        match self.demo && text.contains(COMMAND) && !text.contains("--demo") {
            true => Cow::Owned(text.replace(COMMAND, "`rethread --demo ")),
            false => Cow::Borrowed(text),
        }
    }

    /// Returns whether progress should be shown.
    pub(crate) fn is_interactive(&self) -> bool {
        self.stderr_is_terminal && !self.quiet && !is_dumb()
    }

    /// Shows the progress of work on a number of bytes, if it takes longer than a second. `bytes` is
    /// evaluated only if progress is shown.
    pub(crate) fn progress(&self, bytes: impl FnOnce() -> u64) -> ProgressMeter {
        let bar = self.is_interactive().then(|| {
            let bar = ProgressBar::with_draw_target(Some(bytes()), ProgressDrawTarget::hidden());
            let style = ProgressStyle::with_template("{bar:30} {bytes} of {total_bytes}, {eta} left");
            if let Ok(style) = style {
                bar.set_style(if self.stderr_is_ascii { style.progress_chars("=> ") } else { style });
            }
            Mutex::new(bar)
        });
        ProgressMeter(Arc::new(LateBar { bar, started: std::time::Instant::now() }))
    }
}

/// Prints an error as one line of JSON.
pub(crate) fn print_json_error(error: &serde_json::Value) {
    if let Ok(line) = json_bytes(error) {
        let _ = io::stderr().write_all(&line);
    }
}

/// Shows the progress of one operation until it is dropped.
pub(crate) struct ProgressMeter(Arc<LateBar>);

impl ProgressMeter {
    pub(crate) fn advance(&self, bytes: u64) {
        self.0.advance(bytes);
    }

    /// Returns the observer of a library that advances the meter.
    pub(crate) fn observer(&self) -> impl Fn(Progress<'_>) + Send + Sync + use<> {
        let bar = Arc::clone(&self.0);
        move |progress| bar.advance(progress.bytes)
    }
}

impl Drop for ProgressMeter {
    fn drop(&mut self) {
        if let Some(bar) = &self.0.bar
            && let Ok(bar) = bar.lock()
        {
            bar.finish_and_clear();
        }
    }
}

/// A progress bar that appears only if the work takes long.
struct LateBar {
    bar: Option<Mutex<ProgressBar>>,
    started: std::time::Instant,
}

impl LateBar {
    fn advance(&self, bytes: u64) {
        let Some(bar) = &self.bar else { return };
        let Ok(bar) = bar.lock() else { return };
        bar.inc(bytes);
        if bar.is_hidden() && self.started.elapsed().as_millis() > 1000 {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

/// Returns the reference time for relative times; tests and recordings fix it.
pub(crate) fn now() -> jiff::Timestamp {
    let fixed = std::env::var("RETHREAD_NOW").ok().and_then(|now| now.parse().ok());
    fixed.unwrap_or_else(jiff::Timestamp::now)
}

fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Returns whether the terminal can only print lines.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Returns whether standard output is a terminal that cannot show UTF-8.
pub(crate) fn stdout_is_ascii() -> bool {
    io::stdout().is_terminal() && !shows_utf8()
}

/// Returns whether the terminal shows UTF-8, as the locale says.
pub(crate) fn shows_utf8() -> bool {
    if cfg!(any(windows, target_os = "macos")) {
        return true;
    }
    let value = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(value);
    locale_shows_utf8(locale.as_deref()).unwrap_or_else(|| !is_dumb())
}

/// Returns whether a locale uses UTF-8; `None` if there is no locale. Terminals in containers and over ssh often have
/// none, and show UTF-8.
fn locale_shows_utf8(locale: Option<&str>) -> Option<bool> {
    let locale = locale?.to_ascii_lowercase();
    Some(locale.contains("utf-8") || locale.contains("utf8"))
}

fn width() -> usize {
    columns()
        .or_else(|| terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)))
        .unwrap_or(80)
        .max(40)
}

/// Returns the width set by `COLUMNS`, which also applies without a terminal.
fn columns() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|&columns| columns >= 20)
}

fn start_pager() -> Option<Child> {
    let named = |name| std::env::var(name).ok().filter(|pager| !pager.trim().is_empty());
    let pager = named("RETHREAD_PAGER").or_else(|| named("PAGER")).unwrap_or_else(|| "less -FRX".into());
    let mut words = pager.split_whitespace();
    let program = words.next()?;
    if program == "cat" {
        return None;
    }
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped());
    if program == "less" && std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    // Without a locale `less` assumes ASCII, and would print the bytes of other characters.
    if std::env::var_os("LESSCHARSET").is_none() {
        command.env("LESSCHARSET", "utf-8");
    }
    command.spawn().ok()
}

/// The destination of data, as the terminal can show it.
pub(crate) enum PagedOutput {
    Utf8(Destination),
    Ascii(AsciiWriter<Destination>),
}

impl PagedOutput {
    /// Flushes the output and waits until the pager is closed.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()
    }
}

impl Write for PagedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Utf8(to) => to.write(bytes),
            Self::Ascii(to) => to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Utf8(to) => to.flush(),
            Self::Ascii(to) => to.flush(),
        }
    }
}

/// Standard output or a pager.
pub(crate) enum Destination {
    Stdout(io::BufWriter<io::Stdout>),
    Pager(Child),
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::Pager(child) => match &mut child.stdin {
                Some(stdin) => stdin.write(bytes),
                None => Err(io::ErrorKind::BrokenPipe.into()),
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::Pager(_) => Ok(()),
        }
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if let Self::Pager(child) = self {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locale_decides_about_utf8() {
        for (locale, expected) in
            [("C", false), ("POSIX", false), ("de_DE", false), ("C.UTF-8", true), ("en_GB.utf8", true)]
        {
            assert_eq!(locale_shows_utf8(Some(locale)), Some(expected), "{locale}");
        }
        assert_eq!(locale_shows_utf8(None), None);
    }
}
