//! Terminal text: colours by role, sizes, times, widths, and escaping of untrusted text.

use std::borrow::Cow;
use std::fmt::{self, Display};

use anstyle::{AnsiColor, Color, Style as Ansi};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use rethread_model::Time;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::hidden::hidden_chars;

/// The role of a piece of text; its appearance is defined in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Ids and numbers that can be used as arguments.
    Id,
    /// Titles and headings.
    Title,
    /// Secondary text.
    Dim,
    /// Text by a person.
    Human,
    /// Text by the model.
    Model,
    /// Tools and their output.
    Tool,
    /// The branch that the client would continue.
    Active,
    /// Abandoned branches.
    Abandoned,
    /// Errors and defects.
    Error,
    /// Headings inside a text.
    Heading,
    /// Strongly emphasised text.
    Strong,
    /// Emphasised text.
    Emphasis,
    /// Deleted text.
    Strike,
    /// Code inside a sentence.
    Code,
    /// Links.
    Link,
    /// Keywords of a programming language.
    Keyword,
    /// String literals.
    Literal,
    /// Numbers in code.
    Number,
    /// Comments in code.
    Comment,
    /// Added lines.
    Added,
    /// Removed lines.
    Removed,
    /// Text that a search found.
    Match,
    /// No particular role.
    Plain,
}

impl Style {
    /// Returns its appearance. Only the 16 colours of the terminal's own palette are used, and of these only
    /// those that are readable on a light and on a dark background.
    pub fn ansi(self) -> Ansi {
        let color = |color: AnsiColor| Ansi::new().fg_color(Some(Color::Ansi(color)));
        match self {
            Self::Id => color(AnsiColor::Yellow),
            Self::Title => Ansi::new().bold(),
            Self::Dim => Ansi::new().dimmed(),
            Self::Human => color(AnsiColor::Green).bold(),
            Self::Model => color(AnsiColor::Cyan).bold(),
            Self::Tool => color(AnsiColor::Magenta),
            Self::Active => color(AnsiColor::Green),
            Self::Abandoned => color(AnsiColor::BrightBlue),
            Self::Error | Self::Removed => color(AnsiColor::Red),
            Self::Heading | Self::Strong => Ansi::new().bold(),
            Self::Emphasis => Ansi::new().italic(),
            Self::Strike => Ansi::new().strikethrough(),
            Self::Code | Self::Number => color(AnsiColor::Cyan),
            Self::Link => Ansi::new().underline(),
            Self::Keyword => color(AnsiColor::Magenta),
            Self::Literal | Self::Added => color(AnsiColor::Green),
            Self::Comment => Ansi::new().dimmed().italic(),
            Self::Match => color(AnsiColor::Red).bold(),
            Self::Plain => Ansi::new(),
        }
    }
}

/// Settings for terminal output.
#[derive(Debug, Clone)]
pub struct DisplayOptions {
    /// Use colours.
    pub color: bool,
    /// The output is a terminal: escape control characters.
    pub escape: bool,
    /// Number of columns; none if lines may have any length.
    pub width: Option<usize>,
    /// The reference time for relative times.
    pub now: Timestamp,
    /// The reader's time zone.
    pub zone: TimeZone,
}

impl DisplayOptions {
    /// Returns settings for pipes and tests: plain text of any width, times in UTC.
    pub fn plain(now: Timestamp) -> Self {
        Self { color: false, escape: false, width: None, now, zone: TimeZone::UTC }
    }

    /// Paints trusted text.
    pub fn paint(&self, style: Style, text: impl Display) -> String {
        let text = text.to_string();
        if !self.color || style == Style::Plain || text.is_empty() {
            return text;
        }
        let ansi = style.ansi();
        format!("{ansi}{text}{ansi:#}")
    }

