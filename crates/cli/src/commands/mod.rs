//! The commands, one module each.

pub(crate) mod check;
pub(crate) mod clean;
pub(crate) mod clone;
pub(crate) mod export;
pub(crate) mod home;
pub(crate) mod index;
pub(crate) mod info;
pub(crate) mod ls;
pub(crate) mod outline;
pub(crate) mod pick;
pub(crate) mod preview;
pub(crate) mod repair;
pub(crate) mod resume;
pub(crate) mod search;
pub(crate) mod secrets;
pub(crate) mod show;
pub(crate) mod sql;
pub(crate) mod tree;
pub(crate) mod usage;
pub(crate) mod util;

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rethread::SkippedPaths;
use rethread::{Client, Library, Selector};
use rethread_render::{can_begin_hidden, is_hidden, shell_word};
use serde::Serialize;

use crate::args::GlobalArgs;
use crate::cache::cache_dir;
use crate::failure::Failure;
use crate::failure_kind::FailureKind;
use crate::sample;
use crate::terminal::Terminal;

/// Opens the library that the options select, for a command that writes to it.
pub(crate) fn writable_library(global: &GlobalArgs, terminal: &Terminal) -> Result<Library, Failure> {
    if global.demo { sample::open_writable(terminal) } else { Ok(library(global)) }
}

/// Opens the library that the options select.
pub(crate) fn library(global: &GlobalArgs) -> Library {
    if global.demo {
        return sample::open();
    }
    // A directory whose name contains a comma is one directory; duplicates are dropped.
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
    // Each skipped path is one line on stderr, and the work continues.
    let terminal = Terminal::new(global);
    let n_reported = AtomicUsize::new(0);
    let mut builder = Library::builder().on_skip(move |skipped| {
        terminal.warn(&skipped.into());
        if n_reported.fetch_add(1, Ordering::Relaxed) + 1 == SkippedPaths::MAX_REPORTED {
            terminal.warn(&Failure::new("further skipped paths are not listed"));
        }
    });
    if let Some(dir) = cache_dir() {
        builder = builder.cache_dir(dir);
    }
    let named =
        std::env::var_os("CLAUDE_CONFIG_DIR").map(|dirs| roots(&dirs)).filter(|dirs| !dirs.is_empty());
    let home = || std::env::home_dir().map(|home| vec![home.join(".claude")]).unwrap_or_default();
    let usual = named.unwrap_or_else(home);
    match &global.config_dir {
        // A session may be open in a client of the default directory, wherever it was found.
        Some(dir) => builder.roots(roots(dir.as_os_str())).guard_roots(usual).open(),
        None => builder.roots(usual).open(),
    }
}

/// Splits a comma-separated list of directories. Names need not be UTF-8.
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

/// Makes a selector of an argument: `-` is standard input.
pub(crate) fn selector(arg: &OsStr) -> Result<Selector, Failure> {
    if arg != "-" {
        return Ok(Selector::from(arg));
    }
    let mut bytes = Vec::new();
    let path = PathBuf::from("-");
    io::stdin().read_to_end(&mut bytes).map_err(|source| rethread::Error::Read { path, source })?;
    Ok(Selector::Bytes { name: "stdin".to_owned(), bytes })
}

/// Returns the options with which a printed command finds the same library.
pub(crate) fn library_options(global: &GlobalArgs) -> String {
    match &global.config_dir {
        _ if global.demo => " --demo".to_owned(),
        Some(dir) => format!(" --config-dir {}", shell_word(&dir.display().to_string())),
        None => String::new(),
    }
}

/// Parses a client version.
pub(crate) fn client(version: Option<&str>) -> Result<(Client, Option<String>), Failure> {
    let Some(version) = version else { return Ok((Client::NEWEST, None)) };
    let known = Client::ALL.map(Client::version).join(", ");
    let client = Client::for_version(version).ok_or_else(|| {
        Failure::new(format!("invalid client version `{version}`"))
            .kind(FailureKind::InvalidValue)
            .with("valid", Client::ALL.map(Client::version).to_vec().into())
            .hint(format!("known versions: {known}"))
    })?;
    let note = (client.version() != version).then(|| {
        format!(
            "client {version} is not known; using the rules of {}, the closest known version",
            client.version()
        )
    });
    Ok((client, note))
}

/// Maximum bytes of a line that are escaped at once.
const PIECE: usize = 1 << 16;

/// Writes a value as one line of JSON.
pub(crate) fn json_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(EscapingWriter(&mut *out), value)?;
    out.write_all(b"\n")
}

/// Writes JSON with hidden characters escaped. A line may be very long, so it is not buffered.
struct EscapingWriter<W>(W);

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // serde_json writes valid UTF-8 pieces.
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

/// Serialises a value as one line of JSON that is safe on a terminal. Hidden and control characters occur
/// only in strings, where an escape has the same meaning.
pub(crate) fn json_bytes(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut text = serde_json::to_string(value)?;
    if has_hidden(&text) {
        text = escape_hidden(&text);
    }
    text.push('\n');
    Ok(text.into_bytes())
}

/// Escapes the hidden characters of a JSON text.
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

/// Returns whether a text has any hidden character. These begin with one of a few bytes, so most texts are
/// scanned quickly.
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
