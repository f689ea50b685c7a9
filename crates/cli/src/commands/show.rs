//! `show`: a conversation in the terminal.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;

use rethread::{CallId, Client, LoadedSession, MessageKind, MessageNo, PathSummary, ShowRow, TranscriptItem};
use rethread_render::{self as render, ShowOptions, Style};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{json_line, library, load_one};
use crate::failure::Failure;
use crate::terminal::Terminal;

/// Show the conversation of a session
///
/// Prints the path that the client would resume. If that path contains only local commands, the
/// conversation is shown instead, with a note. `rethread tree` lists the other paths. Compactions appear
/// where they happened, tool results under their calls. #12 is message 12: message numbers never change
/// and can be passed to --at.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The session
    #[arg(value_name = "SESSION")]
    session: OsString,

    /// Show path N of `rethread tree`
    #[arg(long, value_name = "N")]
    path: Option<usize>,

    /// Start at this message, on a path that contains it
    #[arg(long, value_name = "MESSAGE", value_parser = message_number)]
    at: Option<usize>,

    /// Show only these turns: `3`, `2..5`, `4..`, `..2`; negative numbers count from the end
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    turns: Option<String>,

    /// The detail of tool calls
    #[arg(long, value_name = "HOW", default_value = "brief")]
    tools: ToolsArg,

    /// Also show thinking
    #[arg(long)]
    thinking: bool,

    /// Show what a clone removed, if it was kept; message numbers are those of the source session
    #[arg(long, conflicts_with_all = ["path", "turns"])]
    removed: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ToolsArg {
    /// Full inputs and results
    Full,
    /// One line each
    Brief,
    /// Nothing
    None,
}

/// Parses `12` or `#12`, as message numbers are printed.
pub(crate) fn message_number(text: &str) -> Result<usize, String> {
    let number = text.strip_prefix('#').unwrap_or(text);
    number.parse().map_err(|_| "expected a message number such as 12".to_owned())
}

/// Returns a message number in the type of the arguments, which may be 0 or too large.
fn shown_number(n: MessageNo) -> usize {
    n.get() as usize
}

pub(crate) fn run(
    args: &ShowArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = library(global);
    let loaded = load_one(&library, &args.session)?;
    if args.removed {
        return show_removed(args, &loaded, global, terminal);
    }
    let paths = loaded.tree(Client::NEWEST);
    let Some(path) = choose(args, &loaded, &paths)? else {
        terminal.print_note("this session has no conversation");
        return Ok(CommandOutcome::Negative);
    };
    // Earlier files belong to the conversation, unless only a part of it is requested.
    let part = args.turns.is_some() || args.at.is_some();
    let earlier = if part { Vec::new() } else { library.earlier_sessions(&loaded, &path.path) };
    let mut items = loaded.reader().items(path.path.step);
    if let Some(turns) = &args.turns {
        items = take_turns(items, turns)?;
    }
    if let Some(n) = args.at {
        let place = |n: usize| {
            items.iter().position(|item| matches!(item, TranscriptItem::Message(m) if shown_number(m.n) == n))
        };
        let start = place(n).ok_or_else(|| {
            Failure::new(format!("message {n} is not on path {}", path.n))
                .hint("omit --path to show a path that contains it")
        })?;
        // A result is shown under its call, so start there.
        let TranscriptItem::Message(message) = &items[start] else { unreachable!("found as a message") };
        let call = message
            .blocks
            .iter()
            .find_map(|block| block.partner_message)
            .map(shown_number)
            .filter(|_| message.kind == MessageKind::Result);
        let start = call.and_then(place).filter(|&call| call < start).unwrap_or(start);
        items.drain(..start);
    }
    if args.path.is_none() && args.at.is_none() {
        print_resume_point(path, &paths, terminal);
    }
    let mut out = terminal.output();
    if global.json {
        for before in &earlier {
            for item in before.loaded.reader().items(before.step) {
                json_line(&mut out, &ShowRow::from(&item).with_session(&before.loaded.source.file.id))?;
            }
        }
        for item in &items {
            json_line(&mut out, &ShowRow::from(item))?;
        }
    } else {
        let look = &terminal.stdout;
        if paths.len() > 1 {
            let told = format!("path {} of {}, {}", path.n, paths.len(), path.status);
            writeln!(out, "{}\n", look.paint(Style::Dim, told))?;
        }
        for before in &earlier {
            let told = format!("from session {}", before.loaded.source.file.id);
            writeln!(out, "{}\n", look.paint(Style::Dim, look.sanitize_line(&told)))?;
            write_items(
                &mut out,
                &before.loaded,
                &before.loaded.reader().items(before.step),
                args,
                terminal,
            )?;
        }
        if !earlier.is_empty() {
            let told = format!("continued in session {}", loaded.source.file.id);
            writeln!(out, "{}\n", look.paint(Style::Dim, look.sanitize_line(&told)))?;
        }
        write_items(&mut out, &loaded, &items, args, terminal)?;
    }
    out.finish()?;
    Ok(CommandOutcome::Success)
}

