//! The commands, a module each.

pub(crate) mod check;
pub(crate) mod clean;
pub(crate) mod clone;
pub(crate) mod export;
pub(crate) mod home;
pub(crate) mod info;
pub(crate) mod ls;
pub(crate) mod preview;
pub(crate) mod repair;
pub(crate) mod secrets;
pub(crate) mod show;
pub(crate) mod tree;
pub(crate) mod util;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rethread::render::{can_begin_hidden, is_hidden};
use rethread::store::SkippedPaths;
use rethread::{Client, Library, LoadedSession, LogSource};
use serde::Serialize;

use crate::args::GlobalArgs;
use crate::failure::Failure;
use crate::terminal::Terminal;

/// Opens the library that the options name.
pub(crate) fn library(global: &GlobalArgs) -> Library {
    if global.demo {
        return Library::demo();
    }
    // A directory whose name holds a comma is one directory; one that is named twice is meant once.
    let roots = |text: &OsStr| -> Vec<PathBuf> {
        if Path::new(text).is_dir() {
            return vec![PathBuf::from(text)];
        }
        let mut roots: Vec<PathBuf> = Vec::new();
        for root in split_at_commas(text) {
            let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
            if !roots.iter().any(|known| real(known) == real(&root)) {
                roots.push(root);
            }
        }
        roots
    };
    // Each thing that is passed over is a line on stderr, and the work goes on.
    let terminal = Terminal::new(global);
    let n_told = AtomicUsize::new(0);
    let skips = SkippedPaths::with_observer(move |skipped| {
        terminal.warn(&skipped.into());
        if n_told.fetch_add(1, Ordering::Relaxed) + 1 == SkippedPaths::MAX_REPORTED {
            terminal.warn(&Failure::new("what else is skipped is not listed"));
        }
    });
    let named =
        std::env::var_os("CLAUDE_CONFIG_DIR").map(|dirs| roots(&dirs)).filter(|dirs| !dirs.is_empty());
    let home = || std::env::home_dir().map(|home| vec![home.join(".claude")]).unwrap_or_default();
    let usual = named.unwrap_or_else(home);
    match &global.config_dir {
        // A session may belong to a client of the usual directory, wherever it was looked for.
        Some(dir) => Library::open(roots(dir.as_os_str())).with_guard_roots(usual).with_skips(skips),
        None => Library::open(usual).with_skips(skips),
    }
}

/// Splits a list of directories. Their names may be any bytes but a comma.
fn split_at_commas(text: &OsStr) -> Vec<PathBuf> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let parts = text.as_bytes().split(|&b| b == b',').map(<[u8]>::trim_ascii);
        parts.filter(|part| !part.is_empty()).map(|part| PathBuf::from(OsStr::from_bytes(part))).collect()
    }
    #[cfg(not(unix))]
    {
        let Some(text) = text.to_str() else { return vec![PathBuf::from(text)] };
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(PathBuf::from).collect()
    }
}

/// Finds the one session that an argument names.
pub(crate) fn find_one(library: &Library, wanted: &OsStr) -> Result<LogSource, Failure> {
    let mut sources = library.find_os(wanted)?;
    if sources.len() != 1 {
        return Err(Failure::new(format!("`{}` holds {} sessions", wanted.display(), sources.len()))
            .hint("name one of them; `rethread ls` with this directory lists them"));
    }
    Ok(sources.remove(0))
}

/// Finds and reads the one session that an argument names.
pub(crate) fn load_one(library: &Library, wanted: &OsStr) -> Result<LoadedSession, Failure> {
    Ok(library.load(&find_one(library, wanted)?)?)
}

/// Reads a client's version.
pub(crate) fn client(version: Option<&str>) -> Result<(Client, Option<String>), Failure> {
    let Some(version) = version else { return Ok((Client::NEWEST, None)) };
    let known = Client::ALL.map(Client::version).join(", ");
    let client = Client::for_version(version).ok_or_else(|| {
        Failure::new(format!("`{version}` is no client version"))
            .hint(format!("versions we know the rules of: {known}"))
    })?;
    let note = (client.version() != version).then(|| {
        format!(
            "the rules of {version} are taken to be those of {}, the closest version known",
            client.version()
        )
    });
    Ok((client, note))
}

/// How much of a line is spelled at once.
const PIECE: usize = 1 << 16;

/// Writes a value as one line of JSON.
pub(crate) fn json_line(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer(EscapingWriter(&mut *out), value)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Writes JSON with its hidden characters spelled as escapes. A line may be very long, so it is not held.
struct EscapingWriter<W>(W);

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // JSON is written in pieces that are texts.
        let mut rest = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(rest.floor_char_boundary(PIECE));
            if has_hidden(piece) {
                self.0.write_all(escape_hidden(piece).as_bytes())?;
            } else {
                self.0.write_all(piece.as_bytes())?;
            }
            rest = more;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Spells a value as one line of JSON that a terminal shows and never obeys: characters that hide or
/// control a terminal stand only in strings, where an escape means the same.
pub(crate) fn json_bytes(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut text = serde_json::to_string(value)?;
    if has_hidden(&text) {
        text = escape_hidden(&text);
    }
    text.push('\n');
    Ok(text.into_bytes())
}

/// Spells hidden characters of a JSON text as escapes.
fn escape_hidden(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns whether a text has any such character. They begin with one of a few bytes, so that most
/// texts are passed over quickly.
fn has_hidden(text: &str) -> bool {
    let is = |at: usize| text.get(at..).and_then(|rest| rest.chars().next()).is_some_and(is_hidden);
    text.bytes().enumerate().any(|(at, b)| can_begin_hidden(b) && is(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hidden_character_is_escaped_in_json() {
        for c in (0x7f..0x11_0000).filter_map(char::from_u32).filter(|&c| is_hidden(c)) {
            let value = format!("naïve {c} – text");
            let line = String::from_utf8(json_bytes(&value).expect("a string")).expect("text");
            let mut written = Vec::new();
            json_line(&mut written, &value).expect("written");
            assert_eq!(written, line.as_bytes(), "{c:?}");
            assert!(!line.trim_end().contains(is_hidden), "{c:?}");
            assert_eq!(serde_json::from_str::<String>(&line).expect("JSON"), value);
        }
        assert!(!has_hidden("naïve – text 漢字 😀"));
    }
}
