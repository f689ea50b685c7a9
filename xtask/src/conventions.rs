//! Rules of ARCHITECTURE and CONTRIBUTING that the compiler cannot check.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::workspace;

/// The crates of the workspace; each may depend on those before it.
const LAYERS: [&str; 10] =
    ["log", "model", "store", "index", "edit", "render", "testkit", "rethread", "picker", "cli"];

/// Calls that change the disk. Only `store` has them.
const WRITES: [&str; 10] = [
    "fs::write(",
    "File::create",
    "OpenOptions",
    "File::options()",
    "fs::rename(",
    "remove_file(",
    "remove_dir",
    "create_dir",
    "fs::copy(",
    "set_permissions(",
];

/// Words that no doc comment begins with: a comment states what an item is or does.
const QUESTIONS: [&str; 7] = ["What ", "Why ", "How ", "Which ", "Where ", "Whether ", "Tells "];

/// Nouns whose indices have a type: `NodeId`, `StepId`, `MessageNo`, `CallId`, `EntryNo`.
const INDEXED: [&str; 10] =
    ["node", "nodes", "step", "steps", "message", "messages", "call", "calls", "entry", "entries"];

/// Counts that are named like an index.
const COUNTS: [&str; 2] = ["messages", "entries"];

/// The crates below the front ends, which do not know commands and options.
const LIBRARY: [&str; 7] = ["log", "model", "store", "index", "edit", "render", "rethread"];

/// Files of the library with texts that name commands or options, and the reason.
const NAMES_COMMANDS: [(&str, &str); 1] =
    [("crates/edit/src/redact", "patterns of command lines that contain secrets")];

/// Checks all conventions and lists every violation.
pub(crate) fn run() -> Result<()> {
    let sources = Sources::read()?;
    let mut violations = missing_tests(&sources)?;
    violations.extend(missing_tests_of_rules(&sources));
    violations.extend(upward_dependencies()?);
    violations.extend(writes_outside_store(&sources));
    violations.extend(parsed_details(&sources));
    violations.extend(commands_in_library(&sources));
    violations.extend(functions_without_example(&sources));
    violations.extend(shared_type_names(&sources));
    violations.extend(question_comments(&sources));
    violations.extend(sentinels(&sources));
    violations.extend(bare_indices(&sources));
    for violation in &violations {
        println!("{violation}");
    }
    if !violations.is_empty() {
        bail!("{} conventions are violated", violations.len());
    }
    println!("conventions: {} files, no violation", sources.0.len());
    Ok(())
}

/// The Rust files of the workspace by their path in it.
struct Sources(BTreeMap<PathBuf, String>);

impl Sources {
    fn read() -> Result<Self> {
        let mut files = BTreeMap::new();
        let mut dirs = vec![workspace().join("crates"), workspace().join("xtask"), workspace().join("fuzz")];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
                let path = entry?.path();
                if path.is_dir() {
                    if path.file_name().is_some_and(|name| name != "target" && name != "node_modules") {
                        dirs.push(path);
                    }
                } else if path.extension().is_some_and(|ending| ending == "rs") {
                    let text = fs::read_to_string(&path)?;
                    files.insert(path.strip_prefix(workspace())?.to_owned(), text);
                }
            }
        }
        Ok(Self(files))
    }

    /// Returns the lines of the program with their numbers, without tests and comments.
    fn code(&self) -> impl Iterator<Item = (&Path, usize, &str)> {
        let program = |path: &Path| path.components().any(|part| part.as_os_str() == "src");
        self.0.iter().filter(move |(path, _)| program(path)).flat_map(|(path, text)| {
            let tests = text.find("\n#![cfg(test)]\n").or_else(|| text.find("\n#[cfg(test)]\nmod tests"));
            let tests = tests.unwrap_or(text.len());
            let lines = text[..tests].lines().enumerate();
            let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
            code.map(|(at, line)| (path.as_path(), at + 1, line))
        })
    }
}

