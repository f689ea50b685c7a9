//! Clones every available session by every recipe, cleans it at every level, and checks the laws of the results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use rayon::prelude::*;
use rethread_edit::{Level, Recipe};
use rethread_testkit::{clean_laws, clone_laws, logs_under, shared};

/// The directories of `../shared` that contain sessions.
const SHARED_DIRS: [&str; 3] = ["corpus", "oracle/sessions", "oracle/cases"];

/// The maximum number of violations that are printed.
const MAX_PRINTED: usize = 4000;

/// A clone or a cleaned copy of a session.
struct CheckedCopy {
    /// The name of the recipe or the level.
    recipe: String,
    session: PathBuf,
    /// The law that the copy violates, or the reason why there is no copy.
    violation: Option<String>,
}

impl CheckedCopy {
    /// Returns whether a clone is impossible: the session is empty, or it is the log of a subagent.
    fn is_impossible(&self) -> bool {
        let reasons = ["this session has no conversation", "this is a subagent log, not a session"];
        self.violation.as_deref().is_some_and(|violation| reasons.contains(&violation))
    }

    /// Returns the law that the copy violates.
    fn broken_law(&self) -> Option<&str> {
        self.violation.as_deref().filter(|_| !self.is_impossible())
    }
}

/// Checks all logs under the given directories, or under `../shared`, and prints the violations by recipe.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let filter = args.iter().position(|arg| arg == "--recipe").and_then(|at| args.get(at + 1));
    let mut logs: Vec<PathBuf> = directories(args).iter().flat_map(|dir| logs_of(dir)).collect();
    logs.sort();
    if logs.is_empty() {
        println!("no sessions found, nothing was checked");
        return Ok(());
    }
    let wanted = |name: &str| filter.is_none_or(|filter| name.starts_with(filter.as_str()));
    let copies: Vec<CheckedCopy> =
        logs.par_iter().flat_map_iter(|path| check_session(path, &wanted)).collect();
    print_table(&copies);
    let violations: Vec<(&CheckedCopy, &str)> =
        copies.iter().filter_map(|copy| Some((copy, copy.broken_law()?))).collect();
    println!(
        "{} sessions, {} clones and cleaned copies, {} failed",
        logs.len(),
        copies.len(),
        violations.len()
    );
    for (copy, law) in violations.iter().take(MAX_PRINTED) {
        println!("{}: {}: {law}", copy.recipe, copy.session.display());
    }
    if violations.is_empty() { Ok(()) } else { bail!("some results violate a law") }
}

/// Returns the directories that are named in the arguments, or else those of `../shared`.
fn directories(args: &[String]) -> Vec<PathBuf> {
    let is_value = |at: usize| at > 0 && args[at - 1] == "--recipe";
    let named = args.iter().enumerate().filter(|(at, arg)| !arg.starts_with("--") && !is_value(*at));
    let named: Vec<PathBuf> = named.map(|(_, arg)| PathBuf::from(arg)).collect();
    if named.is_empty() { SHARED_DIRS.iter().filter_map(|name| shared(name)).collect() } else { named }
}

fn logs_of(dir: &Path) -> Vec<PathBuf> {
    if dir.is_dir() { logs_under(dir) } else { vec![dir.to_owned()] }
}

/// Checks the clones and the cleaned copies of a session by all recipes and levels whose names are wanted.
fn check_session(path: &Path, wanted: &impl Fn(&str) -> bool) -> Vec<CheckedCopy> {
    let log = std::fs::read(path).unwrap_or_default();
    let id = path.file_stem().unwrap_or_default().to_string_lossy();
    let copy = |recipe, checked: Result<(), String>| CheckedCopy {
        recipe,
        session: path.to_owned(),
        violation: checked.err(),
    };
    let recipes = clone_laws::recipes(&log).into_iter().filter(|(name, _)| wanted(name));
    let clones = recipes
        .map(|(name, recipe)| copy(row_name(name, &recipe), clone_laws::check_clone(&log, &id, &recipe)));
    let levels = Level::ALL.map(|level| (format!("clean {}", level.name()), level)).into_iter();
    let cleaned = levels
        .filter(|(name, _)| wanted(name))
        .map(|(name, level)| copy(name, clean_laws::check_clean(&log, level)));
    clones.chain(cleaned).collect()
}

/// Returns the name of a recipe in the table, in which all paths and all messages share a row.
fn row_name(name: String, recipe: &Recipe) -> String {
    match name {
        name if name.starts_with("path ") && recipe.tools.strip.is_none() => "path".to_owned(),
        name if name.starts_with("until") => "until".to_owned(),
        name => name,
    }
}

/// Prints the number of copies, of impossible clones and of violations for each recipe.
fn print_table(copies: &[CheckedCopy]) {
    let mut table: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for copy in copies {
        let [all, impossible, failed] = table.entry(&copy.recipe).or_default();
        *all += 1;
        *impossible += usize::from(copy.is_impossible());
        *failed += usize::from(copy.broken_law().is_some());
    }
    println!("{:30} {:>8} {:>12} {:>8}", "recipe", "sessions", "no clone", "failed");
    for (recipe, [all, impossible, failed]) in &table {
        println!("{recipe:30} {all:8} {impossible:12} {failed:8}");
    }
}
