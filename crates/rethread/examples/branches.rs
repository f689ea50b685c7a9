//! Lists sessions, walks the branches of one, and clones an abandoned path into a new session.
//!
//! ```console
//! $ cargo run -p rethread --example branches                       # the built-in sample, nothing is written
//! $ cargo run -p rethread --example branches -- CONFIG_DIR SESSION  # a session of a config directory
//! ```

#![expect(clippy::print_stdout, reason = "an example prints what it finds")]

use std::error::Error;

use rethread::edit::Recipe;
use rethread::{Client, CloneOptions, Library, LsOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let (library, session) = match (args.next(), args.next()) {
        (Some(dir), Some(session)) => (Library::open(vec![dir.into()]), session),
        _ => (Library::demo(), "0000d001".into()),
    };
    for row in library.ls(&LsOptions::default(), &|_| {}).sessions {
        println!("{}  {:>3} turns  {}", row.id, row.turns, row.title);
    }

    let sources = library.find(&session)?;
    let loaded = library.load(&sources[0])?;
    let paths = loaded.tree(Client::NEWEST);
    for path in &paths {
        println!("path {} is {} and has {} turns", path.n, path.status, path.turns);
    }

    let Some(abandoned) = paths.iter().find(|path| path.status == "abandoned") else {
        println!("no path is abandoned");
        return Ok(());
    };
    let recipe = Recipe { path: Some(abandoned.n), ..Recipe::default() };
    let options = CloneOptions { recipe, dry_run: library.is_demo(), ..CloneOptions::default() };
    let clone = library.clone_session(&sources[0], &options)?;
    println!(
        "path {}: {} of {} bytes, {} turns",
        abandoned.n, clone.after.bytes, clone.before.bytes, clone.turns
    );
    if let Some(session) = clone.session {
        println!("claude --resume {}", session.id);
    }
    Ok(())
}