    /// Escapes text from a log for printing.
    pub fn sanitize<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.escape { escape(text) } else { text.into() }
    }

    /// Escapes text from a log for printing on one line of a terminal.
    pub fn sanitize_line(&self, text: &str) -> String {
        self.sanitize(&rethread_model::collapse_whitespace(text)).into_owned()
    }

    /// Escapes the beginning of a text from a log for printing on `width` columns of one terminal line.
    pub fn sanitize_prefix(&self, text: &str, width: usize) -> String {
        /// Longer than any printed line; the text itself may be very long.
        const MAX_BYTES: usize = 64 << 10;
        let text = text.trim_start();
        truncate(&self.sanitize_line(&text[..text.floor_char_boundary(MAX_BYTES)]), width)
    }

    /// Cuts a text to the remaining width, if the width is limited.
    pub fn truncate(&self, text: &str, used: usize) -> String {
        match self.width {
            Some(width) => truncate(text, width.saturating_sub(used).max(10)),
            None => text.to_owned(),
        }
    }

    /// Formats the age of a moment.
    pub fn format_ago(&self, time: Option<Time>) -> String {
        time.and_then(Time::timestamp)
            .map_or_else(|| "-".to_owned(), |time| format_ago(time, self.now, &self.zone))
    }

    /// Formats a moment, to the minute.
    pub fn format_time(&self, time: Option<Time>) -> String {
        let zoned = |time: Timestamp| time.to_zoned(self.zone.clone());
        time.and_then(Time::timestamp)
            .map_or_else(|| "-".to_owned(), |t| zoned(t).strftime("%-d %b %Y %H:%M").to_string())
    }
}

/// Escapes everything that a terminal interprets or does not show: control characters, direction changes, and
/// hidden characters (see [`is_hidden`](crate::is_hidden)). Line ends and tabs are kept.
pub fn escape(text: &str) -> Cow<'_, str> {
    let mut found = hidden_chars(text).peekable();
    if found.peek().is_none() {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let mut from = 0;
    for (at, c) in found {
        safe.push_str(&text[from..at]);
        match u32::from(c) {
            0x0d => safe.push_str("\\r"),
            n @ 0..0x80 => safe.push_str(&format!("\\x{n:02x}")),
            n => safe.push_str(&format!("\\u{{{n:x}}}")),
        }
        from = at + c.len_utf8();
    }
    safe.push_str(&text[from..]);
    safe.into()
}

/// Returns the number of columns of a text.
pub fn text_width(text: &str) -> usize {
    text.width()
}

/// Cuts a text to at most `width` columns and marks the cut with an ellipsis.
pub fn truncate(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut used = 0;
    for c in text.chars() {
        let w = c.width().unwrap_or(0);
        if used + w + 1 > width {
            break;
        }
        used += w;
        cut.push(c);
    }
    cut.push('…');
    cut
}

/// Pads a text with spaces to `width` columns.
pub(crate) fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// Pads a text with spaces on the left.
pub(crate) fn pad_left(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(text.width())))
}

/// Formats a number of bytes in three digits.
pub fn format_bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if n < 1000 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if value < 9.95 { format!("{value:.1} {}", UNITS[unit]) } else { format!("{value:.0} {}", UNITS[unit]) }
}

/// Formats a number with commas between the thousands.
pub fn format_count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number of tokens in three or four digits.
pub(crate) fn format_amount(n: u64) -> String {
    match n {
        0..10_000 => format_count(n),
        10_000..999_500 => format!("{:.0}k", n as f64 / 1e3),
        999_500..999_500_000 => format!("{:.1}M", n as f64 / 1e6),
        _ => format!("{:.1}G", n as f64 / 1e9),
    }
}

/// Formats a duration by its two largest units.
pub(crate) fn format_duration(seconds: i64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let two = |large: i64, name: &str, small: i64, unit: &str| match small {
        0 => format!("{large} {name}"),
        _ => format!("{large} {name} {small} {unit}"),
    };
    match () {
        () if days > 1 => two(days, "days", hours, "h"),
        () if days == 1 => two(1, "day", hours, "h"),
        () if hours > 0 => two(hours, "h", minutes, "min"),
        () if minutes > 0 => format!("{minutes} min"),
        () => format!("{seconds} s"),
    }
}

/// Formats a number and a noun that agrees with it.
pub fn plural(n: u64, word: &str) -> impl Display {
    struct Plural<'w>(u64, &'w str);
    impl Display for Plural<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{} {}{}", format_count(self.0), self.1, if self.0 == 1 { "" } else { "s" })
        }
    }
    Plural(n, word)
}

