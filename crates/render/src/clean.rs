//! The results of `clean` and of the secret scan, for a terminal.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rethread_edit::{Cleaned, Rule, Secret};
use rethread_model::SessionId;
use rustc_hash::{FxHashMap, FxHashSet};
use unicode_width::UnicodeWidthStr;

use crate::fields::layout_width;
use crate::text::{DisplayOptions, Style, format_bytes, format_count, pad, plural, truncate};

/// Writes a table of the matches of each rule, summed over all sessions.
pub fn write_clean(out: &mut dyn Write, sessions: &[Cleaned], look: &DisplayOptions) -> io::Result<()> {
    let reports = || sessions.iter().map(|cleaned| &cleaned.report);
    let raw: u64 = reports().map(|report| report.bytes_before).sum();
    let cleaned = reports().map(|report| report.bytes_after).sum();
    let share =
        |n: u64| if raw == 0 { String::new() } else { format!("{:.1} %", n as f64 * 100.0 / raw as f64) };
    let line = |name: &str, n: u64, sign: &str| {
        format!("{name:<16} {:>12} {:>8}", format!("{sign}{}", format_bytes(n)), share(n))
    };
    writeln!(out, "{}", line("before", raw, ""))?;
    for rule in Rule::ALL {
        let taken: u64 = reports().filter_map(|report| report.by_rule.get(rule.name())).sum();
        if taken > 0 {
            writeln!(out, "{}", look.paint(Style::Dim, line(rule.name(), taken, "−")))?;
        }
    }
    let taken: u64 = reports().filter_map(|report| report.by_rule.get("redact")).sum();
    if taken > 0 {
        writeln!(out, "{}", look.paint(Style::Dim, line("redact", taken, "−")))?;
    }
    writeln!(out, "{}", line("after", cleaned, ""))?;
    let mut redactions: BTreeMap<&str, u64> = BTreeMap::new();
    for (rule, n) in reports().flat_map(|report| &report.redactions.0) {
        *redactions.entry(rule).or_default() += n;
    }
    for (rule, n) in redactions {
        let times = if n == 1 { "time" } else { "times" };
        writeln!(out, "replaced {:<25} {} {times}", look.sanitize_line(rule), format_count(n))?;
    }
    Ok(())
}

/// A secret that occurs in several places of a session.
struct DistinctSecret<'s> {
    first: &'s Secret,
    n_places: u64,
}

/// Writes the secrets found, by session: each once, with its first position and the number of others; then their
/// number.
pub fn write_secrets(out: &mut dyn Write, secrets: &[Secret], look: &DisplayOptions) -> io::Result<()> {
    let mut sessions: Vec<(&SessionId, Vec<DistinctSecret<'_>>)> = Vec::new();
    let mut session_at: FxHashMap<&SessionId, usize> = FxHashMap::default();
    let mut secret_at: FxHashMap<(&SessionId, &str, &str), usize> = FxHashMap::default();
    for secret in secrets {
        let at = *session_at.entry(&secret.session).or_insert_with(|| {
            sessions.push((&secret.session, Vec::new()));
            sessions.len() - 1
        });
        let found = &mut sessions[at].1;
        let known = secret_at.entry((&secret.session, &secret.rule, &secret.masked)).or_insert(found.len());
        match found.get_mut(*known) {
            Some(known) => known.n_places += 1,
            None => found.push(DistinctSecret { first: secret, n_places: 1 }),
        }
    }
    for (session, found) in &sessions {
        let head = look.paint(Style::Id, look.sanitize_line(session.as_str()));
        let n = plural(found.len() as u64, "secret").to_string();
        writeln!(out, "{head}  {}", look.paint(Style::Dim, n))?;
        for secret in found {
            write_secret(out, secret, look)?;
        }
    }
    if !sessions.is_empty() {
        let distinct: FxHashSet<_> = secrets.iter().map(|secret| (&secret.rule, &secret.masked)).collect();
        let rules: FxHashSet<_> = secrets.iter().map(|secret| &secret.rule).collect();
        let kinds = plural(rules.len() as u64, "kind");
        let (n, places) = (plural(distinct.len() as u64, "secret"), plural(secrets.len() as u64, "place"));
        let sessions = plural(sessions.len() as u64, "session");
        writeln!(out, "{n} of {kinds} in {places} of {sessions}")?;
    }
    Ok(())
}

/// Writes a secret: its kind, its beginning and its places, on two lines if there is no room for one.
fn write_secret(out: &mut dyn Write, secret: &DistinctSecret<'_>, look: &DisplayOptions) -> io::Result<()> {
    const RULE: usize = 24;
    const MASKED: usize = 26;
    let first = secret.first;
    let file = &first.file;
    let file = match file.file_stem().is_some_and(|stem| first.session == *stem.to_string_lossy()) {
        true => String::new(),
        false => format!("{}, ", file.file_name().unwrap_or_default().to_string_lossy()),
    };
    let kind = first.place.name().replace('_', " ");
    let place = first.line.map_or_else(|| kind.clone(), |line| format!("line {line} ({kind})"));
    let more = match secret.n_places {
        1 => String::new(),
        2 => ", and 1 more place".to_owned(),
        n => format!(", and {} more places", format_count(n - 1)),
    };
    let place = look.sanitize_line(&format!("{file}{place}{more}"));
    let cell = |text: &str, width: usize| pad(&truncate(&look.sanitize_line(text), width), width);
    let (rule, masked) = (cell(&first.rule, RULE), cell(&first.masked, MASKED));
    let used = 2 + RULE + 1 + MASKED + 1;
    let width = layout_width(look);
    if look.width.is_none() || used + place.width() <= width {
        return writeln!(out, "  {rule} {masked} {}", look.paint(Style::Dim, place));
    }
    writeln!(out, "  {rule} {}", masked.trim_end())?;
    writeln!(out, "    {}", look.paint(Style::Dim, truncate(&place, width.saturating_sub(4))))
}
