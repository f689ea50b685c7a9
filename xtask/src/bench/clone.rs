//! Benchmarks of `clone`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{command, generated, row};
use crate::tools::{node_package, python_packages};

/// The id of the session of 60 MB.
const ID: &str = "0000003c-0000-4000-8000-000000000000";
/// The id of the session of 200 MB.
const LARGE_ID: &str = "000000c8-0000-4000-8000-000000000000";

/// The recipes to measure: their arguments, and the preset of ccs-cloner that removes about as much.
const RECIPES: [(&[&str], &str); 9] = [
    (&[], ""),
    (&["--keep-ids"], ""),
    (&["--path", "1"], ""),
    (&["--light"], "default"),
    (&["--standard"], "default"),
    (&["--heavy"], "heavy"),
    (&["--extreme"], "extreme"),
    (&["--strip-thinking"], "default"),
    (&["--compress=5"], "extreme"),
];

/// Compares `clone` with copying the file, with ccs-cloner, which strips tools too, and with the forks of the SDKs.
pub(super) fn run(rethread: &Path, dir: &Path, rounds: usize) -> Result<()> {
    compare_with_cp(rethread, dir, rounds)?;
    let source = CloneSource::new(dir, "clone-60", ID, 60_000_000)?;
    compare_with_ccs_cloner(rethread, dir, &source, rounds.min(5))?;
    compare_with_typescript_sdk(rethread, dir, &source, rounds.min(3))?;
    compare_with_python_sdk(rethread, dir, &source, rounds.min(3))?;
    source.remove_clones();
    Ok(())
}

/// A session to clone, in a config directory of its own.
struct CloneSource {
    config: PathBuf,
    log: PathBuf,
}

impl CloneSource {
    fn new(dir: &Path, name: &str, id: &str, bytes: u64) -> Result<Self> {
        let config = dir.join(name);
        let log = config.join("projects/-home-user-app").join(format!("{id}.jsonl"));
        generated(&log, bytes, 60)?;
        Ok(Self { config, log })
    }

    /// Removes the output of earlier runs.
    fn remove_clones(&self) {
        let entries =
            self.log.parent().and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()).filter(|path| *path != self.log) {
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }

    /// Returns the command that clones the session.
    fn clone_command(&self, rethread: &Path, recipe: &[&str]) -> Command {
        self.remove_clones();
        let mut ours = command(rethread, &[&["clone", "-q", &self.log.to_string_lossy()], recipe].concat());
        ours.env("CLAUDE_CONFIG_DIR", &self.config);
        ours
    }

    /// Returns the command of another program that clones the session.
    fn other_command(&self, program: &Path, args: &[&str]) -> Command {
        self.remove_clones();
        let mut theirs = command(program, args);
        theirs.env("CLAUDE_CONFIG_DIR", &self.config);
        theirs
    }
}

fn compare_with_cp(rethread: &Path, dir: &Path, rounds: usize) -> Result<()> {
    let source = CloneSource::new(dir, "clone-200", LARGE_ID, 200_000_000)?;
    let log = &source.log;
    let ours = || {
        source.remove_clones();
        command(rethread, &["clone", "-q", &log.to_string_lossy()])
    };
    let copy = log.with_file_name("copy");
    let script = format!("cp '{}' '{}' && sync '{}'", log.display(), copy.display(), copy.display());
    let theirs = || {
        source.remove_clones();
        command(Path::new("sh"), &["-c", &script])
    };
    row("`clone`, 200 MB; `cp` and `sync`", &ours, &theirs, rounds)?;
    source.remove_clones();
    Ok(())
}

fn compare_with_ccs_cloner(rethread: &Path, dir: &Path, source: &CloneSource, rounds: usize) -> Result<()> {
    let cloner = match node_package(dir, "ccs-cloner", "ccs-cloner") {
        Ok(cloner) => cloner,
        Err(error) => {
            println!("| `clone`, 60 MB | - | no ccs-cloner: {error} | - | - |");
            return Ok(());
        }
    };
    let script = cloner.dir.join("node_modules/ccs-cloner/dist/cli.js").to_string_lossy().into_owned();
    let config_dir = source.config.to_string_lossy();
    for (recipe, preset) in RECIPES {
        let strip = format!("--strip-tools={preset}");
        let theirs = || {
            source.remove_clones();
            let mut args = vec![script.as_str(), "clone", ID, "--claude-dir", &config_dir];
            args.extend(Some(strip.as_str()).filter(|_| !preset.is_empty()));
            command(&cloner.node, &args)
        };
        let title = format!("`clone {}`, 60 MB; ccs-cloner {preset}", recipe.join(" "));
        row(&title, &|| source.clone_command(rethread, recipe), &theirs, rounds)?;
    }
    Ok(())
}

fn compare_with_typescript_sdk(
    rethread: &Path,
    dir: &Path,
    source: &CloneSource,
    rounds: usize,
) -> Result<()> {
    let sdk = match node_package(dir, "sdk-ts", "@anthropic-ai/claude-agent-sdk") {
        Ok(sdk) => sdk,
        Err(error) => {
            println!("| `clone`, 60 MB | - | no SDK: {error} | - | - |");
            return Ok(());
        }
    };
    let script =
        format!("import {{ forkSession }} from '@anthropic-ai/claude-agent-sdk'; await forkSession('{ID}');");
    let theirs = || {
        let mut theirs = source.other_command(&sdk.node, &["--input-type=module", "-e", &script]);
        theirs.current_dir(&sdk.dir);
        theirs
    };
    for (recipe, _) in RECIPES {
        let title = format!("`clone {}`, 60 MB; SDK for TypeScript `forkSession`", recipe.join(" "));
        row(&title, &|| source.clone_command(rethread, recipe), &theirs, rounds)?;
    }
    Ok(())
}

fn compare_with_python_sdk(rethread: &Path, dir: &Path, source: &CloneSource, rounds: usize) -> Result<()> {
    let python = match python_packages(dir, "sdk", &["claude-agent-sdk"]) {
        Ok(python) => python,
        Err(error) => {
            println!("| `clone`, 60 MB | - | no SDK: {error} | - | - |");
            return Ok(());
        }
    };
    let script = format!("from claude_agent_sdk import fork_session; assert fork_session('{ID}')");
    let ours = || source.clone_command(rethread, &[]);
    let theirs = || source.other_command(&python, &["-c", &script]);
    row("`clone`, 60 MB; SDK for Python `fork_session`", &ours, &theirs, rounds)
}
