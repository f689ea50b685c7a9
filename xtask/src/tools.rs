//! Programs and packages that the tasks need.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Finds a program in `PATH`.
pub(crate) fn which(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").context("no PATH")?;
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file());
    found.with_context(|| format!("{name} is not installed"))
}

/// Finds the first of some programs. If there is none, installs Debian packages that contain one.
pub(crate) fn debian_program(names: &[&str], packages: &[&str]) -> Result<PathBuf> {
    let find = || names.iter().find_map(|name| which(name).ok());
    if let Some(found) = find() {
        return Ok(found);
    }
    println!("$ apt-get install {}", packages.join(" "));
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        command.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let install = [&["install", "-y", "--no-install-recommends"], packages].concat();
    if !apt(&install) {
        apt(&["update"]);
        apt(&install);
    }
    find()
        .with_context(|| format!("{} cannot be installed (apt-get install {})", names[0], packages.join(" ")))
}

/// Copies a directory with everything in it.
pub(crate) fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Installs a program from the crates registry below `dir`, once.
pub(crate) fn cargo_program(dir: &Path, name: &str, package: &str, options: &[&str]) -> Result<PathBuf> {
    let root = dir.join(package);
    let program = root.join("bin").join(name);
    if !program.exists() {
        let mut command = Command::new("cargo");
        command.args(["install", "--locked", package]).args(options).arg("--root").arg(&root);
        run_quietly(command.env("CARGO_TARGET_DIR", dir.join("peer-build")))
            .context("it cannot be installed")?;
    }
    Ok(program)
}

/// A package from npm, installed into a directory of its own.
pub(crate) struct NodePackage {
    pub(crate) node: PathBuf,
    /// The directory that contains `node_modules`.
    pub(crate) dir: PathBuf,
}

/// Installs an npm package below `dir`, once.
pub(crate) fn node_package(dir: &Path, name: &str, package: &str) -> Result<NodePackage> {
    let (node, npm) = (which("node")?, which("npm")?);
    let dir = dir.join(name);
    if !dir.join("installed").exists() {
        fs::create_dir_all(&dir)?;
        let mut command = Command::new(npm);
        command.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]);
        run_quietly(command.arg(&dir).arg(package)).context("it cannot be installed")?;
        fs::write(dir.join("installed"), "")?;
    }
    Ok(NodePackage { node, dir })
}

/// Installs PyPI packages into an environment below `dir`, once; returns its interpreter.
pub(crate) fn python_packages(dir: &Path, name: &str, packages: &[&str]) -> Result<PathBuf> {
    let env = dir.join(name);
    let python = env.join("bin/python");
    if !env.join("installed").exists() {
        let python3 = which("python3")?;
        run_quietly(Command::new(python3).args(["-m", "venv"]).arg(&env))
            .and_then(|()| {
                run_quietly(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages))
            })
            .context("they cannot be installed")?;
        fs::write(env.join("installed"), "")?;
    }
    Ok(python)
}

/// Runs a command without its output.
fn run_quietly(command: &mut Command) -> Result<()> {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { bail!("{} failed", command.get_program().display()) }
}