/// Notes that the client would not continue at the end of the shown path.
fn print_resume_point(path: &PathSummary, paths: &[PathSummary], terminal: &Terminal) {
    let Some(active) = paths.iter().find(|path| path.path.active) else { return };
    let is_elsewhere = active.n != path.n || active.path.resumes_before_end;
    let Some(entry) = active.resumes_at.as_ref().filter(|_| is_elsewhere) else { return };
    terminal.print_note(&format!(
        "the client would resume at line {}, not at the end of this conversation (`rethread check` shows what would be lost)",
        entry.line
    ));
}

/// Shows the entries that a clone removed.
fn show_removed(
    args: &ShowArgs,
    loaded: &LoadedSession,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let Some(removed) = loaded.removed()? else {
        return Err(Failure::new("content removed from this session was not kept")
            .hint("`rethread clone --keep-removed` keeps it"));
    };
    let mut items = removed.items();
    if let Some(n) = args.at {
        // A message with its calls and results, and all results of those calls.
        let mut wanted = std::collections::HashSet::from([n]);
        for _ in 0..2 {
            for item in &items {
                if let TranscriptItem::Message(m) = item {
                    let partners =
                        || m.blocks.iter().filter_map(|block| block.partner_message).map(shown_number);
                    if wanted.contains(&shown_number(m.n)) {
                        wanted.extend(partners());
                    } else if partners().any(|partner| wanted.contains(&partner)) {
                        wanted.insert(shown_number(m.n));
                    }
                }
            }
        }
        items
            .retain(|item| matches!(item, TranscriptItem::Message(m) if wanted.contains(&shown_number(m.n))));
        if items.is_empty() {
            return Err(Failure::new(format!("message {n} was not removed"))
                .hint("message numbers are those of the session that this one was cloned from"));
        }
    }
    let mut out = terminal.output();
    if global.json {
        for item in &items {
            json_line(&mut out, &ShowRow::from(item))?;
        }
    } else {
        write_items(&mut out, &removed.loaded, &items, args, terminal)?;
    }
    out.finish()?;
    Ok(CommandOutcome::Success)
}

