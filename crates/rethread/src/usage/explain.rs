//! Receipts with every row that was found for them, and why it counts or not.

use std::io;
use std::path::PathBuf;

use rayon::prelude::*;
use rethread_log::{Defect, Entry, Line, Scanner, Sink};
use rethread_model::{LogUsage, Receipt, ResponseKey, Uid, Usage, UsageLedger, UsageRow, UsageSource};
use rethread_store::{SessionFile, scan_lines_with};
use rustc_hash::{FxHashMap, FxHashSet};

use super::LibraryUsage;

/// The reason for which a row is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// Another row of the same response counts: clients write one for each content block.
    Chunk,
    /// The entry was written again, as clients do after a compaction.
    Reappended,
    /// A resumed session repeats the history of another.
    ResumeCopy,
    /// A fork repeats the history of its source.
    ForkCopy,
    /// Another log of the same session repeats it.
    LogCopy,
    /// A progress record repeats an answer of a subagent.
    Progress,
}

impl DropReason {
    /// Returns the name used in JSON.
    ///
    /// ```
    /// assert_eq!(rethread::DropReason::ForkCopy.name(), "fork_copy");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::Chunk => "chunk",
            Self::Reappended => "reappended",
            Self::ResumeCopy => "resume_copy",
            Self::ForkCopy => "fork_copy",
            Self::LogCopy => "log_copy",
            Self::Progress => "progress",
        }
    }
}

/// A row with the usage of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptRow {
    /// The log.
    pub path: PathBuf,
    /// The line.
    pub line: u32,
    /// The usage in the row.
    pub usage: Usage,
    /// `None` for the row that counts.
    pub dropped: Option<DropReason>,
}

/// A receipt with all of its rows.
#[derive(Debug, Clone)]
pub struct ExplainedReceipt<'u> {
    /// The receipt.
    pub receipt: Receipt<'u>,
    /// `message.id`, if the rows have one.
    pub message_id: Option<String>,
    /// The rows: the one that counts, then the others in the order of logs and lines.
    pub rows: Vec<ReceiptRow>,
}

/// A row as it was found.
struct FoundRow {
    key: ResponseKey,
    message_id: Option<String>,
    line: u32,
    usage: Usage,
    source: UsageSource,
    is_fork_copy: bool,
    is_repeated: bool,
}

impl LibraryUsage {
    /// Finds the rows of some receipts. Reads the logs that have them.
    ///
    /// ```
    /// use rethread::{Library, PriceList, UsageFilter};
    ///
    /// let usage = Library::demo().usage(false);
    /// let receipts = usage.receipts(&PriceList::default(), &UsageFilter::default());
    /// for explained in usage.explain(&receipts)? {
    ///     println!("{:?}: {} rows", explained.message_id, explained.rows.len());
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn explain<'u>(&'u self, receipts: &[Receipt<'u>]) -> io::Result<Vec<ExplainedReceipt<'u>>> {
        let wanted: FxHashSet<ResponseKey> = receipts.iter().map(|receipt| receipt.key).collect();
        let has_wanted = |log: &&LogUsage| log.ledger.responses().iter().any(|r| wanted.contains(&r.key));
        let logs: Vec<&LogUsage> = self.logs.iter().filter(has_wanted).collect();
        let read: io::Result<Vec<Vec<FoundRow>>> = logs.par_iter().map(|log| rows_of(log, &wanted)).collect();
        let mut by_key: FxHashMap<ResponseKey, Vec<(&LogUsage, FoundRow)>> = FxHashMap::default();
        for (log, rows) in logs.iter().zip(read?) {
            for row in rows {
                by_key.entry(row.key).or_default().push((log, row));
            }
        }
        let explain = |receipt: &Receipt<'u>| {
            let found = by_key.remove(&receipt.key).unwrap_or_default();
            let message_id = found.iter().find_map(|(_, row)| row.message_id.clone());
            let mut rows: Vec<ReceiptRow> = found
                .into_iter()
                .map(|(log, row)| ReceiptRow {
                    path: log.path.clone(),
                    line: row.line,
                    usage: row.usage,
                    dropped: reason(receipt, log, &row),
                })
                .collect();
            rows.sort_by(|a, b| {
                (a.dropped.is_some(), &a.path, a.line).cmp(&(b.dropped.is_some(), &b.path, b.line))
            });
            ExplainedReceipt { receipt: *receipt, message_id, rows }
        };
        Ok(receipts.iter().map(explain).collect())
    }
}

/// Returns why a row does not count; `None` for the one that does.
fn reason(receipt: &Receipt<'_>, log: &LogUsage, row: &FoundRow) -> Option<DropReason> {
    let is_counted_log = log.path == receipt.counted_log.path;
    if is_counted_log && row.line == receipt.counted.line && row.source == receipt.counted.source {
        return None;
    }
    Some(match row {
        _ if row.source == UsageSource::Progress && receipt.counted.source == UsageSource::Answer => {
            DropReason::Progress
        }
        _ if is_counted_log && row.is_repeated => DropReason::Reappended,
        _ if is_counted_log => DropReason::Chunk,
        _ if row.is_fork_copy => DropReason::ForkCopy,
        _ if log.session == receipt.counted_log.session => DropReason::LogCopy,
        _ => DropReason::ResumeCopy,
    })
}

/// Reads the rows of some responses in a log.
fn rows_of(log: &LogUsage, wanted: &FxHashSet<ResponseKey>) -> io::Result<Vec<FoundRow>> {
    let file = SessionFile::from_user_path(&log.path).map_err(io::Error::other)?.open()?;
    let end = file.metadata()?.len();
    let mut rows =
        RowSink { wanted, ledger: UsageLedger::default(), seen: FxHashSet::default(), rows: Vec::new() };
    scan_lines_with(&file, 0..end, &mut Scanner::default(), UsageRow::MARK, &mut rows)?;
    Ok(rows.rows)
}

struct RowSink<'w> {
    wanted: &'w FxHashSet<ResponseKey>,
    /// Knows the keys of rows.
    ledger: UsageLedger,
    seen: FxHashSet<(Uid, UsageSource)>,
    rows: Vec<FoundRow>,
}

impl Sink for RowSink<'_> {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        let Some(row) = UsageRow::parse(entry, line).filter(|row| !row.is_synthetic()) else { return };
        let key = self.ledger.key_of(&row);
        if !self.wanted.contains(&key) {
            return;
        }
        self.rows.push(FoundRow {
            key,
            message_id: row.message_id.map(|id| String::from_utf8_lossy(id).into_owned()),
            line: row.line,
            usage: row.recorded.usage,
            source: row.source,
            is_fork_copy: row.is_fork_copy,
            is_repeated: row.uuid.is_some_and(|uuid| !self.seen.insert((uuid, row.source))),
        });
    }

    fn defect(&mut self, _: Defect) {}
}
