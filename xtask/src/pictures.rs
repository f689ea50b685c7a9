//! Makes pictures of the program: those of the documentation, or a matrix of commands, widths and colours for review.
//!
//! The program runs in tmux on its sample library, at a fixed time. What the terminal shows is drawn by a browser
//! (`xtask/browser/pictures.mjs`), the same one that `cargo xtask browser` uses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::browser::{chromium, driver};
use crate::{cargo, target_dir, workspace};

/// The time at which the pictures are taken.
const NOW: &str = "2026-01-09T12:00:00Z";

/// Commands of the matrix, with names for the files.
const MATRIX: &[(&str, &str)] = &[
    ("home", "--no-interactive"),
    ("ls", "ls"),
    ("show", "show 0000d005"),
    ("show-full", "show 0000d005 --tools full"),
    ("tree", "tree 0000d001"),
    ("info", "info 0000d005"),
    ("check", "check --client all"),
    ("preview", "preview 0000d002"),
    ("secrets", "secrets 0000d005"),
    ("clone", "clone 0000d001 --path 1 -n"),
    ("clean", "clean 0000d005 -n"),
    ("help", "--help"),
    ("clone-help", "clone --help"),
];

/// A terminal to draw.
struct Screen<'a> {
    /// The arguments of the program.
    args: &'a str,
    columns: usize,
    /// The height; `None` for everything that was printed.
    rows: Option<usize>,
    /// `light` or `dark`.
    theme: &'a str,
    no_color: bool,
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let option = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let binary = match option("--binary") {
        Some(path) => PathBuf::from(path),
        None => {
            cargo(&["build", "-p", "rethread-cli"], &[])?;
            target_dir().join("debug/rethread")
        }
    };
    let work = tempfile::tempdir()?;
    let pictures = match option("--matrix") {
        Some(dir) => matrix(&binary, work.path(), Path::new(dir))?,
        None => documentation(&binary, work.path(), &workspace().join("docs/images"))?,
    };
    draw(&pictures, work.path())
}

/// Returns the pictures of the documentation.
fn documentation(binary: &Path, work: &Path, to: &Path) -> Result<Vec<Value>> {
    let screen = |args, rows| Screen { args, columns: 96, rows: Some(rows), theme: "dark", no_color: false };
    let page = export(binary, work)?;
    Ok(vec![
        picture(binary, work, &screen("", 24), &to.join("start.png"))?,
        picture(binary, work, &screen("--no-pager show 0000d005 --turns -1", 54), &to.join("show.png"))?,
        json!({ "page": page, "width": 1200, "height": 800, "out": to.join("page.png") }),
    ])
}

/// Returns a picture of every command at every width, in every set of colours.
fn matrix(binary: &Path, work: &Path, to: &Path) -> Result<Vec<Value>> {
    let mut pictures = Vec::new();
    for (name, args) in MATRIX {
        for columns in [60, 80, 120, 200] {
            for (look, theme, no_color) in
                [("light", "light", false), ("dark", "dark", false), ("plain", "light", true)]
            {
                let screen = Screen { args, columns, rows: None, theme, no_color };
                let out = to.join(format!("{name}-{columns}-{look}.png"));
                pictures.push(picture(binary, work, &screen, &out)?);
            }
        }
    }
    let page = export(binary, work)?;
    for width in [1400, 390] {
        let out = to.join(format!("page-{width}.png"));
        pictures.push(json!({ "page": page, "width": width, "height": 900, "out": out }));
    }
    Ok(pictures)
}

