//! The inventory of a session, for a terminal.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rethread_model::{Inventory, LinkCounts, SessionInfo, ToolCallCounts, Usage};

use crate::text::{DisplayOptions, Style, format_bytes, format_count, pad, pad_left, plural};

/// Writes the inventory of one session.
pub fn write_info(
    out: &mut dyn Write,
    name: &str,
    inventory: &Inventory,
    look: &DisplayOptions,
) -> io::Result<()> {
    writeln!(out, "{}", look.paint(Style::Title, look.sanitize_line(name)))?;
    write_sizes(out, look, inventory)?;
    let messages = &inventory.messages;
    let (user, assistant) = (messages.user, messages.assistant + messages.assistant_without_id);
    let text = format!("{} user, {} assistant", format_count(user), format_count(assistant));
    write_line(out, look, "messages", &text)?;
    write_counts(out, look, "entries", &inventory.entries)?;
    write_counts(out, look, "system", &inventory.system)?;
    write_counts(out, look, "blocks", &inventory.blocks)?;
    write_calls(out, look, &inventory.tool_calls)?;
    write_counts(out, look, "models", &inventory.models)?;
    write_counts(out, look, "versions", &inventory.versions)?;
    write_counts(out, look, "stop reasons", &inventory.stop_reasons)?;
    write_links(out, look, &inventory.chain)?;
    write_usage(out, look, &inventory.usage)?;
    write_counts(out, look, "unknown types", &inventory.unknown.types)?;
    write_counts(out, look, "unknown fields", &inventory.unknown.fields)?;
    write_byte_shares(out, look, inventory)?;
    write_defects(out, look, inventory)
}

/// Returns the number of defects, listed or not.
fn defects_of(inventory: &Inventory) -> u64 {
    inventory.defects.len() as u64 + inventory.defects_omitted
}

/// Writes the size of a session and the shape of its conversation.
fn write_sizes(out: &mut dyn Write, look: &DisplayOptions, inventory: &Inventory) -> io::Result<()> {
    let entries: u64 = inventory.entries.values().sum();
    let mut facts = vec![
        format_bytes(inventory.bytes),
        plural(inventory.lines, "line").to_string(),
        format!("{} {}", format_count(entries), if entries == 1 { "entry" } else { "entries" }),
        plural(inventory.turns, "turn").to_string(),
        plural(inventory.tips, "path").to_string(),
    ];
    for (n, word) in
        [(inventory.forks, "fork"), (inventory.compactions, "compaction"), (inventory.subagents, "subagent")]
    {
        if n > 0 {
            facts.push(plural(n, word).to_string());
        }
    }
    if defects_of(inventory) > 0 {
        facts.push(look.paint(Style::Error, plural(defects_of(inventory), "defect")));
    }
    writeln!(out, "  {}", facts.join(" · "))
}

fn write_calls(out: &mut dyn Write, look: &DisplayOptions, calls: &ToolCallCounts) -> io::Result<()> {
    let mut text = format!("{}, {} with a result", format_count(calls.total), format_count(calls.paired));
    if !calls.orphan_uses.is_empty() {
        text += &format!(", {} without", calls.orphan_uses.len());
    }
    if !calls.multiple_results.is_empty() {
        text += &format!(", {} with several", calls.multiple_results.len());
    }
    if !calls.orphan_results.is_empty() {
        text += &format!("; {} without a call", plural(calls.orphan_results.len() as u64, "result"));
    }
    write_line(out, look, "tool calls", &text)?;
    write_counts(out, look, "tools", &calls.by_name)
}

/// Writes the parents of entries by their position.
fn write_links(out: &mut dyn Write, look: &DisplayOptions, chain: &LinkCounts) -> io::Result<()> {
    let links: BTreeMap<String, u64> = [
        ("parent is the previous entry", chain.previous),
        ("parent is another entry", chain.other),
        ("no parent", chain.null),
        ("no parent field", chain.missing),
        ("parent not in the file", chain.dangling),
        ("linked across a compaction", chain.logical),
        ("linked by file order", chain.inferred),
    ]
    .map(|(name, n)| (name.to_owned(), n))
    .into();
    write_counts(out, look, "chain", &links)
}

/// Writes the first defects, and the number of others.
fn write_defects(out: &mut dyn Write, look: &DisplayOptions, inventory: &Inventory) -> io::Result<()> {
    let listed = &inventory.defects[..inventory.defects.len().min(MAX_DEFECTS)];
    for defect in listed {
        let text = format!("line {}: {}", defect.line, defect.detail);
        write_line(out, look, "defect", &look.paint(Style::Error, look.sanitize_line(&text)))?;
    }
    let more = defects_of(inventory) - listed.len() as u64;
    let (name, text) = match listed {
        _ if more == 0 => return Ok(()),
        [] => ("defects", format!("{} in total", format_count(more))),
        _ => ("", format!("and {} more", format_count(more))),
    };
    write_line(out, look, name, &look.paint(Style::Error, text))
}

