//! The tables of the catalogue.

/// Identifies a file of the catalogue: "rthd".
pub(super) const APPLICATION_ID: i32 = 0x7274_6864;

/// The version of everything that is stored in the index. Increment it whenever the tables, a stored type, the tokens, or
/// what a summary says of the same log change; an index of another version is rebuilt.
pub(super) const FORMAT: i32 = 4;

/// The tables that only the program reads.
const INTERNAL: &str = "
CREATE TABLE logs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path BLOB NOT NULL UNIQUE,
    session TEXT NOT NULL,
    is_subagent INTEGER NOT NULL,
    level INTEGER NOT NULL,
    position INTEGER NOT NULL,
    entries_end INTEGER NOT NULL,
    text_end INTEGER NOT NULL,
    pending INTEGER NOT NULL,
    deleted INTEGER,
    end INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    checked INTEGER NOT NULL,
    head INTEGER NOT NULL,
    tail INTEGER NOT NULL
) STRICT;
CREATE TABLE states (log INTEGER PRIMARY KEY, state BLOB NOT NULL) STRICT;
CREATE TABLE summaries (log INTEGER PRIMARY KEY, summary BLOB NOT NULL) STRICT;
CREATE TABLE dead_logs (log INTEGER PRIMARY KEY) STRICT;
CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE text_commit (catalogue INTEGER NOT NULL, number INTEGER NOT NULL) STRICT;
CREATE TABLE text_files (name TEXT PRIMARY KEY, bytes INTEGER NOT NULL, modified INTEGER NOT NULL) STRICT;
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
";

/// The tables that `sql` shows, through views.
const ROWS: &str = "
CREATE TABLE session_rows (
    log INTEGER PRIMARY KEY, title TEXT, title_source TEXT, kind TEXT, project TEXT, cwd TEXT, git_branch TEXT,
    first_prompt TEXT, created INTEGER, modified INTEGER, bytes INTEGER, entries INTEGER, messages INTEGER,
    turns INTEGER, tool_calls INTEGER, paths INTEGER, compactions INTEGER, subagents INTEGER, defects INTEGER,
    severity TEXT, models TEXT, versions TEXT
) STRICT;
CREATE TABLE message_rows (
    log INTEGER, n INTEGER, key INTEGER, line INTEGER, time INTEGER, kind INTEGER, place INTEGER, model INTEGER,
    PRIMARY KEY (log, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_rows_elsewhere ON message_rows (place) WHERE place <> 0;
CREATE TABLE call_rows (
    log INTEGER, n INTEGER, message INTEGER, line INTEGER, time INTEGER, tool INTEGER, file TEXT,
    result_message INTEGER, result_time INTEGER, result_bytes INTEGER, is_error INTEGER,
    PRIMARY KEY (log, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE file_rows (
    log INTEGER, call INTEGER, path TEXT, action TEXT, PRIMARY KEY (log, call, path)
) STRICT, WITHOUT ROWID;
CREATE TABLE finding_rows (
    log INTEGER, n INTEGER, line INTEGER, kind TEXT, severity TEXT, detail TEXT, PRIMARY KEY (log, n)
) STRICT, WITHOUT ROWID;
";

/// The views that are documented in docs/sql.md. Every time is there twice: as text and in milliseconds since 1970.
const VIEWS: &str = "
CREATE VIEW sessions AS SELECT
    logs.session AS id, CAST(logs.path AS TEXT) AS path, s.project, s.cwd, s.git_branch, s.title, s.title_source, s.kind,
    s.first_prompt, strftime('%Y-%m-%dT%H:%M:%fZ', s.created / 1000.0, 'unixepoch') AS created,
    s.created AS created_ms, strftime('%Y-%m-%dT%H:%M:%fZ', s.modified / 1000.0, 'unixepoch') AS modified,
    s.modified AS modified_ms, s.bytes, s.entries, s.messages, s.turns, s.tool_calls, s.paths, s.compactions,
    s.subagents, s.defects, s.severity, s.models, s.versions, logs.is_subagent,
    logs.deleted IS NOT NULL AS is_deleted, logs.id AS log
FROM logs JOIN session_rows AS s ON s.log = logs.id;
CREATE VIEW messages AS SELECT
    logs.session AS session, m.n, m.line,
    strftime('%Y-%m-%dT%H:%M:%fZ', m.time / 1000.0, 'unixepoch') AS time, m.time AS time_ms,
    CASE m.kind WHEN 0 THEN 'prompt' WHEN 1 THEN 'answer' WHEN 2 THEN 'result' WHEN 3 THEN 'summary'
        WHEN 4 THEN 'command' ELSE 'note' END AS kind,
    CASE m.place WHEN 0 THEN 'active' WHEN 1 THEN 'abandoned' WHEN 2 THEN 'compacted' ELSE 'subagent' END AS place,
    names.name AS model, m.key, m.log
FROM message_rows AS m JOIN logs ON logs.id = m.log LEFT JOIN names ON names.id = m.model;
CREATE VIEW tool_calls AS SELECT
    logs.session AS session, c.n, c.message, c.line,
    strftime('%Y-%m-%dT%H:%M:%fZ', c.time / 1000.0, 'unixepoch') AS time, c.time AS time_ms, names.name AS tool,
    c.file, c.result_message, c.result_time - c.time AS duration_ms, c.result_bytes, c.is_error, c.log
FROM call_rows AS c JOIN logs ON logs.id = c.log LEFT JOIN names ON names.id = c.tool;
CREATE VIEW files AS SELECT
    logs.session AS session, f.path, f.action, c.message, names.name AS tool,
    strftime('%Y-%m-%dT%H:%M:%fZ', c.time / 1000.0, 'unixepoch') AS time, c.time AS time_ms, f.log
FROM file_rows AS f JOIN logs ON logs.id = f.log JOIN call_rows AS c ON c.log = f.log AND c.n = f.call
    LEFT JOIN names ON names.id = c.tool;
CREATE VIEW findings AS SELECT logs.session AS session, f.line, f.kind, f.severity, f.detail, f.log
FROM finding_rows AS f JOIN logs ON logs.id = f.log;
";

/// The statements that create an empty catalogue.
pub(super) fn create() -> String {
    format!(
        "BEGIN; {INTERNAL} {ROWS} {VIEWS}
        INSERT INTO text_commit (catalogue, number) VALUES (random(), 0);
        PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; COMMIT;"
    )
}

/// The tables with rows of a log, by the column that names it.
pub(super) const TABLES_OF_LOGS: [&str; 7] =
    ["states", "summaries", "session_rows", "message_rows", "call_rows", "file_rows", "finding_rows"];