fn crate_of(path: &Path) -> &str {
    let mut parts = path.iter().filter_map(|part| part.to_str());
    match parts.next() {
        Some("crates") => parts.next().unwrap_or_default(),
        first => first.unwrap_or_default(),
    }
}

/// Finds tests that ARCHITECTURE names but that do not exist: `` `name` (crate/path.rs) ``. Several names may share
/// one path.
fn missing_tests(sources: &Sources) -> Result<Vec<String>> {
    let text = fs::read_to_string(workspace().join("ARCHITECTURE.md"))?;
    let mut missing = Vec::new();
    let mut named = 0;
    let section = text.split("\n## ").find(|section| section.starts_with("Invariants")).unwrap_or_default();
    for row in section.lines().filter(|line| line.starts_with("| ")) {
        let Some(cell) = row.trim_end_matches(['|', ' ']).rsplit(" | ").next() else { continue };
        for (names, file) in tests_in(cell) {
            let path = Path::new("crates").join(&file);
            let code = sources.0.get(&path);
            for name in names {
                named += 1;
                let found = code.is_some_and(|code| {
                    // Tests that a macro makes are listed by name.
                    code.contains(&format!("fn {name}(")) || code.lines().any(|line| line.trim() == name)
                });
                if !found {
                    missing.push(format!("ARCHITECTURE.md: no test `{name}` in crates/{file}"));
                }
            }
        }
    }
    if named == 0 {
        missing.push("ARCHITECTURE.md: no row names a test".to_owned());
    }
    Ok(missing)
}

/// Finds tests that the table of client rules cites and that do not exist.
fn missing_tests_of_rules(sources: &Sources) -> Vec<String> {
    let path = Path::new("crates/model/src/rules/table.rs");
    let Some(table) = sources.0.get(path) else { return vec![format!("{}: missing", path.display())] };
    let cited = table.split('`').skip(1).step_by(2).filter(|name| {
        name.matches('_').count() > 2 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    });
    let exists = |name: &str| sources.0.values().any(|code| code.contains(&format!("fn {name}(")));
    let missing: BTreeSet<&str> = cited.filter(|name| !exists(name)).collect();
    missing.into_iter().map(|name| format!("{}: no test `{name}`", path.display())).collect()
}

/// Parses a cell of the table of invariants: names of tests with the file that contains them.
fn tests_in(cell: &str) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut rest = cell;
    while let Some(at) = rest.find(['`', '(']) {
        let (open, after) = rest[at..].split_at(1);
        let close = if open == "`" { '`' } else { ')' };
        let Some(end) = after.find(close) else { break };
        let inner = &after[..end];
        if open == "`" {
            let is_name =
                inner.contains('_') && inner.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            names.extend(is_name.then(|| inner.to_owned()));
        } else if inner.ends_with(".rs") {
            found.push((std::mem::take(&mut names), inner.to_owned()));
        }
        rest = &after[end + 1..];
    }
    // A name without a file is reported as missing.
    if !names.is_empty() {
        found.push((names, String::new()));
    }
    found
}

/// Finds dependencies on a crate of the same or a higher layer.
fn upward_dependencies() -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (at, layer) in LAYERS.iter().enumerate() {
        let manifest = fs::read_to_string(workspace().join(format!("crates/{layer}/Cargo.toml")))?;
        let tables = manifest.split("\n[").filter(|table| {
            let name = table.split(']').next().unwrap_or_default().trim_start_matches('[');
            name.ends_with("dependencies") && !name.ends_with("dev-dependencies")
        });
        for name in tables.flat_map(str::lines).filter_map(|line| line.split(['.', ' ', '=']).next()) {
            let name = match name {
                "rethread" => name,
                _ => match name.strip_prefix("rethread-") {
                    Some(name) => name,
                    None => continue,
                },
            };
            if !LAYERS[..at].contains(&name) {
                wrong.push(format!("crates/{layer}: depends on `{name}`, which is not below it"));
            }
        }
    }
    Ok(wrong)
}

