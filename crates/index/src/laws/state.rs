//! The content of an index, in a form that does not depend on its history.

use rethread_model::{SearchResults, Time};
use rethread_store::SessionFile;

use super::library::{Library, describe};
use crate::catalogue::IndexLevel;
use crate::query::{Query, QuerySyntax};
use crate::search::{LogScanner, ScannedLog, SearchError, SearchOptions, search_scanned};

/// Queries that find each of the texts, by every kind of clause and filter.
const QUERIES: [&str; 25] = [
    "tree branch:active",
    "working tree",
    "\"working tree\"",
    "tre* -clean",
    "the work*",
    "is the wor*",
    "查点 设",
    "line",
    "parseLine",
    "server2 OR retry_count",
    "检查",
    "设置",
    "дерева",
    "C++ [foo",
    "a.go:12",
    "/ckpt_[a-z]+_id/",
    "=> {",
    "why in:user",
    "tree tool:edit",
    "in:thinking tree",
    "in:title tree",
    "branch:abandoned tree",
    "file:late1.rs x",
    "session:0000000 naïve since:2026-01-05",
    "테스트 OR テスト OR 안녕 OR red OR root",
];

/// Returns the rows of all views, with paths instead of the internal numbers of logs.
pub(super) fn rows(library: &Library) -> Vec<String> {
    let snapshot = library.index.snapshot().expect("readable").expect("an index");
    let db = &snapshot.catalogue().db;
    let mut rows = Vec::new();
    for view in ["sessions", "messages", "tool_calls", "files", "findings"] {
        let sql =
            format!("SELECT CAST(logs.path AS TEXT), v.* FROM {view} AS v JOIN logs ON logs.id = v.log");
        let mut select = db.prepare(&sql).expect("a view");
        let names: Vec<String> = select.column_names().iter().map(|&name| name.to_owned()).collect();
        let mut found = select.query([]).expect("rows");
        while let Some(row) = found.next().expect("a row") {
            let mut text = format!("{view}:");
            for (at, name) in names.iter().enumerate().filter(|(_, name)| *name != "log") {
                let value: rusqlite::types::Value = row.get(at).expect("a value");
                text += &format!(" {name}={value:?}");
            }
            rows.push(text);
        }
    }
    rows.sort();
    rows
}

/// Returns whether nothing of the library is missing in the index.
pub(super) fn is_current(library: &Library) -> bool {
    let files = library.files();
    let is_read = library.sync(&files, IndexLevel::Texts).expect("synchronised").logs_read > 0;
    !is_read && library.index.snapshot().expect("readable").expect("an index").compare(&files).is_empty()
}

/// Returns what the first queries find, with the index as far as it goes.
pub(super) fn found(library: &Library, n_queries: usize) -> Vec<String> {
    let files = library.files();
    describe_results(library, n_queries, |query, options| {
        let Some(mut snapshot) = library.index.snapshot().expect("readable") else {
            return search_scanned(query, scan(query, &files), options).expect("searched");
        };
        let stale = snapshot.compare(&files);
        let wanted = if query.has_patterns() { files.iter().collect() } else { stale };
        let scanner = LogScanner::new(query, &describe, &is_project);
        let scanned = wanted.into_iter().filter_map(|file| match query.has_patterns() {
            true => scanner.scan(file).expect("read"),
            false => scanner.scan_tail(&snapshot, file).expect("read"),
        });
        let scanned = scanned.collect();
        match snapshot.search(query, scanned, options) {
            // A name that is nowhere in the library is an error only with an index.
            Err(SearchError::Query(_)) => SearchResults::default(),
            found => found.expect("searched"),
        }
    })
}

/// Returns what the first queries find without the index.
pub(super) fn found_without_index(library: &Library, n_queries: usize) -> Vec<String> {
    let files = library.files();
    describe_results(library, n_queries, |query, options| {
        search_scanned(query, scan(query, &files), options).expect("searched")
    })
}

fn is_project(project: &str, wanted: &str) -> bool {
    project.contains(wanted)
}

fn scan(query: &Query, files: &[SessionFile]) -> Vec<ScannedLog> {
    let scanner = LogScanner::new(query, &describe, &is_project);
    files.iter().filter_map(|file| scanner.scan(file).expect("read")).collect()
}

fn describe_results(
    library: &Library,
    n_queries: usize,
    search: impl Fn(&Query, &SearchOptions<'_>) -> SearchResults,
) -> Vec<String> {
    let mut found = Vec::new();
    for typed in QUERIES.iter().take(n_queries) {
        let parse_time = |text: &str| Time::parse(text.as_bytes()).ok_or("no time".to_owned());
        let query = Query::parse(typed, &QuerySyntax { parse_time: &parse_time }).expect("a query");
        let options =
            SearchOptions { max_sessions: 0, max_hits: 0, snippet_chars: 80, is_project: &is_project, typed };
        found.extend(describe_hits(library, typed, &search(&query, &options)));
    }
    found
}

/// Describes hits without their scores and order, which depend on how often words occur in the index.
fn describe_hits(library: &Library, typed: &str, results: &SearchResults) -> Vec<String> {
    let counts = (results.total_messages, results.total_sessions, results.total_spread);
    let mut found = Vec::new();
    for session in &results.sessions {
        let mut copies: Vec<&str> = session.copies.iter().map(|id| id.as_str()).collect();
        copies.sort_unstable();
        let path = library.name_of(&session.path).display();
        found.push(format!("{typed}: {path} {} {} copies {copies:?}", session.session, session.total));
        for hit in &session.hits {
            found.push(format!(
                "{typed}: {path} {:?} {} line {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
                hit.message,
                hit.key,
                hit.line,
                hit.source,
                hit.place,
                hit.uuid,
                hit.time,
                hit.quality,
                hit.position,
                hit.snippet
            ));
        }
    }
    found.sort();
    found.insert(0, format!("{typed}: {counts:?}"));
    found
}
