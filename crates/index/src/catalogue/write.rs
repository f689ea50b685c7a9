//! Changes of the catalogue.

use std::path::Path;

use rethread_model::{LogSummary, Severity};
use rusqlite::params;

use super::schema::TABLES_OF_LOGS;
use super::{Catalogue, IndexLevel, LogId, LogRows, ReadPosition, Result, path_to_blob};
use crate::checksum::{CHECKSUM, add_checksum};
use crate::error::IndexError;
use crate::fingerprint::Fingerprint;
use crate::text_files::TextFile;
use crate::texts::TextCommit;

impl Catalogue {
    /// Begins a transaction.
    pub(crate) fn begin(&self) -> Result<()> {
        Ok(self.db.execute_batch("BEGIN IMMEDIATE")?)
    }

    /// Commits the transaction.
    pub(crate) fn commit(&self) -> Result<()> {
        Ok(self.db.execute_batch("COMMIT")?)
    }

    /// Undoes the transaction, if there is one.
    pub(crate) fn roll_back(&self) {
        if !self.db.is_autocommit() {
            let _ = self.db.execute_batch("ROLLBACK");
        }
    }

    /// Adds a log of which nothing is known yet.
    pub(crate) fn add_log(&self, path: &Path, session: &str, is_subagent: bool) -> Result<LogId> {
        let mut insert = self.db.prepare_cached(
            "INSERT INTO logs (path, session, is_subagent, level, position, entries_end, text_end, pending, end,
                modified, inode, checked, head, tail) VALUES (?, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)",
        )?;
        insert.execute(params![path_to_blob(path), session, is_subagent])?;
        Ok(LogId(self.db.last_insert_rowid()))
    }

    /// Records what was read of a log.
    pub(crate) fn set_position(&self, log: LogId, read: &ReadPosition) -> Result<()> {
        let Fingerprint { end, modified, inode, checked, head, tail } = read.print;
        let mut update = self.db.prepare_cached(
            "UPDATE logs SET level = ?, position = ?, entries_end = ?, text_end = ?,
                pending = 0, deleted = NULL, end = ?, modified = ?, inode = ?, checked = ?, head = ?, tail = ?
            WHERE id = ?",
        )?;
        update.execute(params![
            IndexLevel::number(Some(read.level)),
            read.position.cast_signed(),
            read.entries_end.cast_signed(),
            read.text_end.cast_signed(),
            end.cast_signed(),
            modified,
            inode,
            checked,
            head,
            tail,
            log.0
        ])?;
        Ok(())
    }

    /// Records that a log was compared with its fingerprint.
    pub(crate) fn set_checked(&self, log: LogId, print: &Fingerprint) -> Result<()> {
        let mut update = self.db.prepare_cached("UPDATE logs SET checked = ?, inode = ? WHERE id = ?")?;
        update.execute(params![print.checked, print.inode, log.0])?;
        Ok(())
    }

    /// Marks logs whose texts are about to be written.
    pub(crate) fn set_pending(&self, logs: &[LogId]) -> Result<()> {
        let mut update = self.db.prepare_cached("UPDATE logs SET pending = 1 WHERE id = ?")?;
        for log in logs {
            update.execute([log.0])?;
        }
        Ok(())
    }

    /// Records that a log has another path.
    pub(crate) fn rename_log(&self, log: LogId, path: &Path, session: &str, is_subagent: bool) -> Result<()> {
        let mut update = self.db.prepare_cached(
            "UPDATE logs SET path = ?, session = ?, is_subagent = ?, deleted = NULL WHERE id = ?",
        )?;
        update.execute(params![path_to_blob(path), session, is_subagent, log.0])?;
        Ok(())
    }

    /// Marks a log as deleted at a time, in milliseconds since 1970.
    pub(crate) fn set_deleted(&self, log: LogId, time: i64) -> Result<()> {
        let mut update = self.db.prepare_cached("UPDATE logs SET deleted = ? WHERE id = ?")?;
        update.execute([time, log.0])?;
        Ok(())
    }

    /// Removes everything about a log. Its texts are removed with the next change of the text index.
    pub(crate) fn remove_log(&self, log: LogId) -> Result<()> {
        for table in TABLES_OF_LOGS {
            self.db.prepare_cached(&format!("DELETE FROM {table} WHERE log = ?"))?.execute([log.0])?;
        }
        self.db.prepare_cached("DELETE FROM logs WHERE id = ?")?.execute([log.0])?;
        self.db.prepare_cached("INSERT OR IGNORE INTO dead_logs (log) VALUES (?)")?.execute([log.0])?;
        Ok(())
    }

    /// Returns the removed logs whose texts may still be in the text index.
    pub(crate) fn dead_logs(&self) -> Result<Vec<LogId>> {
        let mut select = self.db.prepare_cached("SELECT log FROM dead_logs")?;
        let logs = select.query_map([], |row| Ok(LogId(row.get(0)?)))?;
        Ok(logs.collect::<rusqlite::Result<_>>()?)
    }

    /// Forgets removed logs whose texts were removed.
    pub(crate) fn forget_dead_logs(&self, logs: &[LogId]) -> Result<()> {
        let mut delete = self.db.prepare_cached("DELETE FROM dead_logs WHERE log = ?")?;
        for log in logs {
            delete.execute([log.0])?;
        }
        Ok(())
    }

    /// Stores the state from which reading a log continues.
    pub(crate) fn set_state(&self, log: LogId, state: &[u8]) -> Result<()> {
        let mut insert =
            self.db.prepare_cached("INSERT OR REPLACE INTO states (log, state) VALUES (?, ?)")?;
        insert.execute(params![log.0, state])?;
        Ok(())
    }

    /// Stores the summary of a log.
    pub(crate) fn set_summary(&self, log: LogId, summary: &LogSummary) -> Result<()> {
        let mut stored = postcard::to_extend(summary, vec![0; CHECKSUM])
            .map_err(|_| IndexError::Damaged("a summary cannot be stored"))?;
        add_checksum(&mut stored);
        let mut insert =
            self.db.prepare_cached("INSERT OR REPLACE INTO summaries (log, summary) VALUES (?, ?)")?;
        insert.execute(params![log.0, stored])?;
        let LogSummary { summary, project, .. } = summary;
        let mut insert = self.db.prepare_cached(
            "INSERT OR REPLACE INTO session_rows (log, title, title_source, kind, project, cwd, git_branch,
                first_prompt, created, modified, bytes, entries, messages, turns, tool_calls, paths, compactions,
                subagents, defects, severity, models, versions)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        let count = |n: u64| n.cast_signed();
        insert.execute(params![
            log.0,
            summary.title.text,
            summary.title.source.name(),
            summary.kind.name(),
            project,
            summary.cwd,
            summary.git_branch,
            summary.first_prompt,
            summary.created.map(rethread_model::Time::millis),
            summary.modified.map(rethread_model::Time::millis),
            count(summary.bytes),
            count(summary.entries),
            count(summary.messages),
            count(summary.turns),
            count(summary.tool_calls),
            count(summary.paths),
            count(summary.compactions),
            count(summary.subagents),
            count(summary.defects),
            summary.severity.map(Severity::name),
            summary.models.join(", "),
            summary.versions.join(", "),
        ])?;
        Ok(())
    }

    /// Adds the new rows of a log and updates those that changed.
    pub(crate) fn add_rows(&self, log: LogId, rows: &LogRows) -> Result<()> {
        let known = self.places_of(log)?;
        for row in &rows.messages {
            let place = rows.places.get(row.n as usize - 1).map_or(1, |place| *place as i64);
            let mut insert = self.db.prepare_cached(
                "INSERT OR REPLACE INTO message_rows (log, n, key, line, time, kind, place, model)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            )?;
            let key = row.key.to_u64().cast_signed();
            insert.execute(params![
                log.0,
                row.n,
                key,
                row.line,
                row.time,
                row.kind as i64,
                place,
                row.model
            ])?;
        }
        let mut update =
            self.db.prepare_cached("UPDATE message_rows SET place = ? WHERE log = ? AND n = ?")?;
        for (n, before) in known {
            let now = rows.places.get(n as usize - 1).map_or(before, |place| *place as i64);
            if now != before {
                update.execute(params![now, log.0, n])?;
            }
        }
        drop(update);
        self.add_calls(log, rows)?;
        self.db.prepare_cached("DELETE FROM finding_rows WHERE log = ?")?.execute([log.0])?;
        for (n, row) in rows.findings.iter().enumerate() {
            let mut insert = self.db.prepare_cached(
                "INSERT INTO finding_rows (log, n, line, kind, severity, detail) VALUES (?, ?, ?, ?, ?, ?)",
            )?;
            insert.execute(params![log.0, n as i64, row.line, row.kind, row.severity, row.detail])?;
        }
        Ok(())
    }

    fn add_calls(&self, log: LogId, rows: &LogRows) -> Result<()> {
        for row in &rows.calls {
            let mut insert = self.db.prepare_cached(
                "INSERT INTO call_rows (log, n, message, line, time, tool, file) VALUES (?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET message = excluded.message, line = excluded.line, time = excluded.time,
                    tool = excluded.tool, file = excluded.file",
            )?;
            insert.execute(params![log.0, row.n, row.message_n, row.line, row.time, row.tool, row.file])?;
        }
        let mut update = self.db.prepare_cached(
            "UPDATE call_rows SET result_message = ?, result_time = ?, result_bytes = ?, is_error = ?
            WHERE log = ? AND n = ? AND result_message IS NULL",
        )?;
        for (call, row) in &rows.results {
            let bytes = row.bytes.cast_signed();
            update.execute(params![row.message_n, row.time, bytes, row.is_error, log.0, call])?;
        }
        let mut insert = self.db.prepare_cached(
            "INSERT OR REPLACE INTO file_rows (log, call, path, action) VALUES (?, ?, ?, ?)",
        )?;
        for row in &rows.files {
            insert.execute(params![log.0, row.call_n, row.path, row.action])?;
        }
        Ok(())
    }

    fn places_of(&self, log: LogId) -> Result<Vec<(i64, i64)>> {
        let mut select = self.db.prepare_cached("SELECT n, place FROM message_rows WHERE log = ?")?;
        let places = select.query_map([log.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(places.collect::<rusqlite::Result<_>>()?)
    }

    /// Stores new names.
    pub(crate) fn add_names(&self, names: &[(i64, String)]) -> Result<()> {
        let mut insert = self.db.prepare_cached("INSERT OR IGNORE INTO names (id, name) VALUES (?, ?)")?;
        for (id, name) in names {
            insert.execute(params![id, name])?;
        }
        Ok(())
    }

    /// Records the last commit of the text index.
    pub(crate) fn set_text_commit(&self, commit: TextCommit) -> Result<()> {
        self.db.prepare_cached("UPDATE text_commit SET number = ?")?.execute([commit.number])?;
        Ok(())
    }

    /// Records the files of the text index.
    pub(crate) fn set_text_files(&self, files: &[TextFile]) -> Result<()> {
        self.db.execute("DELETE FROM text_files", [])?;
        let mut insert =
            self.db.prepare_cached("INSERT INTO text_files (name, bytes, modified) VALUES (?, ?, ?)")?;
        for TextFile { name, bytes, modified } in files {
            insert.execute(params![name, bytes.cast_signed(), modified])?;
        }
        Ok(())
    }

    /// Stores a setting of the user.
    pub(crate) fn set_setting(&self, name: &str, value: &str) -> Result<()> {
        let mut insert =
            self.db.prepare_cached("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)")?;
        insert.execute([name, value])?;
        Ok(())
    }
}
