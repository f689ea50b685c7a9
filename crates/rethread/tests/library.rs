//! The library as tool authors use it: names of sessions, observers, paths that are not UTF-8.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rethread::{Client, Error, ExportOptions, Library, LsOptions, PathStatus, Selector};
use rethread_testkit::{Home, LogBuilder};

fn conversation(session: u32) -> LogBuilder {
    let mut log = LogBuilder::new(session);
    log.prompt("Boil the water.");
    log.answer("It boils.");
    log
}

#[cfg(unix)]
#[test]
fn project_with_a_non_utf8_name_is_listed_loaded_and_shown_by_path() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let home = Home::default();
    let log = conversation(1);
    let dir = home.path().join("projects").join(OsStr::from_bytes(b"-caf\xe9"));
    std::fs::create_dir_all(&dir).expect("a directory");
    let path = dir.join(format!("{}.jsonl", log.session()));
    std::fs::write(&path, log.bytes()).expect("a log");

    let library = Library::open([home.path()]);
    let sessions = library.ls(&LsOptions::new()).sessions;
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].path, path, "not converted to text");

    let source = library.find_one(&sessions[0].path).expect("found by its path");
    assert_eq!(library.find_one(&sessions[0].id).expect("found by its id").file, source.file);
    let loaded = library.load(&source).expect("readable");
    let paths = library.tree(&loaded, Client::NEWEST);
    assert_eq!(paths.len(), 1);
    assert_eq!(paths[0].status, PathStatus::Active);
    assert_eq!(loaded.reader().items(paths[0].path.step).len(), 2);
    assert_eq!(library.info(&source).expect("readable").path, path);
}

#[test]
fn observer_is_called_for_each_session() {
    let home = Home::default();
    let mut logs: Vec<PathBuf> = (1..4).map(|n| home.add("/home/ada/kettle", &conversation(n))).collect();
    logs.sort();
    let seen: Arc<Mutex<Vec<PathBuf>>> = Arc::default();
    let collected = Arc::clone(&seen);
    let library = Library::builder()
        .root(home.path())
        .on_progress(move |progress| {
            assert_eq!(progress.bytes, progress.source.file.bytes);
            collected.lock().expect("not poisoned").push(progress.source.file.path.clone());
        })
        .open();
    let take = || {
        let mut seen = std::mem::take(&mut *seen.lock().expect("not poisoned"));
        seen.sort();
        seen
    };
    library.ls(&LsOptions::new());
    assert_eq!(take(), logs);

    // Read and written.
    let sources = library.select(&[], None).expect("found");
    let out = tempfile::tempdir().expect("a directory");
    library.export(sources, &out.path().join("out"), &ExportOptions::default()).expect("exported");
    let mut twice = [&logs[..], &logs[..]].concat();
    twice.sort();
    assert_eq!(take(), twice);
}

#[test]
fn one_session_is_found_by_id_path_or_directory() {
    let home = Home::default();
    let log = home.add("/home/ada/kettle", &conversation(1));
    let library = Library::open([home.path()]);
    let project = log.parent().expect("a project");
    for selector in [Selector::from("00000001"), Selector::from(&log), Selector::from(project)] {
        let source = library.find_one(selector.clone()).expect("found");
        assert_eq!(source.file.path, log, "{selector:?}");
    }
    home.add("/home/ada/kettle", &conversation(2));
    let error = library.find_one(project).expect_err("two sessions");
    assert!(matches!(&error, Error::NotOne { n: 2, wanted } if wanted == project), "{error}");
}

#[test]
fn demo_session_is_found_by_its_path() {
    let library = Library::demo();
    for session in library.ls(&LsOptions::new()).sessions {
        assert_eq!(library.find_one(&session.path).expect("found").id(), session.id);
    }
}