fn writes_outside_store(sources: &Sources) -> Vec<String> {
    let library = |path: &Path| !["store", "testkit", "xtask", "fuzz"].contains(&crate_of(path));
    let writes =
        |line: &str| WRITES.iter().find(|call| line.contains(*call) && !line.contains("rethread_store::"));
    let code = sources.code().filter(|(path, ..)| library(path));
    code.filter_map(|(path, line, text)| {
        writes(text).map(|call| format!("{}:{line}: `{call}` outside of `store`", path.display()))
    })
    .collect()
}

/// Finds code that reads the wording of a defect or finding.
fn parsed_details(sources: &Sources) -> Vec<String> {
    let parses = |line: &str| {
        ["contains(", "starts_with(", "ends_with(", "find(", "strip_prefix(", "split("]
            .iter()
            .any(|call| line.contains(&format!("detail.{call}")))
    };
    let code = sources.code().filter(|(.., text)| parses(text));
    code.map(|(path, line, _)| format!("{}:{line}: parses the wording of a defect", path.display())).collect()
}

/// Finds texts of the library that name a command or an option of the program. The library reports findings, warnings and
/// errors as data, and front ends word the advice.
fn commands_in_library(sources: &Sources) -> Vec<String> {
    let is_library = |path: &Path| {
        LIBRARY.contains(&crate_of(path)) && !NAMES_COMMANDS.iter().any(|(part, _)| path.starts_with(part))
    };
    let code = sources.code().filter(|(path, _, text)| is_library(path) && names_command(text));
    code.map(|(path, line, _)| format!("{}:{line}: names a command or an option", path.display())).collect()
}

/// Returns whether a line of code contains `` `rethread … `` or `--option` in a text.
fn names_command(line: &str) -> bool {
    let names_option = line.match_indices("--").any(|(at, _)| {
        line[..at].ends_with([' ', '(', '`', '"'])
            && line[at + 2..].starts_with(|c: char| c.is_ascii_lowercase())
    });
    line.contains('"') && (line.contains("`rethread ") || names_option)
}

/// Finds public functions of the façade without a compiled example.
fn functions_without_example(sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in sources.0.iter().filter(|(path, _)| path.starts_with("crates/rethread/src")) {
        let mut has_example = false;
        for (at, line) in text.lines().enumerate() {
            let code = line.trim_start();
            if code.starts_with("///") {
                has_example |= code.contains("```");
                continue;
            }
            if code.starts_with("pub fn ") && !has_example {
                found.push(format!("{}:{}: a public function has no example", path.display(), at + 1));
            }
            // Attributes may stand between the example and the function.
            has_example &= code.starts_with("#[");
        }
    }
    found
}

/// Finds types that share a name.
fn shared_type_names(sources: &Sources) -> Vec<String> {
    let mut types: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (path, line, text) in sources.code() {
        let mut words = text.split_whitespace().skip_while(|word| word.starts_with("pub"));
        let keyword = words.next().unwrap_or_default();
        if !["struct", "enum", "trait", "type"].contains(&keyword) || text.starts_with("    type ") {
            continue;
        }
        let name = words.next().unwrap_or_default();
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        types.entry(&name[..end]).or_default().insert(format!("{}:{line}", path.display()));
    }
    let shared = types.into_iter().filter(|(_, places)| places.len() > 1);
    shared
        .map(|(name, places)| {
            let places: Vec<String> = places.into_iter().collect();
            format!("type `{name}` is defined {} times: {}", places.len(), places.join(", "))
        })
        .collect()
}

fn question_comments(sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in &sources.0 {
        let mut before = "";
        for (at, line) in text.lines().enumerate() {
            let comment = |line: &str| line.trim_start().starts_with("///") || line.starts_with("//!");
            let begins = comment(line) && (!comment(before) || before.trim().len() <= 3);
            let words = line.trim_start().trim_start_matches(['/', '!']).trim_start();
            if begins && QUESTIONS.iter().any(|question| words.starts_with(question)) {
                found.push(format!(
                    "{}:{}: a doc comment begins with a question word",
                    path.display(),
                    at + 1
                ));
            }
            before = line;
        }
    }
    found
}