/// Formats the age of a moment: the older, the coarser.
pub fn format_ago(time: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let seconds = now.as_second() - time.as_second();
    let then: Zoned = time.to_zoned(zone.clone());
    let today = now.to_zoned(zone.clone()).date();
    let days = today.since(then.date()).map_or(0, |span| span.get_days());
    match seconds {
        ..-60 => then.strftime("%-d %b %Y").to_string(),
        -60..60 => "now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        _ if days == 0 => format!("{} h ago", seconds / 3600),
        _ if days == 1 => "yesterday".to_owned(),
        _ if (2..7).contains(&days) => format!("{days} days ago"),
        _ if then.year() == today.year() => then.strftime("%-d %b").to_string(),
        _ => then.strftime("%-d %b %Y").to_string(),
    }
}

/// Returns a text as one word of a shell command: quoted unless it is plain, and never an option.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/+:@%,=".contains(c);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(plain) {
        return text.to_owned();
    }
    // A name that begins with a dash is written as a path in the current directory.
    let dash = if text.starts_with('-') { "./" } else { "" };
    format!("'{dash}{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn terminal_control_sequences_are_escaped() {
        assert_eq!(escape("a\x1b[31mb\u{9b}c\r\u{202e}d\te\nf"), "a\\x1b[31mb\\u{9b}c\\r\\u{202e}d\te\nf");
        assert!(matches!(escape("plain ä 😀"), Cow::Borrowed(_)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        #[cfg(unix)]
        fn shell_word_round_trips_through_sh(text in "[-a '\"$`\\\\!*?~;&|<>(){}#\n\t\u{e9}]{0,12}") {
            let command = format!("printf %s {}", shell_word(&text));
            let output = std::process::Command::new("sh").arg("-c").arg(command).output().expect("a shell");
            let read = String::from_utf8(output.stdout).expect("UTF-8");
            prop_assert_eq!(read.strip_prefix("./").filter(|_| text.starts_with('-')).unwrap_or(&read), text);
        }
    }

    #[test]
    fn hidden_characters_are_escaped_on_a_terminal() {
        assert_eq!(escape("pass\u{200b}word \u{e0068}\u{e0069}"), "pass\\u{200b}word \\u{e0068}\\u{e0069}");
        assert_eq!(escape("👩‍💻 می‌خواهم ❤️"), "👩‍💻 می‌خواهم ❤️");
    }

    #[test]
    fn numbers_are_formatted_compactly() {
        let sizes: Vec<String> =
            [0, 999, 1000, 9_949, 9_960, 999_499, 999_500, 3_800_000_000].map(format_bytes).into();
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "9.9 kB", "10 kB", "999 kB", "1.0 MB", "3.8 GB"]);
        assert_eq!([0, 12, 123, 1234, 1_234_567].map(format_count), ["0", "12", "123", "1,234", "1,234,567"]);
    }

    #[test]
    fn amounts_and_durations_are_rounded() {
        assert_eq!([7, 9_999, 38_211, 1_234_567].map(format_amount), ["7", "9,999", "38k", "1.2M"]);
        let times = [5, 90, 3_600, 5_880, 90_000, 200_000].map(format_duration);
        assert_eq!(times, ["5 s", "1 min", "1 h", "1 h 38 min", "1 day 1 h", "2 days 7 h"]);
    }

    #[test]
    fn times_are_formatted_relative_to_now() {
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().expect("a time");
        let ago = |time: &str| format_ago(time.parse().expect("a time"), now, &TimeZone::UTC);
        assert_eq!(ago("2026-03-10T11:59:30Z"), "now");
        assert_eq!(ago("2026-03-10T11:15:00Z"), "45 min ago");
        assert_eq!(ago("2026-03-10T01:00:00Z"), "11 h ago");
        assert_eq!(ago("2026-03-09T23:00:00Z"), "yesterday");
        assert_eq!(ago("2026-03-06T12:00:00Z"), "4 days ago");
        assert_eq!(ago("2026-01-05T12:00:00Z"), "5 Jan");
        assert_eq!(ago("2024-01-05T12:00:00Z"), "5 Jan 2024");
        assert_eq!(ago("2027-01-05T12:00:00Z"), "5 Jan 2027");
    }

    proptest! {
        #[test]
        fn truncated_text_fits_the_width(text: String, width in 1usize..40) {
            prop_assert!(truncate(&text, width).width() <= width);
            prop_assert!(hidden_chars(&escape(&text)).next().is_none());
        }
    }
}
