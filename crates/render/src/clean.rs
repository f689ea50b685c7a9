//! The results of `clean` and of the secret scan, for a terminal.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rethread_edit::Rule;

use crate::rows::{CleanedRow, SecretRow};
use crate::text::{DisplayOptions, Style, format_bytes, format_count};

/// Writes a table of the matches of each rule, summed over all sessions.
pub fn write_clean(out: &mut dyn Write, rows: &[CleanedRow], look: &DisplayOptions) -> io::Result<()> {
    let sum = |of: fn(&CleanedRow) -> u64| rows.iter().map(of).sum::<u64>();
    let (raw, cleaned) = (sum(|row| row.raw), sum(|row| row.cleaned));
    let share =
        |n: u64| if raw == 0 { String::new() } else { format!("{:.1} %", n as f64 * 100.0 / raw as f64) };
    let line = |name: &str, n: u64, sign: &str| {
        format!("{name:<16} {:>12} {:>8}", format!("{sign}{}", format_bytes(n)), share(n))
    };
    writeln!(out, "{}", line("before", raw, ""))?;
    for rule in Rule::ALL {
        let taken: u64 = rows.iter().filter_map(|row| row.by_rule.get(rule.name())).sum();
        if taken > 0 {
            writeln!(out, "{}", look.paint(Style::Dim, line(rule.name(), taken, "−")))?;
        }
    }
    let taken: u64 = rows.iter().filter_map(|row| row.by_rule.get("redact")).sum();
    if taken > 0 {
        writeln!(out, "{}", look.paint(Style::Dim, line("redact", taken, "−")))?;
    }
    writeln!(out, "{}", line("after", cleaned, ""))?;
    let mut redactions: BTreeMap<&str, u64> = BTreeMap::new();
    for (rule, n) in rows.iter().flat_map(|row| &row.redactions.0) {
        *redactions.entry(rule).or_default() += n;
    }
    for (rule, n) in redactions {
        let times = if n == 1 { "time" } else { "times" };
        writeln!(out, "replaced {:<25} {} {times}", look.sanitize_line(rule), format_count(n))?;
    }
    Ok(())
}

/// Writes the secrets found: each once, with its count and first position.
pub fn write_secrets(out: &mut dyn Write, rows: &[SecretRow], look: &DisplayOptions) -> io::Result<()> {
    let mut sessions: Vec<(&str, Vec<&SecretRow>)> = Vec::new();
    for row in rows {
        match sessions.iter_mut().find(|(session, _)| *session == row.session) {
            Some((_, rows)) => rows.push(row),
            None => sessions.push((&row.session, vec![row])),
        }
    }
    for (session, rows) in sessions {
        writeln!(out, "{}", look.paint(Style::Id, look.sanitize_line(session)))?;
        let mut distinct: Vec<(&SecretRow, u64)> = Vec::new();
        for row in rows {
            match distinct.iter_mut().find(|(first, _)| first.rule == row.rule && first.masked == row.masked)
            {
                Some((_, n)) => *n += 1,
                None => distinct.push((row, 1)),
            }
        }
        for (row, n) in distinct {
            let places = match n {
                1 => String::new(),
                2 => ", and 1 more place".to_owned(),
                n => format!(", and {} more places", format_count(n - 1)),
            };
            let file = std::path::Path::new(&row.file);
            let file = match file.file_stem().is_some_and(|stem| stem.to_string_lossy() == row.session) {
                true => String::new(),
                false => format!("{}, ", file.file_name().unwrap_or_default().to_string_lossy()),
            };
            let kind = row.r#where.replace('_', " ");
            let place = look.sanitize_line(&format!("{file}line {} ({kind}){places}", row.line));
            let (rule, masked) = (look.sanitize_line(&row.rule), look.sanitize_line(&row.masked));
            writeln!(out, "  {rule:<26} {masked:<28} {}", look.paint(Style::Dim, place))?;
        }
    }
    Ok(())
}