/// Maximum number of defects that are listed.
const MAX_DEFECTS: usize = 20;

/// Writes one line per session.
pub fn write_info_table(out: &mut dyn Write, infos: &[SessionInfo], look: &DisplayOptions) -> io::Result<()> {
    let head = ["SIZE", "ENTRIES", "MESSAGES", "TURNS", "CALLS", "PATHS", "DEFECTS"];
    writeln!(out, "{}", look.paint(Style::Dim, head.map(|h| pad_left(h, 8)).join(" ") + "  SESSION"))?;
    for info in infos {
        let i = &info.inventory;
        let messages = i.messages.user + i.messages.assistant + i.messages.assistant_without_id;
        let defects = defects_of(i);
        let cells = [
            format_bytes(i.bytes),
            format_count(i.entries.values().sum()),
            format_count(messages),
            format_count(i.turns),
            format_count(i.tool_calls.total),
            format_count(i.tips),
            if defects > 0 { format_count(defects) } else { String::new() },
        ];
        let cells = cells.map(|cell| pad_left(&cell, 8)).join(" ");
        writeln!(out, "{cells}  {}", look.paint(Style::Id, look.sanitize_line(info.id.as_str())))?;
    }
    Ok(())
}

fn write_line(out: &mut dyn Write, look: &DisplayOptions, name: &str, text: &str) -> io::Result<()> {
    writeln!(out, "  {} {text}", look.paint(Style::Dim, pad(name, 14)))
}

/// Writes counts, largest first, on as many lines as they need.
fn write_counts(
    out: &mut dyn Write,
    look: &DisplayOptions,
    name: &str,
    counts: &BTreeMap<String, u64>,
) -> io::Result<()> {
    let mut counts: Vec<(&String, &u64)> = counts.iter().filter(|&(_, &n)| n > 0).collect();
    if counts.is_empty() {
        return Ok(());
    }
    counts.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    // A log can contain any number of distinct names; only the most frequent are listed.
    let more = counts.len().saturating_sub(MAX_NAMES);
    counts.truncate(MAX_NAMES);
    let width = look.width.unwrap_or(100).saturating_sub(18).max(20);
    let mut name = name;
    let mut text = String::new();
    for (what, &n) in counts {
        let item = format!("{} {}", look.sanitize_line(what), format_count(n));
        let item_width = unicode_width::UnicodeWidthStr::width(item.as_str());
        if !text.is_empty() && unicode_width::UnicodeWidthStr::width(text.as_str()) + item_width + 2 > width {
            write_line(out, look, name, &text)?;
            name = "";
            text.clear();
        }
        if !text.is_empty() {
            text += ", ";
        }
        text += &item;
    }
    if more > 0 {
        text += &format!(" and {more} more");
    }
    write_line(out, look, name, &text)
}

/// Maximum number of names listed per category.
const MAX_NAMES: usize = 100;

fn write_usage(out: &mut dyn Write, look: &DisplayOptions, usage: &Usage) -> io::Result<()> {
    if *usage == Usage::default() {
        return Ok(());
    }
    let mut text = format!(
        "{} in, {} out, {} written to cache, {} read from cache",
        format_count(usage.input),
        format_count(usage.output),
        format_count(usage.cache_write_5m.saturating_add(usage.cache_write_1h)),
        format_count(usage.cache_read),
    );
    if usage.web > 0 {
        text += &format!(", {}", plural(usage.web, "web request"));
    }
    write_line(out, look, "tokens", &text)
}

/// Writes the bytes by kind of content, with a bar for each share.
fn write_byte_shares(out: &mut dyn Write, look: &DisplayOptions, inventory: &Inventory) -> io::Result<()> {
    let mut parts: Vec<_> = inventory.bytes_by.by_label().into_iter().filter(|&(_, n)| n > 0).collect();
    parts.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    let mut name = "bytes";
    for (what, n) in parts {
        let share = n as f64 / inventory.bytes.max(1) as f64;
        let bar = "█".repeat((share * 20.0).round() as usize);
        let text = format!(
            "{} {} {:>5.1} %  {}",
            pad(what, 18),
            pad_left(&format_bytes(n), 7),
            share * 100.0,
            look.paint(Style::Abandoned, bar)
        );
        write_line(out, look, name, text.trim_end())?;
        name = "";
    }
    Ok(())
}
