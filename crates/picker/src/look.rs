//! Colours and symbols.

use anstyle::{AnsiColor, Effects};
use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use rethread_render::{DisplayOptions, Style as Role};
use unicode_width::UnicodeWidthStr;

/// The properties of the terminal that the drawing depends on.
#[derive(Debug, Clone)]
pub struct PickerLook {
    /// Colours, the reference time and the time zone. The width is not used.
    pub display: DisplayOptions,
    /// Draw only ASCII characters.
    pub ascii: bool,
}

impl PickerLook {
    /// Returns a look without colours for tests; times are in UTC.
    pub fn plain(now: Timestamp) -> Self {
        Self { display: DisplayOptions { escape: true, ..DisplayOptions::plain(now) }, ascii: false }
    }

    /// Returns the style of a role. Only the sixteen ANSI colours are used, because themes define them, and the
    /// background is never set.
    pub(crate) fn style(&self, role: Role) -> Style {
        let style = match role {
            Role::Id => Style::new().fg(Color::Yellow),
            Role::Title => Style::new().add_modifier(Modifier::BOLD),
            Role::Dim => Style::new().add_modifier(Modifier::DIM),
            Role::Human => Style::new().fg(Color::Green).add_modifier(Modifier::BOLD),
            Role::Model => Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD),
            Role::Tool => Style::new().fg(Color::Magenta),
            Role::Active => Style::new().fg(Color::Green),
            Role::Abandoned => Style::new().fg(Color::Blue),
            Role::Error => Style::new().fg(Color::Red),
            _ => Style::new(),
        };
        if self.display.color { style } else { Style { fg: None, ..style } }
    }

    /// Converts the style of a piece of a conversation.
    pub(crate) fn converted(&self, style: anstyle::Style) -> Style {
        const EFFECTS: [(Effects, Modifier); 5] = [
            (Effects::BOLD, Modifier::BOLD),
            (Effects::DIMMED, Modifier::DIM),
            (Effects::ITALIC, Modifier::ITALIC),
            (Effects::UNDERLINE, Modifier::UNDERLINED),
            (Effects::STRIKETHROUGH, Modifier::CROSSED_OUT),
        ];
        let effects = style.get_effects();
        let mut converted = Style::new();
        for (effect, modifier) in EFFECTS {
            if effects.contains(effect) {
                converted = converted.add_modifier(modifier);
            }
        }
        match style.get_fg_color() {
            Some(anstyle::Color::Ansi(color)) if self.display.color => converted.fg(ansi_color(color)),
            _ => converted,
        }
    }

    /// Returns the style of characters that match the query.
    pub(crate) fn matched(&self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        if self.display.color { style.fg(Color::Magenta) } else { style }
    }

    /// Returns the style of the mark of the selected row.
    pub(crate) fn cursor(&self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if self.display.color { style.fg(Color::Cyan) } else { style }
    }

    /// Escapes a text from a log for one line, and cuts it at a length that no terminal shows.
    pub(crate) fn line(&self, text: &str) -> String {
        const MAX_COLUMNS: usize = 400;
        self.display.sanitize_prefix(text, MAX_COLUMNS)
    }
}

fn ansi_color(color: AnsiColor) -> Color {
    match color {
        AnsiColor::Black => Color::Black,
        AnsiColor::Red => Color::Red,
        AnsiColor::Green => Color::Green,
        AnsiColor::Yellow => Color::Yellow,
        AnsiColor::Blue => Color::Blue,
        AnsiColor::Magenta => Color::Magenta,
        AnsiColor::Cyan => Color::Cyan,
        AnsiColor::White => Color::Gray,
        AnsiColor::BrightBlack => Color::DarkGray,
        AnsiColor::BrightRed => Color::LightRed,
        AnsiColor::BrightGreen => Color::LightGreen,
        AnsiColor::BrightYellow => Color::LightYellow,
        AnsiColor::BrightBlue => Color::LightBlue,
        AnsiColor::BrightMagenta => Color::LightMagenta,
        AnsiColor::BrightCyan => Color::LightCyan,
        AnsiColor::BrightWhite => Color::White,
    }
}

/// Replaces everything but ASCII in a drawn buffer. This is the only place that knows about ASCII terminals.
pub(crate) fn replace_non_ascii(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if cell.symbol().is_ascii() {
            continue;
        }
        let ascii = match cell.symbol() {
            "▌" | "›" => ">",
            "│" => "|",
            "─" | "–" => "-",
            "┌" | "┐" | "└" | "┘" => "+",
            "●" => "*",
            "○" => "o",
            "…" => "~",
            "·" => "-",
            "⏺" => "*",
            "⋯" => ":",
            "↑" => "^",
            "↓" => "v",
            "→" => ">",
            "←" => "<",
            symbol if symbol.width() > 1 => "??",
            _ => "?",
        };
        // A wide character covers the next cell, which is empty and not drawn.
        if ascii == "??" {
            cell.set_symbol("?");
        } else {
            cell.set_symbol(ascii);
        }
    }
}
