//! The sessions that a command works on.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use rethread::{Library, Listing, LogSource, LsOptions, NewestSession, SessionSummary};
use rethread_render::truncate;

use crate::commands::selector;
use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::wording::session_name;

/// The sessions meant when none is named: those of the project that contains the current directory, or else of all
/// projects. The project is that of the nearest directory, going up, that has sessions.
pub(crate) struct SessionScope {
    /// The directories to try, nearest first; `None` stands for all projects.
    dirs: Vec<Option<PathBuf>>,
}

impl SessionScope {
    /// Returns the scope of the current directory.
    pub(crate) fn here(library: &Library) -> Self {
        let around = env::current_dir().map(|cwd| library.projects_around(&cwd)).unwrap_or_default();
        Self { dirs: around.into_iter().map(Some).chain([None]).collect() }
    }

    /// Returns all sessions.
    pub(crate) fn all() -> Self {
        Self { dirs: vec![None] }
    }

    /// Lists its sessions; also returns the directory of their project. `options` select among them.
    pub(crate) fn list(
        &self,
        mut options: LsOptions,
        list: impl Fn(&LsOptions) -> Listing,
    ) -> (Listing, Option<PathBuf>) {
        let mut listing = Listing::default();
        for dir in &self.dirs {
            options.cwd.clone_from(dir);
            listing = list(&options);
            // A directory without sessions only shares its encoded name with another project.
            if !listing.is_empty() {
                return (listing, dir.clone());
            }
        }
        (listing, None)
    }
}

/// Finds the sessions of a command on many: those that are named, or with `all` those of all projects, or else those
/// of the current scope.
pub(crate) fn find_many(
    library: &Library,
    named: &[OsString],
    all: bool,
    terminal: &Terminal,
) -> Result<Vec<LogSource>, Failure> {
    let mut found = Vec::new();
    for name in named {
        match name == "last" {
            true => found.push(newest(library, true, terminal)?),
            false => found.extend(library.select(&[selector(name)?], None)?),
        }
    }
    if !named.is_empty() {
        return Ok(found);
    }
    let scope = if all { SessionScope::all() } else { SessionScope::here(library) };
    for dir in scope.dirs {
        found = library.select(&[], dir)?;
        if !found.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// Finds the sessions of a command that writes a file for each of them. Outside all projects they have to be named,
/// because everything is more than most people mean.
pub(crate) fn find_many_to_write(
    library: &Library,
    named: &[OsString],
    all: bool,
    terminal: &Terminal,
) -> Result<Vec<LogSource>, Failure> {
    let found = find_many(library, named, all, terminal)?;
    let is_project = || env::current_dir().is_ok_and(|cwd| !library.projects_around(&cwd).is_empty());
    if !named.is_empty() || all || found.len() < 2 || library.is_demo() || is_project() {
        return Ok(found);
    }
    Err(Failure::new("the current directory has no sessions")
        .hint(format!("--all includes the {} sessions of all projects", found.len()))
        .hint("name sessions or projects to select them; `rethread ls --all` lists them"))
}

/// Finds the session of a command on one: the one that is named, or else the newest of the current scope.
pub(crate) fn find_one(
    library: &Library,
    named: Option<&OsStr>,
    terminal: &Terminal,
) -> Result<LogSource, Failure> {
    match named {
        Some(named) if named != "last" => {
            let source = library.find_one(selector(named)?)?;
            print_prompt_match(&source, named, library, terminal);
            Ok(source)
        }
        _ => newest(library, named.is_some(), terminal),
    }
}

/// Says which session is meant if the name is only in its first prompt, which listings do not show.
fn print_prompt_match(source: &LogSource, named: &OsStr, library: &Library, terminal: &Terminal) {
    let named = named.to_string_lossy().to_lowercase();
    if named == "-"
        || source.id().as_str().to_lowercase().contains(&*named)
        || named.contains(['/', '\\'])
        || named.ends_with(".jsonl")
    {
        return;
    }
    let Ok(session) = source.summary() else { return };
    let has_prompt =
        session.first_prompt.as_ref().is_some_and(|prompt| prompt.to_lowercase().contains(named.trim()));
    if has_prompt && !session.title.text.to_lowercase().contains(named.trim()) {
        terminal.print_note(&format!("found in the first prompt of {}", label(&session, library)));
    }
}

/// Finds the newest session of the current scope. A choice that was not named, as `last` names the newest of this
/// project, is printed.
fn newest(library: &Library, named: bool, terminal: &Terminal) -> Result<LogSource, Failure> {
    let newest = library.newest(&env::current_dir().unwrap_or_default())?;
    if !named || newest.project.is_none() && !library.is_demo() {
        terminal.print_note(&choice(&newest, named, library));
    }
    Ok(newest.source)
}

/// Describes the newest session.
fn choice(newest: &NewestSession, named: bool, library: &Library) -> String {
    let last = if named { "last: " } else { "" };
    let of = match &newest.project {
        Some(dir) => format!("newest of {}", dir.display()),
        None => "newest of all projects".to_owned(),
    };
    format!("{last}{}, {of}", label(&newest.summary, library))
}

/// Returns the name of a session, and its title.
fn label(session: &SessionSummary, library: &Library) -> String {
    let name = session_name(&session.id, &session.path, library);
    let title = truncate(&session.title.text, 50);
    if title.is_empty() { name } else { format!("{name} \"{title}\"") }
}
