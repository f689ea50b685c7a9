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
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rethread::store::Skips;
use rethread::{Client, Library, Loaded, Source};
use serde::Serialize;

use crate::args::Global;
use crate::failure::Failure;
use crate::terminal::Terminal;

/// Opens the library that the options name.
pub(crate) fn library(global: &Global) -> Library {
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
    let skips = Skips::observed(move |skipped| {
        terminal.warn(&skipped.into());
        if n_told.fetch_add(1, Ordering::Relaxed) + 1 == Skips::MAX_TOLD {
            terminal.warn(&Failure::new("what else is skipped is not listed"));
        }
    });
    let named =
        std::env::var_os("CLAUDE_CONFIG_DIR").map(|dirs| roots(&dirs)).filter(|dirs| !dirs.is_empty());
    let home = || std::env::home_dir().map(|home| vec![home.join(".claude")]).unwrap_or_default();
    let usual = named.unwrap_or_else(home);
    match &global.config_dir {
        // A session may belong to a client of the usual directory, wherever it was looked for.
        Some(dir) => Library::open(roots(dir.as_os_str())).guarded_by(usual).noting(skips),
        None => Library::open(usual).noting(skips),
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
pub(crate) fn find_one(library: &Library, wanted: &OsStr) -> Result<Source, Failure> {
    let mut sources = library.find_os(wanted)?;
    if sources.len() != 1 {
        return Err(Failure::new(format!("`{}` holds {} sessions", wanted.display(), sources.len()))
            .hint("name one of them; `rethread ls` with this directory lists them"));
    }
    Ok(sources.remove(0))
}

/// Finds and reads the one session that an argument names.
pub(crate) fn load_one(library: &Library, wanted: &OsStr) -> Result<Loaded, Failure> {
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

/// Writes a value as one line of JSON.
pub(crate) fn json_line(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    out.write_all(&json_bytes(value)?)?;
    Ok(())
}

/// Spells a value as one line of JSON that a terminal shows and never obeys: what turns the direction
/// of writing or controls a terminal stands only in strings, where an escape means the same.
pub(crate) fn json_bytes(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut text = serde_json::to_string(value)?;
    if holds_obeyed(&text) {
        let spelled = |c: char| if obeyed(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
        text = text.chars().map(spelled).collect();
    }
    text.push('\n');
    Ok(text.into_bytes())
}

/// Tells whether a terminal would obey a character.
fn obeyed(c: char) -> bool {
    c.is_control() || rethread::render::turns_direction(c)
}

/// Tells whether there is any such character. They all begin with one of a few bytes, which are quickly
/// passed over in most texts.
fn holds_obeyed(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is = |at: usize| text.get(at..).and_then(|rest| rest.chars().next()).is_some_and(obeyed);
    let mut rare = memchr::memchr2_iter(0x7f, 0xd8, bytes);
    let mut more = memchr::memchr3_iter(0xc2, 0xe2, 0xef, bytes);
    rare.any(is) || more.any(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_obeyed_character_is_found() {
        for c in (0x7f..0x30_000).filter_map(char::from_u32) {
            assert_eq!(holds_obeyed(&format!("naïve {c} – text")), obeyed(c), "{c:?}");
        }
    }
}