/// Exports the sample as a page; returns its path.
fn export(binary: &Path, work: &Path) -> Result<PathBuf> {
    let out = work.join("page");
    let status = Command::new(binary)
        .args(["--demo", "export", "0000d005", "-f", "html", "--quiet", "-o"])
        .arg(&out)
        .envs(environment(work))
        .stdout(Stdio::null())
        .status()?;
    let files = fs::read_dir(&out).with_context(|| out.display().to_string())?.filter_map(Result::ok);
    let mut pages = files.map(|file| file.path()).filter(|path| {
        path.extension().is_some_and(|ending| ending == "html")
            && path.file_stem().is_some_and(|stem| stem != "index")
    });
    match pages.next() {
        Some(page) if status.success() => Ok(page),
        _ => bail!("the export failed"),
    }
}

/// Returns variables that keep the program away from the user's files.
fn environment(work: &Path) -> Vec<(&'static str, String)> {
    let dir = |name: &str| work.join(name).display().to_string();
    vec![
        ("HOME", dir("home")),
        ("CLAUDE_CONFIG_DIR", dir("config")),
        ("XDG_CACHE_HOME", dir("cache")),
        ("RETHREAD_NOW", NOW.to_owned()),
        ("TZ", "UTC".to_owned()),
        ("LC_ALL", "C.UTF-8".to_owned()),
    ]
}

/// Runs the program in a terminal and returns what it shows.
fn picture(binary: &Path, work: &Path, screen: &Screen<'_>, out: &Path) -> Result<Value> {
    // A server takes a moment to end, so each picture has its own.
    let socket = format!("rethread-{}", out.file_stem().unwrap_or_default().display());
    let mut tmux = tmux(&socket);
    tmux.args(["-f", "/dev/null", "new-session", "-d", "-x", &screen.columns.to_string(), "-y"]);
    tmux.arg(screen.rows.unwrap_or(400).to_string());
    for (name, value) in environment(work) {
        tmux.args(["-e", &format!("{name}={value}")]);
    }
    let variables = if screen.no_color { "NO_COLOR=1 " } else { "" };
    let pager = if screen.rows.is_none() { " --no-pager" } else { "" };
    let shown = format!(
        "$ rethread --demo {}",
        screen.args.replace("--no-pager ", "").replace("--no-interactive", "")
    );
    let command = format!(
        "tmux -L {socket} set -g status off; {variables}{} --demo{pager} {}; sleep 60",
        binary.display(),
        screen.args
    );
    let succeeded = tmux.arg(command).status().context("tmux")?.success();
    let text = if succeeded { settled(&socket, screen) } else { bail!("tmux does not start") };
    let _ = self::tmux(&socket).arg("kill-server").status();
    Ok(
        json!({ "text": text?, "columns": screen.columns, "theme": screen.theme, "command": shown.trim(), "out": out }),
    )
}

fn tmux(socket: &str) -> Command {
    let mut command = Command::new("tmux");
    command.args(["-L", socket]).env_remove("TMUX").stderr(Stdio::null());
    command
}

/// Captures the terminal once it no longer changes.
fn settled(socket: &str, screen: &Screen<'_>) -> Result<String> {
    let capture = || -> Result<String> {
        let output = tmux(socket).args(["capture-pane", "-e", "-p"]).output()?;
        Ok(String::from_utf8(output.stdout)?)
    };
    let mut last = String::new();
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(200));
        let text = capture()?;
        if text == last && !text.trim().is_empty() {
            return Ok(text.trim_end().to_owned());
        }
        last = text;
    }
    bail!("`{}` does not stop printing", screen.args)
}

/// Draws pictures with the browser.
fn draw(pictures: &[Value], work: &Path) -> Result<()> {
    let tools = driver()?;
    let list = work.join("pictures.json");
    fs::write(&list, serde_json::to_vec(pictures)?)?;
    let status = Command::new("node")
        .arg(workspace().join("xtask/browser/pictures.mjs"))
        .arg(&list)
        .env("CHROMIUM", chromium()?)
        .env("PLAYWRIGHT", tools.join("node_modules/playwright-core/index.js"))
        .status()
        .context("node")?;
    if !status.success() {
        bail!("the browser failed");
    }
    println!("{} pictures", pictures.len());
    Ok(())
}
