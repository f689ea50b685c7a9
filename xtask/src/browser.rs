//! Tests exported pages in a real browser: Debian's Chromium, driven by `playwright-core`.
//!
//! Exported Markdown is tested too, as six renderers show it with HTML enabled: commonmark, markdown-it, marked and
//! micromark (npm), Python-Markdown and mistune (PyPI). Their versions are in `xtask/browser/package.json` and
//! `requirements.txt`.
//!
//! Missing tools are installed. If that fails, the check is skipped with a note.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rethread_testkit::{Home, LogBuilder, hostile};

use crate::tools::debian_program;
use crate::{cargo, target_dir, workspace};

/// The exit code of the test if no browser starts.
const NO_BROWSER: i32 = 77;

pub(crate) fn run() -> Result<()> {
    let chromium = match chromium() {
        Ok(chromium) => chromium,
        Err(error) => return report_skipped(&error),
    };
    let tools = match driver() {
        Ok(tools) => tools,
        Err(error) => return report_skipped(&error),
    };
    cargo(&["build", "-p", "rethread-cli"], &[])?;
    let rethread = target_dir().join("debug/rethread");
    let work = tempfile::tempdir()?;
    export(&rethread, work.path())?;
    let rendered = work.path().join("rendered");
    fs::create_dir_all(&rendered)?;
    if let Err(error) = render_with_python(&tools, &work.path().join("md"), &rendered) {
        println!("SKIPPED: the renderers written in Python: {error:#}");
    }
    let mut failed = false;
    for test in ["markdown.mjs", "test.mjs"] {
        println!("$ node xtask/browser/{test}");
        let status = Command::new("node")
            .arg(workspace().join("xtask/browser").join(test))
            .env("CHROMIUM", &chromium)
            .env("TOOLS", &tools)
            .env("PLAYWRIGHT", tools.join("node_modules/playwright-core/index.js"))
            .env("PAGES", work.path().join("out"))
            .env("MARKDOWN", work.path().join("md"))
            .env("RENDERED", &rendered)
            .env("SCREENSHOTS", target_dir().join("browser/screenshots"))
            .stdin(Stdio::null())
            .status()
            .context("node")?;
        if status.code() == Some(NO_BROWSER) {
            return report_skipped(&anyhow::anyhow!("the browser does not start"));
        }
        failed |= !status.success();
    }
    if failed {
        bail!("the pages failed in the browser");
    }
    Ok(())
}

fn report_skipped(error: &anyhow::Error) -> Result<()> {
    println!("SKIPPED: the pages were not tested in a browser: {error:#}");
    Ok(())
}

/// Exports sessions of every kind, and a very large one.
fn export(rethread: &Path, work: &Path) -> Result<()> {
    let home = Home::default();
    let add = |cwd: &str, log: LogBuilder| home.add(cwd, &log);
    add("/home/user/app", hostile::redone(1));
    add("/home/user/app", hostile::varied(2));
    add("/home/user/app", hostile::long(3, 700));
    add("/home/user/hostile", hostile::hostile(4));
    add("/home/user/large", large(5));
    add("/home/user/hostile", hostile::hostile_markdown(7));
    let mut broken = hostile::hostile(4).bytes();
    // Invalid UTF-8, bytes that are not JSON, and an incomplete line.
    broken.extend_from_slice(b"{\"type\":\"user\",\"uuid\":\"u\",\"parentUuid\":null,\"message\":{\"role\":\"user\",\"content\":\"\xff\xfe broken\"}}\n\0\0\0not json\n{\"type\":\"us");
    let name = "00000006-0000-4000-8000-000000000000.jsonl";
    home.write(&format!("projects/-home-user-hostile/{name}"), &broken);
    let export = |format: &str, out: &str, what: &[&str]| -> Result<()> {
        let status = Command::new(rethread)
            .args(["export", "--quiet", "--format", format, "--output"])
            .arg(work.join(out))
            .args(what)
            .env("CLAUDE_CONFIG_DIR", home.path())
            .stdout(Stdio::null())
            .status()?;
        if !status.success() {
            bail!("the export failed");
        }
        Ok(())
    };
    export("html", "out", &["--all", "--all-copies"])?;
    export("md", "md", &["--all-copies", "00000001", "00000002", "00000004", "00000006", "00000007"])
}

/// Builds a session of about 50 MB.
fn large(number: u32) -> LogBuilder {
    let mut log = LogBuilder::new(number);
    let words = "Forty words that say nothing much and fill a page of a large session. ".repeat(110);
    for turn in 1..=6_000 {
        log.prompt(&format!("Large question {turn}"));
        log.answer(&format!("Large answer {turn}.\n\n{words}\n\n```rust\nlet x = {turn};\n```"));
    }
    log.answer("The accordion stands at the end of the large session.");
    log
}

/// Finds or installs Chromium.
pub(crate) fn chromium() -> Result<PathBuf> {
    debian_program(&["chromium", "chromium-browser"], &["chromium", "fonts-dejavu-core"])
}

/// Installs the driver and the renderers into the build directory, once for each list of versions.
pub(crate) fn driver() -> Result<PathBuf> {
    let dir = target_dir().join("browser");
    let dir = if dir.is_absolute() { dir } else { workspace().join(dir) };
    let wanted = fs::read(workspace().join("xtask/browser/package.json"))?;
    let installed = dir.join("installed.json");
    if !fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("package.json"), &wanted)?;
        println!("$ npm install");
        let status = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"])
            .current_dir(&dir)
            .stdin(Stdio::null())
            .status()
            .context("npm")?;
        if !status.success() {
            bail!("the packages of xtask/browser/package.json cannot be installed (npm install)");
        }
        fs::write(installed, wanted)?;
    }
    Ok(dir)
}

/// Renders Markdown with the renderers written in Python, installed into the build directory.
fn render_with_python(tools: &Path, markdown: &Path, rendered: &Path) -> Result<()> {
    let venv = tools.join("venv");
    let requirements = workspace().join("xtask/browser/requirements.txt");
    let run = |program: &Path, args: &[&std::ffi::OsStr]| -> Result<()> {
        let status = Command::new(program).args(args).stdin(Stdio::null()).status();
        let succeeded = status.with_context(|| program.display().to_string())?.success();
        if succeeded { Ok(()) } else { bail!("{} failed", program.display()) }
    };
    if !venv.join("bin/python").exists() {
        run(Path::new("python3"), &["-m".as_ref(), "venv".as_ref(), venv.as_os_str()])?;
    }
    let pip = ["install", "-q", "--disable-pip-version-check", "-r"].map(AsRef::as_ref);
    run(&venv.join("bin/pip"), &[&pip[..], &[requirements.as_os_str()]].concat())?;
    let script = workspace().join("xtask/browser/render.py");
    run(&venv.join("bin/python"), &[script.as_os_str(), markdown.as_os_str(), rendered.as_os_str()])
}