fn write_items(
    out: &mut impl Write,
    loaded: &LoadedSession,
    items: &[TranscriptItem<'_>],
    args: &ShowArgs,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let agents = subagents(loaded);
    let options = ShowOptions {
        tools: match args.tools {
            ToolsArg::Full => render::ToolDetail::Full,
            ToolsArg::Brief => render::ToolDetail::Brief,
            ToolsArg::None => render::ToolDetail::None,
        },
        thinking: args.thinking,
        whole_result: &|text| loaded.whole_result(text),
        subagent: &|call| agents.get(&call).cloned(),
    };
    Ok(render::write_conversation(out, items, &options, &terminal.stdout)?)
}

fn choose<'p>(
    args: &ShowArgs,
    loaded: &LoadedSession,
    paths: &'p [PathSummary],
) -> Result<Option<&'p PathSummary>, Failure> {
    if let Some(n) = args.path {
        let found = paths.iter().find(|path| path.n == n);
        return found.map(Some).ok_or_else(|| {
            Failure::new(format!("no path {n}"))
                .hint(format!("paths are numbered from 1 to {}; `rethread tree` draws them", paths.len()))
        });
    }
    let usual = paths.iter().find(|path| path.path.main).or(paths.last());
    let Some(n) = args.at else { return Ok(usual) };
    let holds = |path: &&PathSummary| {
        let items = loaded.reader().items(path.path.step);
        items.iter().any(|item| matches!(item, TranscriptItem::Message(m) if shown_number(m.n) == n))
    };
    if let Some(path) = usual.filter(holds) {
        return Ok(Some(path));
    }
    let message = u32::try_from(n).ok().and_then(MessageNo::new);
    let Some(step) = message.and_then(|message| loaded.session.step_of_message(message)) else {
        return Err(Failure::new(format!("no message {n}"))
            .hint(format!("messages are numbered from 1 to {}", loaded.session.facts.messages.len())));
    };
    let beyond = loaded.session.descendants_of(step);
    let found = paths.iter().rev().find(|path| beyond[path.path.step]);
    found.map(Some).ok_or_else(|| {
        Failure::new(format!("message {n} is not on any path"))
            .hint("it belongs to a subagent, or to a branch that contains only commands and notes")
    })
}

/// Keeps the turns of a range.
fn take_turns<'a>(items: Vec<TranscriptItem<'a>>, range: &str) -> Result<Vec<TranscriptItem<'a>>, Failure> {
    let is_prompt = |item: &TranscriptItem<'_>| matches!(item, TranscriptItem::Message(m) if m.kind == MessageKind::Prompt);
    let total = items.iter().filter(|item| is_prompt(item)).count();
    let bad = || {
        Failure::new(format!("invalid turn range `{range}`")).hint("try `3`, `2..5`, `4..`, `..2` or `-3..`")
    };
    let number = |text: &str, default: usize| -> Result<usize, Failure> {
        if text.is_empty() {
            return Ok(default);
        }
        match text.parse::<i64>() {
            Ok(n) if n > 0 => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
            Ok(n) if n < 0 => {
                let back = usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
                Ok((total + 1).saturating_sub(back).max(1))
            }
            _ => Err(bad()),
        }
    };
    let (first, last) = match range.split_once("..") {
        Some((first, last)) => (number(first, 1)?, number(last.trim_start_matches('='), total)?),
        None if range.is_empty() => return Err(bad()),
        None => {
            let one = number(range, 1)?;
            (one, one)
        }
    };
    let mut turn = 0;
    let in_range = |item: &TranscriptItem<'_>| {
        turn += usize::from(is_prompt(item));
        (first..=last).contains(&turn.max(usize::from(first == 1)))
    };
    let kept: Vec<TranscriptItem<'a>> = items.into_iter().filter(item_filter(in_range)).collect();
    if kept.is_empty() {
        return Err(
            Failure::new(format!("no turns in range `{range}`")).hint(format!("this path has {total} turns"))
        );
    }
    Ok(kept)
}

/// Fixes the type of the filter closure.
fn item_filter<'a>(
    mut test: impl FnMut(&TranscriptItem<'_>) -> bool,
) -> impl FnMut(&TranscriptItem<'a>) -> bool {
    move |item| test(item)
}

/// Describes the subagents, by the call that started each.
fn subagents(loaded: &LoadedSession) -> HashMap<CallId, String> {
    let told = |agent: rethread::Subagent| {
        let text = match &agent.path {
            Some(path) => format!("subagent: rethread show {}", path.display()),
            None => "subagent, in this file".to_owned(),
        };
        Some((agent.call?, text))
    };
    loaded.subagents().into_iter().filter_map(told).collect()
}
