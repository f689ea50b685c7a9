//! Tables that are computed when a query names them.

use std::collections::BTreeSet;

use rethread_model::{MicroDollars, Receipt, Time};
use rusqlite::{Connection, params};

use crate::error::IndexError;

/// Computes the receipts of a library and passes them on, when a query needs them.
pub type ListReceipts<'l> = dyn Fn(&mut dyn FnMut(&[Receipt<'_>])) + 'l;

/// Adds the temporary tables that a query names. `mentioned` are all words of the query, in lower case.
///
/// A table is created with `CREATE TEMP TABLE`; queries may read every temporary table. Its columns are documented in
/// `SQL_VIEWS`.
pub(super) fn add_temporary_tables(
    db: &Connection,
    mentioned: &BTreeSet<String>,
    receipts: &ListReceipts<'_>,
) -> Result<(), IndexError> {
    if mentioned.contains("usage") {
        let mut filled = Ok(());
        receipts(&mut |receipts| filled = add_usage(db, receipts));
        filled?;
    }
    Ok(())
}

/// Adds a row for each response of the API.
fn add_usage(db: &Connection, receipts: &[Receipt<'_>]) -> Result<(), IndexError> {
    db.execute_batch(
        "CREATE TEMP TABLE usage (session TEXT, project TEXT, time TEXT, time_ms INTEGER, model TEXT, source TEXT,
            git_branch TEXT, is_subagent INTEGER, agent TEXT, input INTEGER, output INTEGER, cache_write_5m INTEGER,
            cache_write_1h INTEGER, cache_read INTEGER, web_searches INTEGER, is_fast INTEGER, cost_micros INTEGER,
            tool_calls INTEGER, rows INTEGER, copies INTEGER, path TEXT, line INTEGER)",
    )?;
    let mut insert = db.prepare(
        "INSERT INTO temp.usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    for receipt in receipts {
        let ledger = &receipt.log.ledger;
        let usage = receipt.counted.recorded.usage;
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        insert.execute(params![
            receipt.session(),
            receipt.log.project,
            receipt.time.and_then(Time::to_iso),
            receipt.time.map(Time::millis),
            text(receipt.model()),
            if receipt.is_progress_only() { "progress" } else { "answer" },
            text(ledger.git_branch(receipt.record)),
            receipt.record.is_sidechain,
            text(ledger.agent(receipt.record)),
            count(usage.input),
            count(usage.output),
            count(usage.cache_write_5m),
            count(usage.cache_write_1h),
            count(usage.cache_read),
            count(usage.web_searches),
            receipt.counted.terms.is_fast,
            receipt.price.map(|MicroDollars(micros)| count(micros)),
            ledger.tools(receipt.record).len() as i64,
            count(receipt.rows),
            count(receipt.copies),
            receipt.counted_log.path.to_string_lossy(),
            receipt.counted.line,
        ])?;
    }
    Ok(())
}
