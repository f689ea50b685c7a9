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

use std::io::Write;
use std::path::PathBuf;

use rethread::render::{can_begin, hides};
use rethread::{Client, Library, Loaded, Source};
use serde::Serialize;

use crate::args::Global;
use crate::failure::Failure;

/// Opens the library that the options name.
pub(crate) fn library(global: &Global) -> Library {
    if global.demo {
        return Library::demo();
    }
    // A directory whose name holds a comma is one directory; one that is named twice is meant once.
    let roots = |text: &str| -> Vec<PathBuf> {
        if std::path::Path::new(text).is_dir() {
            return vec![PathBuf::from(text)];
        }
        let mut roots: Vec<PathBuf> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
            let root = PathBuf::from(part);
            if !roots.iter().any(|known| real(known) == real(&root)) {
                roots.push(root);
            }
        }
        roots
    };
    if let Some(dir) = &global.config_dir {
        return Library::open(roots(&dir.to_string_lossy()));
    }
    let named =
        std::env::var("CLAUDE_CONFIG_DIR").ok().map(|dirs| roots(&dirs)).filter(|dirs| !dirs.is_empty());
    let home = || std::env::home_dir().map(|home| vec![home.join(".claude")]).unwrap_or_default();
    Library::open(named.unwrap_or_else(home))
}

/// Finds the one session that an argument names.
pub(crate) fn find_one(library: &Library, wanted: &str) -> Result<Source, Failure> {
    let mut sources = library.find(wanted)?;
    if sources.len() != 1 {
        return Err(Failure::new(format!("`{wanted}` holds {} sessions", sources.len()))
            .hint("name one of them; `rethread ls` with this directory lists them"));
    }
    Ok(sources.remove(0))
}

/// Finds and reads the one session that an argument names.
pub(crate) fn load_one(library: &Library, wanted: &str) -> Result<Loaded, Failure> {
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
            "the rules of {version} are taken to be those of {}, the nearest older version known",
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

/// Spells a value as one line of JSON that a terminal shows and never obeys: characters that hide or
/// control a terminal stand only in strings, where an escape means the same.
pub(crate) fn json_bytes(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut text = serde_json::to_string(value)?;
    if holds_hidden(&text) {
        text = spelled(&text);
    }
    text.push('\n');
    Ok(text.into_bytes())
}

/// Spells hidden characters of a JSON text as escapes.
fn spelled(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hides(c) {
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
fn holds_hidden(text: &str) -> bool {
    let is = |at: usize| text.get(at..).and_then(|rest| rest.chars().next()).is_some_and(hides);
    text.bytes().enumerate().any(|(at, b)| can_begin(b) && is(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hidden_character_is_escaped_in_json() {
        for c in (0x7f..0x11_0000).filter_map(char::from_u32).filter(|&c| hides(c)) {
            let value = format!("naïve {c} – text");
            let line = String::from_utf8(json_bytes(&value).expect("a string")).expect("text");
            assert!(!line.trim_end().contains(hides), "{c:?}");
            assert_eq!(serde_json::from_str::<String>(&line).expect("JSON"), value);
        }
        assert!(!holds_hidden("naïve – text 漢字 😀"));
    }
}
