//! Clones every available session by every recipe, cleans it at every level, and checks the laws of the results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use rayon::prelude::*;
use rethread_edit::Level;
use rethread_testkit::{clean_laws, clone_laws};

/// Checks all logs under the given directories, or under `../shared`, and prints the violations by recipe.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let filter = args.iter().position(|arg| arg == "--recipe").and_then(|at| args.get(at + 1));
    let dirs: Vec<PathBuf> = args
        .iter()
        .enumerate()
        .filter(|(at, arg)| !arg.starts_with("--") && (*at == 0 || args[at - 1] != "--recipe"))
        .map(|(_, arg)| PathBuf::from(arg))
        .collect();
    let dirs = match dirs.is_empty() {
        false => dirs,
        true => {
            let at_hand = ["corpus", "oracle/sessions", "oracle/cases"];
            at_hand.iter().filter_map(|name| rethread_testkit::shared(name)).collect()
        }
    };
    let mut logs: Vec<PathBuf> = dirs.iter().flat_map(|dir| logs_of(dir)).collect();
    logs.sort();
    if logs.is_empty() {
        println!("no sessions found, nothing was checked");
        return Ok(());
    }
    let results: Vec<(String, PathBuf, Option<String>)> = logs
        .par_iter()
        .flat_map_iter(|path| {
            let log = std::fs::read(path).unwrap_or_default();
            let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let recipes = clone_laws::recipes(&log);
            let wanted =
                move |(name, _): &(String, _)| filter.is_none_or(|filter| name.starts_with(filter.as_str()));
            let path = path.clone();
            recipes.into_iter().filter(wanted).map(move |(name, recipe)| {
                let wrong = clone_laws::check_clone(&log, &id, &recipe).err();
                let kind = if name.starts_with("path ") && recipe.tools.strip.is_none() {
                    "path".into()
                } else {
                    name
                };
                let kind = if kind.starts_with("until") { "until".to_owned() } else { kind };
                (kind, path.clone(), wrong)
            })
        })
        .chain(logs.par_iter().flat_map_iter(|path| {
            let log = std::fs::read(path).unwrap_or_default();
            let named = |level: &Level| {
                let name = format!("clean {}", level.name());
                filter.is_none_or(|filter| name.starts_with(filter.as_str())).then_some((name, *level))
            };
            let levels: Vec<(String, Level)> = Level::ALL.iter().filter_map(named).collect();
            let path = path.clone();
            levels
                .into_iter()
                .map(move |(name, level)| (name, path.clone(), clean_laws::check_clean(&log, level).err()))
        }))
        .collect();
    let mut table: BTreeMap<&str, (usize, usize, usize)> = BTreeMap::new();
    for (name, _, wrong) in &results {
        let row = table.entry(name).or_default();
        row.0 += 1;
        match wrong.as_deref() {
            Some(wrong) if is_impossible_clone(wrong) => row.1 += 1,
            Some(_) => row.2 += 1,
            None => {}
        }
    }
    println!("{:30} {:>8} {:>12} {:>8}", "recipe", "sessions", "no clone", "failed");
    for (name, (n, empty, wrong)) in &table {
        println!("{name:30} {n:8} {empty:12} {wrong:8}");
    }
    let wrong: Vec<_> = results
        .iter()
        .filter_map(|(name, path, wrong)| Some((name, path, wrong.as_ref()?)))
        .filter(|(.., wrong)| !is_impossible_clone(wrong))
        .collect();
    println!("{} sessions, {} clones and cleaned copies, {} failed", logs.len(), results.len(), wrong.len());
    for (name, path, wrong) in wrong.iter().take(4000) {
        println!("{name}: {}: {wrong}", path.display());
    }
    if wrong.is_empty() { Ok(()) } else { bail!("some results violate a law") }
}

/// Returns whether a clone is impossible: the session is empty, or it is the log of a subagent.
fn is_impossible_clone(wrong: &str) -> bool {
    ["this session has no conversation", "this is a subagent log, not a session"].contains(&wrong)
}

fn logs_of(dir: &Path) -> Vec<PathBuf> {
    if dir.is_dir() { rethread_testkit::logs_under(dir) } else { vec![dir.to_owned()] }
}
