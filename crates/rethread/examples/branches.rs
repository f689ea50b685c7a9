//! Lists sessions, walks the branches of one, and clones an abandoned path into a new session.
//!
//! ```console
//! $ cargo run -p rethread --example branches                       # the built-in sample, nothing is written
//! $ cargo run -p rethread --example branches -- CONFIG_DIR SESSION  # a session of a config directory
//! ```

#![expect(clippy::print_stdout, reason = "an example prints what it finds")]

use std::error::Error;

use rethread::{Client, CloneOptions, Library, LsOptions, PathStatus, PathSummary, Recipe};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let (library, session) = match (args.next(), args.next()) {
        (Some(dir), Some(session)) => (Library::open([dir]), session),
        _ => (Library::demo(), "0000d001".into()),
    };
    for session in library.ls(&LsOptions::new()).sessions {
        println!("{}  {:>3} turns  {}", session.id, session.turns, session.title.text);
    }

    let source = library.find_one(&session)?;
    let loaded = library.load(&source)?;
    let paths = library.tree(&loaded, Client::NEWEST);
    for path in &paths {
        print_path(path);
    }

    let Some(abandoned) = paths.iter().find(|path| path.status == PathStatus::Abandoned) else {
        println!("no path is abandoned");
        return Ok(());
    };
    let recipe = Recipe { path: Some(abandoned.n), ..Recipe::default() };
    let options = CloneOptions { recipe, dry_run: library.is_demo(), ..CloneOptions::default() };
    let clone = library.clone_session(&source, &options)?;
    println!(
        "path {}: {} of {} bytes, {} turns",
        abandoned.n, clone.after.bytes, clone.before.bytes, clone.turns
    );
    if let Some(session) = clone.session {
        println!("claude --resume {}", session.id);
    }
    Ok(())
}

fn print_path(path: &PathSummary) {
    let begins = match path.fork.as_ref().and_then(|entry| entry.message) {
        Some(message) => format!("forks after message {message}"),
        None => "shares nothing".to_owned(),
    };
    let prompt = path.last_prompt.as_deref().unwrap_or("(none)");
    println!("path {} is {}, {begins}, {} turns; last prompt: {prompt}", path.n, path.status, path.turns);
}
