//! The commands, a module each.

pub(crate) mod home;
pub(crate) mod info;
pub(crate) mod ls;
pub(crate) mod show;
pub(crate) mod tree;
pub(crate) mod util;

use std::io::Write;
use std::path::PathBuf;

use rethread::{Client, Library, Loaded};
use serde::Serialize;

use crate::args::Global;
use crate::failure::Failure;

/// Opens the library that the options name.
pub(crate) fn library(global: &Global) -> Library {
    if global.demo {
        return Library::demo();
    }
    let several = |text: &str| -> Vec<PathBuf> {
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(PathBuf::from).collect()
    };
    if let Some(dir) = &global.config_dir {
        // A directory whose name holds a comma is one directory.
        return Library::open(if dir.is_dir() { vec![dir.clone()] } else { several(&dir.to_string_lossy()) });
    }
    let named =
        std::env::var("CLAUDE_CONFIG_DIR").ok().map(|dirs| several(&dirs)).filter(|dirs| !dirs.is_empty());
    let home = || std::env::home_dir().map(|home| vec![home.join(".claude")]).unwrap_or_default();
    Library::open(named.unwrap_or_else(home))
}

/// Finds and reads the one session that an argument names.
pub(crate) fn load_one(library: &Library, wanted: &str) -> Result<Loaded, Failure> {
    let mut sources = library.find(wanted)?;
    if sources.len() != 1 {
        return Err(Failure::new(format!("`{wanted}` holds {} sessions", sources.len()))
            .hint("name one of them; `rethread ls` with this directory lists them"));
    }
    Ok(library.load(&sources.remove(0))?)
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
            "the rules of {version} are taken to be those of {}, the nearest version known",
            client.version()
        )
    });
    Ok((client, note))
}

/// Writes a value as one line of JSON.
pub(crate) fn json_line(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")?;
    Ok(())
}
