//! The real clients: where they are, and how they get there.
//!
//! Each version lies in a directory of its own, `v<version>`, under `RETHREAD_CLIENTS` or else the
//! user's cache. No script of a package is run. An installation is whole or not there.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::bench::which;

/// The newest version whose rules are known, and the last one that was a script for Node.
pub(crate) const VERSIONS: [&str; 2] = ["2.1.325", "2.1.112"];

/// A client that is installed.
#[derive(Debug, Clone)]
pub(crate) struct InstalledClient {
    pub(crate) version: String,
    /// The program, and what comes before its arguments.
    pub(crate) command: Vec<OsString>,
}

/// Finds a version, or installs it.
pub(crate) fn install(version: &str) -> Result<InstalledClient> {
    if let Ok(client) = find(version) {
        return Ok(client);
    }
    let npm = which("npm")?;
    let whole = directory(version)?;
    let parent = whole.parent().context("a directory for the clients")?;
    fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    let partial = tempfile::Builder::new().prefix("partial-").tempdir_in(parent)?;
    let package = format!("@anthropic-ai/claude-code@{version}");
    // On stderr, since `record` prints data.
    eprintln!("$ npm install {package}");
    let output = Command::new(npm)
        .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--prefix"])
        .arg(partial.path())
        .arg(&package)
        .current_dir(partial.path())
        .stdin(Stdio::null())
        .output()
        .context("npm")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("npm cannot install {package}: {}", said.lines().next().unwrap_or("it does not say why"));
    }
    command(&partial.path().join(PACKAGES))?;
    fs::rename(partial.keep(), &whole).with_context(|| whole.display().to_string())?;
    find(version)
}

/// Finds a version that is installed.
pub(crate) fn find(version: &str) -> Result<InstalledClient> {
    let command = command(&directory(version)?.join(PACKAGES))
        .with_context(|| format!("version {version} of the client is not installed"))?;
    Ok(InstalledClient { version: version.to_owned(), command })
}

const PACKAGES: &str = "node_modules/@anthropic-ai";

fn directory(version: &str) -> Result<PathBuf> {
    if version.is_empty()
        || !version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
    {
        bail!("`{version}` is no version");
    }
    let clients = match std::env::var_os("RETHREAD_CLIENTS") {
        Some(dir) => std::path::absolute(dir)?,
        None => PathBuf::from(std::env::var_os("HOME").context("no HOME")?).join(".cache/rethread-clients"),
    };
    Ok(clients.join(format!("v{version}")))
}

/// Tells how an installed client is started.
///
/// Newer versions are programs, in a package for each system beside the main one; a script of the main
/// package would put them into place, but scripts are not run. Older ones are a script for Node.
fn command(packages: &Path) -> Result<Vec<OsString>> {
    let mut names: Vec<PathBuf> =
        fs::read_dir(packages)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    // Of the builds for two C libraries, the shorter name is the usual one.
    names.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    if let Some(program) = names.iter().map(|name| name.join("claude")).find(|path| path.is_file()) {
        return Ok(vec![program.into()]);
    }
    let script = packages.join("claude-code/cli.js");
    if !script.is_file() {
        bail!("the package has no program for this system");
    }
    Ok(vec![which("node")?.into(), script.into()])
}
