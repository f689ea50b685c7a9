//! Looks at exported pages with a real browser: Debian's Chromium, driven by `playwright-core`.
//!
//! What is missing is installed. Where it cannot be, that is said and the check is left out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rethread_testkit::{Home, Log, hostile};

use crate::{cargo, target_dir, workspace};

/// What the test ends with if no browser starts.
const NO_BROWSER: i32 = 77;

pub(crate) fn run() -> Result<()> {
    let chromium = match chromium() {
        Ok(chromium) => chromium,
        Err(error) => return left_out(&error),
    };
    let tools = match driver() {
        Ok(tools) => tools,
        Err(error) => return left_out(&error),
    };
    cargo(&["build", "-p", "rethread-cli"], &[])?;
    let rethread = target_dir().join("debug/rethread");
    let work = tempfile::tempdir()?;
    export(&rethread, work.path())?;
    println!("$ node xtask/browser/test.mjs");
    let status = Command::new("node")
        .arg(workspace().join("xtask/browser/test.mjs"))
        .env("CHROMIUM", chromium)
        .env("PLAYWRIGHT", tools.join("node_modules/playwright-core/index.js"))
        .env("PAGES", work.path().join("out"))
        .env("SCREENSHOTS", target_dir().join("browser/screenshots"))
        .stdin(Stdio::null())
        .status()
        .context("node")?;
    if status.code() == Some(NO_BROWSER) {
        return left_out(&anyhow::anyhow!("the browser does not start"));
    }
    if !status.success() {
        bail!("the pages failed in the browser");
    }
    Ok(())
}

fn left_out(error: &anyhow::Error) -> Result<()> {
    println!("LEFT OUT: the pages were not looked at with a browser: {error:#}");
    Ok(())
}

/// Exports sessions of every kind, and one of a gigantic size.
fn export(rethread: &Path, work: &Path) -> Result<()> {
    let home = Home::default();
    let add = |cwd: &str, log: Log| home.add(cwd, &log);
    add("/home/user/app", hostile::redone(1));
    add("/home/user/app", hostile::varied(2));
    add("/home/user/app", hostile::long(3, 700));
    add("/home/user/hostile", hostile::hostile(4));
    add("/home/user/large", large(5));
    let mut broken = hostile::hostile(4).bytes();
    // What is no UTF-8, what is torn, what is no JSON.
    broken.extend_from_slice(b"{\"type\":\"user\",\"uuid\":\"u\",\"parentUuid\":null,\"message\":{\"role\":\"user\",\"content\":\"\xff\xfe broken\"}}\n\0\0\0not json\n{\"type\":\"us");
    let name = "00000006-0000-4000-8000-000000000000.jsonl";
    home.write(&format!("projects/-home-user-hostile/{name}"), &broken);
    let out = work.join("out");
    let status = Command::new(rethread)
        .args(["export", "--all", "--all-copies", "--quiet", "--format", "html", "--output"])
        .arg(&out)
        .env("CLAUDE_CONFIG_DIR", home.path())
        .stdout(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("the export failed");
    }
    Ok(())
}

/// A session of about 50 MB.
fn large(number: u32) -> Log {
    let mut log = Log::new(number);
    let words = "Forty words that say nothing much and fill a page of a large session. ".repeat(110);
    for turn in 1..=6_000 {
        log.prompt(&format!("Large question {turn}"));
        log.answer(&format!("Large answer {turn}.\n\n{words}\n\n```rust\nlet x = {turn};\n```"));
    }
    log.answer("The accordion stands at the end of the large session.");
    log
}

/// Finds Chromium, or installs it.
fn chromium() -> Result<PathBuf> {
    let find = || ["chromium", "chromium-browser"].iter().find_map(|name| crate::bench::which(name).ok());
    if let Some(found) = find() {
        return Ok(found);
    }
    println!("$ apt-get install chromium");
    let install = |args: &[&str]| {
        let status = Command::new("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    let packages = ["install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"];
    if !install(&packages) {
        install(&["update"]);
        install(&packages);
    }
    find().context("chromium is not there and cannot be installed (apt-get install chromium)")
}

/// Installs the driver into the build directory, once.
fn driver() -> Result<PathBuf> {
    let dir = target_dir().join("browser");
    let dir = if dir.is_absolute() { dir } else { workspace().join(dir) };
    if !dir.join("node_modules/playwright-core/index.js").exists() {
        fs::create_dir_all(&dir)?;
        println!("$ npm install playwright-core");
        let status = Command::new("npm")
            .args(["install", "--no-save", "--no-audit", "--no-fund", "--silent", "playwright-core@1"])
            .current_dir(&dir)
            .stdin(Stdio::null())
            .status()
            .context("npm")?;
        if !status.success() {
            bail!("playwright-core cannot be installed (npm install playwright-core)");
        }
    }
    Ok(dir)
}
