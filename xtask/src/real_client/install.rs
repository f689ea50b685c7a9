//! Finds and installs the real clients.
//!
//! Each version has its own directory, `v<version>`, under `RETHREAD_CLIENTS` or else the user's cache. No package
//! scripts are run. An installation is complete or absent.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::tools::which;

/// The newest version whose rules are known, and the last one that was a script for Node.
pub(crate) const VERSIONS: [&str; 2] = ["2.1.325", "2.1.112"];

/// An installed client.
#[derive(Debug, Clone)]
pub(crate) struct InstalledClient {
    pub(crate) version: String,
    /// The program and its leading arguments.
    pub(crate) command: Vec<OsString>,
}

/// Finds or installs a version.
pub(crate) fn install(version: &str) -> Result<InstalledClient> {
    if let Ok(client) = find(version) {
        return Ok(client);
    }
    let npm = which("npm")?;
    let target = directory(version)?;
    let parent = target.parent().context("no directory for the clients")?;
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
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("npm cannot install {package}: {}", stderr.lines().next().unwrap_or("no reason given"));
    }
    command(&partial.path().join(PACKAGES))?;
    fs::rename(partial.keep(), &target).with_context(|| target.display().to_string())?;
    find(version)
}

/// Finds an installed version.
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
        bail!("invalid version `{version}`");
    }
    let clients = match std::env::var_os("RETHREAD_CLIENTS") {
        Some(dir) => std::path::absolute(dir)?,
        None => PathBuf::from(std::env::var_os("HOME").context("no HOME")?).join(".cache/rethread-clients"),
    };
    Ok(clients.join(format!("v{version}")))
}

/// Returns the command that starts an installed client.
///
/// Newer versions are native programs, in one package per system next to the main one. An install script would move
/// them into place, but scripts are not run. Older versions are a script for Node.
fn command(packages: &Path) -> Result<Vec<OsString>> {
    let mut names: Vec<PathBuf> =
        fs::read_dir(packages)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    // Of the builds for two C libraries, the one with the shorter name is the usual one.
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
