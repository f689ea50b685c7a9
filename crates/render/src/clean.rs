//! The results of `clean` and of the secret scan, for a terminal.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rethread_edit::{Cleaned, Rule, Secret};
use rethread_model::SessionId;

use crate::text::{DisplayOptions, Style, format_bytes, format_count};

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

/// Writes the secrets found: each once, with its count and first position.
pub fn write_secrets(out: &mut dyn Write, secrets: &[Secret], look: &DisplayOptions) -> io::Result<()> {
    let mut sessions: Vec<(&SessionId, Vec<&Secret>)> = Vec::new();
    for secret in secrets {
        match sessions.iter_mut().find(|(session, _)| **session == secret.session) {
            Some((_, secrets)) => secrets.push(secret),
            None => sessions.push((&secret.session, vec![secret])),
        }
    }
    for (session, secrets) in sessions {
        writeln!(out, "{}", look.paint(Style::Id, look.sanitize_line(session.as_str())))?;
        let mut distinct: Vec<(&Secret, u64)> = Vec::new();
        for secret in secrets {
            let is_same = |first: &Secret| first.rule == secret.rule && first.masked == secret.masked;
            match distinct.iter_mut().find(|(first, _)| is_same(first)) {
                Some((_, n)) => *n += 1,
                None => distinct.push((secret, 1)),
            }
        }
        for (secret, n) in distinct {
            let places = match n {
                1 => String::new(),
                2 => ", and 1 more place".to_owned(),
                n => format!(", and {} more places", format_count(n - 1)),
            };
            let file = &secret.file;
            let file = match file.file_stem().is_some_and(|stem| secret.session == *stem.to_string_lossy()) {
                true => String::new(),
                false => format!("{}, ", file.file_name().unwrap_or_default().to_string_lossy()),
            };
            let kind = secret.place.name().replace('_', " ");
            let line = secret.line.unwrap_or(0);
            let place = look.sanitize_line(&format!("{file}line {line} ({kind}){places}"));
            let (rule, masked) = (look.sanitize_line(&secret.rule), look.sanitize_line(&secret.masked));
            writeln!(out, "  {rule:<26} {masked:<28} {}", look.paint(Style::Dim, place))?;
        }
    }
    Ok(())
}