/// Finds numbers in `model` that mean none.
fn sentinels(sources: &Sources) -> Vec<String> {
    let is_sentinel = |line: &str| {
        let compared = |bits: &str| {
            [format!("== {bits}::MAX"), format!("!= {bits}::MAX")].iter().any(|test| line.contains(test))
        };
        line.contains("const NONE") || compared("u32") || compared("u16")
    };
    let code = sources.code().filter(|(path, _, text)| crate_of(path) == "model" && is_sentinel(text));
    code.map(|(path, line, _)| format!("{}:{line}: a number means none", path.display())).collect()
}

/// Finds parameters and fields that are the index of an entry, step, message or call but have no type of their own.
///
/// `testkit` is left out: its laws number the entries of a graph that is independent of the model.
fn bare_indices(sources: &Sources) -> Vec<String> {
    let code = sources.code().filter(|(path, ..)| path.starts_with("crates") && crate_of(path) != "testkit");
    code.flat_map(|(path, line, text)| {
        let report = move |name| format!("{}:{line}: `{name}` is a bare index", path.display());
        bare_indices_in(text).map(report)
    })
    .collect()
}

/// Returns the names in a line of code that are declared as a number, or several, and named like an index.
fn bare_indices_in(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(": ").filter_map(|(at, _)| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let start = text[..at].rfind(|c| !is_word(c)).map_or(0, |before| before + 1);
        let name = &text[start..at];
        let value = text[at + 2..].trim_start_matches(['&', '[']);
        let many = value.strip_prefix("Option<").or(value.strip_prefix("Vec<"));
        let value = many.unwrap_or(value);
        let end = value.find(|c| !is_word(c)).unwrap_or(value.len());
        let is_number = matches!(&value[..end], "usize" | "u32");
        let noun = name.rsplit('_').next().unwrap_or_default();
        let is_count = many.is_none() && COUNTS.contains(&noun);
        (is_number && INDEXED.contains(&noun) && !is_count).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_names_are_parsed_with_their_files() {
        let cell = "`a_b`, `c_d` (log/src/read.rs), fuzz target `model`, `cargo xtask hunt`, `e_f` (cli/tests/cli.rs)";
        let expected = [
            (vec!["a_b".to_owned(), "c_d".to_owned()], "log/src/read.rs".to_owned()),
            (vec!["e_f".to_owned()], "cli/tests/cli.rs".to_owned()),
        ];
        assert_eq!(tests_in(cell), expected);
    }

    #[test]
    fn bare_indices_are_found_by_name_and_type() {
        let found = |text| bare_indices_in(text).collect::<Vec<_>>();
        assert_eq!(found("fn f(node: usize, first_step: u32, at: usize)"), ["node", "first_step"]);
        assert_eq!(found("    let f = |call: &usize| 0;"), ["call"]);
        assert_eq!(found("pub entries: Vec<u32>, pub message: Option<usize>"), ["entries", "message"]);
        assert_eq!(found("node: NodeId, entry: &Entry, pub messages: usize, n_steps: u64"), [""; 0]);
    }

    #[test]
    fn commands_and_options_in_texts_are_found() {
        for line in
            [r#"hint("`rethread repair` fixes it")"#, r#"push("not copied (--file-history copies it)")"#]
        {
            assert!(names_command(line), "{line}");
        }
        for line in [r#"concat("a", "<!-- b -->")"#, "let n = a - -b;", r#"split("--")"#] {
            assert!(!names_command(line), "{line}");
        }
    }

    #[test]
    fn dependencies_point_one_way() {
        assert_eq!(upward_dependencies().expect("manifests are readable"), Vec::<String>::new());
    }
}
