//! `search`: finds messages in all sessions.

use std::io::Write as _;
use std::path::Path;

use rethread::{
    Hit, Library, Query, QueryError, QueryErrorKind, QuerySyntax, SearchLimits, SearchOutcome, SearchResults,
    SessionHits, TextSource, Time,
};
use rethread_render::{self as render, HitRow, SearchRow, plural};

use crate::args::{CliArgs, Command, EXCLUDED, GlobalArgs};
use crate::commands::ls::home_dir;
use crate::commands::{json_bytes, writable_library};
use crate::failure::{Failure, with_causes};
use crate::failure_kind::FailureKind;
use crate::terminal::{Terminal, now};
use crate::wording::{self, command_on_named, name_or_path, unreadable};
use crate::{CommandOutcome, time_arg};

/// Search the texts of all sessions
///
/// Finds messages that contain all words, on all branches, in thinking, tool calls, results and subagents. The best are
/// first, the newer of equals first; a message that was copied by a resume, fork or clone is found once.
///
/// In QUERY, "a phrase" stands for adjacent words, check* for words that begin so, -word excludes messages, OR joins
/// alternatives, /x+y/ is a regular expression, and in: role: tool: model: project: branch: file: session: since: until:
/// filter like the options below. Everything else is text, whatever characters it has. parseLine and parse_line are
/// found as a whole and by their parts.
///
/// An index of the texts is kept in the cache directory (`rethread index`). It is brought up to date first, so the newest
/// messages are found, too.
#[derive(Debug, clap::Args)]
pub(crate) struct SearchArgs {
    /// Words, "phrases", prefix*, -word, field:value
    #[arg(value_name = "QUERY")]
    query: Vec<String>,

    /// QUERY is a regular expression, matched exactly
    #[arg(long, short = 'e', conflicts_with = "fixed")]
    regex: bool,

    /// QUERY is a text, matched exactly
    #[arg(long, short = 'F')]
    fixed: bool,

    /// Ignore case with --regex and --fixed
    #[arg(long, short)]
    ignore_case: bool,

    /// Only these kinds of text: user, assistant, tools, thinking, input, output, summary, note, title
    #[arg(long = "in", value_name = "KIND,…")]
    kinds: Vec<String>,

    /// Only calls of this tool and their results; `mcp__git*` for all that begin so
    #[arg(long, value_name = "NAME")]
    tool: Vec<String>,

    /// Only sessions of this project: a directory, or part of its name
    #[arg(long, value_name = "NAME")]
    project: Vec<String>,

    /// Only messages written since then: `3d`, `2 weeks`, `yesterday`, `2026-01-31`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,

    /// Only messages written before then
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,

    /// Only answers of this model, and other messages of sessions that used it
    #[arg(long, value_name = "NAME")]
    model: Vec<String>,

    /// active, abandoned, compacted or subagent: where messages are in the tree; or the name of a git branch
    #[arg(long, value_name = "NAME")]
    branch: Vec<String>,

    /// Only sessions that read or changed this file
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,

    /// Only this session, by its id or the beginning of it
    #[arg(long, value_name = "ID")]
    session: Vec<String>,

    /// List at most N sessions; 0 for all
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    limit: usize,

    /// List at most N messages of each session; 0 for all
    #[arg(long, value_name = "N", default_value_t = 3)]
    hits: usize,

    /// Open hit N in `rethread show`
    #[arg(long, value_name = "N")]
    open: Option<usize>,

    /// Print at most N characters of JSON
    #[arg(long, value_name = "N", requires = "json")]
    max_chars: Option<usize>,

    /// Read all logs instead of using the index
    #[arg(long)]
    no_index: bool,
}

impl SearchArgs {
    /// Returns the query as it was typed.
    pub(crate) fn typed(&self) -> String {
        let words = self.query.iter().map(|word| word.strip_prefix(EXCLUDED).unwrap_or(word));
        words.collect::<Vec<_>>().join(" ")
    }
}

pub(crate) fn run(
    args: &SearchArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = writable_library(global, terminal)?;
    let typed = args.typed();
    let query = query(args, &typed, terminal)?;
    if query.is_empty() && query.filters.is_empty() {
        return Err(Failure::new("nothing to search for")
            .kind(FailureKind::InvalidQuery)
            .hint("`rethread search working tree` finds messages with both words"));
    }
    if query.ignored_words > 0 {
        terminal.warn(&Failure::new(format!("words after the first {} are ignored", Query::MAX_GROUPS)));
    }
    let outcome = search(&library, args, &query, &typed, terminal)?;
    for (path, error) in &outcome.unreadable {
        terminal.warn(&Failure::new(unreadable(path, error)));
    }
    if let Some(damage) = &outcome.rebuilt {
        terminal.warn(&Failure::new(wording::rebuilt(damage)));
    }
    if let Some(error) = &outcome.index_error {
        terminal.warn(&Failure::new(format!("{}; all logs were read instead", with_causes(error))));
    }
    let results = &outcome.results;
    if let Some(n) = args.open {
        return open(n, results, global, terminal);
    }
    if global.json {
        print_rows(&typed, results, args.max_chars, terminal)?;
    } else {
        let mut out = terminal.output();
        let ids = library.short_ids(true);
        render::write_search(&mut out, results, &ids, home_dir().as_deref(), &terminal.stdout)?;
        out.finish()?;
        let name = |session: &SessionHits| {
            let name = library.short_name_among(&ids, session.session.as_str(), &session.path);
            name_or_path(name, &session.session, &session.path)
        };
        print_counts(results, args, &name, global, terminal);
    }
    let is_empty = results.sessions.is_empty();
    Ok(if is_empty { CommandOutcome::Negative } else { CommandOutcome::Success })
}

/// Makes the query of the arguments.
fn query(args: &SearchArgs, typed: &str, terminal: &Terminal) -> Result<Query, Failure> {
    let today = now().to_zoned(terminal.stdout.zone.clone());
    let parse_time = |text: &str| -> Result<Time, String> { time_arg::parse(text, &today) };
    let syntax = QuerySyntax { parse_time: &parse_time };
    let mut query = match (args.regex, args.fixed) {
        _ if typed.is_empty() => Ok(Query::default()),
        (true, _) => Query::pattern(typed, args.ignore_case),
        (_, true) => Query::fixed(typed, args.ignore_case),
        _ => Query::parse(typed, &syntax),
    }
    .map_err(|error| query_failure(&error))?;
    let options = [
        ("in", &args.kinds),
        ("tool", &args.tool),
        ("project", &args.project),
        ("model", &args.model),
        ("branch", &args.branch),
        ("file", &args.file),
        ("session", &args.session),
    ];
    let times = [("since", &args.since), ("until", &args.until)];
    let values =
        options.into_iter().flat_map(|(field, values)| values.iter().map(move |value| (field, value)));
    let times = times.into_iter().filter_map(|(field, value)| Some((field, value.as_ref()?)));
    for (field, value) in values.chain(times) {
        query.add_filter(field, value, &syntax).map_err(|error| query_failure(&error))?;
    }
    Ok(query)
}

fn search(
    library: &Library,
    args: &SearchArgs,
    query: &Query,
    typed: &str,
    terminal: &Terminal,
) -> Result<SearchOutcome, Failure> {
    let limits = SearchLimits {
        sessions: args.limit,
        hits_per_session: args.hits,
        snippet_chars: render::snippet_chars(&terminal.stdout),
        no_index: args.no_index,
    };
    let is_new = !args.no_index && library.index().is_some_and(|index| !index.exists());
    if is_new && terminal.is_interactive() {
        terminal.print_note("reading all sessions once, to make the index");
    }
    let progress = terminal.progress(|| library.all_bytes());
    let found = library.with_progress(progress.observer()).search(query, typed, &limits);
    drop(progress);
    found.map_err(|error| query_failure(&error))
}

/// Opens a hit as `show` does.
fn open(
    n: usize,
    results: &SearchResults,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let found = n.checked_sub(1).and_then(|at| results.hits().nth(at));
    let Some((session, hit)) = found else {
        let count = results.hits().count() as u64;
        return Err(Failure::new(format!("there is no hit {n}"))
            .kind(FailureKind::NotFound)
            .hint(format!("the same search without --open lists {}", plural(count, "hit"))));
    };
    if session.is_deleted {
        return Err(Failure::new(format!("the log of {} no longer exists", session.session))
            .kind(FailureKind::NotFound));
    }
    let path = session.path.as_os_str().to_owned();
    let mut words = vec!["rethread".into(), "show".into(), path];
    words.extend(show_options(hit).into_iter().map(Into::into));
    let parsed = <CliArgs as clap::Parser>::try_parse_from(words);
    match parsed.map(|args| args.command) {
        Ok(Some(Command::Show(args))) => crate::commands::show::run(&args, global, terminal),
        _ => Err(Failure::new(format!("cannot open {}", Path::new(&session.path).display()))),
    }
}

/// Returns the options of `show` with which the text of a hit is visible.
pub(crate) fn show_options(hit: &Hit) -> Vec<String> {
    let mut options = Vec::new();
    if let Some(message) = hit.message {
        options.extend(["--at".to_owned(), message.get().to_string()]);
    }
    match hit.source {
        TextSource::Thinking => options.push("--thinking".to_owned()),
        TextSource::Input | TextSource::Output => options.extend(["--tools", "full"].map(str::to_owned)),
        _ => {}
    }
    options
}

/// Returns the command that opens a hit of the session with this name.
fn show_command(name: &str, hit: &Hit, global: &GlobalArgs) -> String {
    let options: String = show_options(hit).iter().map(|option| format!(" {option}")).collect();
    command_on_named("show", name, global) + &options
}

/// Prints the hits as JSON, as many as fit into a number of characters, and the counts.
fn print_rows(
    typed: &str,
    results: &SearchResults,
    max_chars: Option<usize>,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let mut out = terminal.output();
    // Room for the last line, whose length changes with the number of hits by a few digits only.
    let last = json_bytes(&SearchRow::new(typed, results, results.hits().count()))?.len() + 8;
    let mut room = max_chars.unwrap_or(usize::MAX).saturating_sub(last);
    let mut shown = 0;
    for (n, (session, hit)) in (1..).zip(results.hits()) {
        let line = json_bytes(&HitRow::new(n, session, hit))?;
        if line.len() > room {
            break;
        }
        room -= line.len();
        out.write_all(&line)?;
        shown += 1;
    }
    out.write_all(&json_bytes(&SearchRow::new(typed, results, shown))?)?;
    out.finish()?;
    Ok(())
}

/// Prints how much was found, whether it is all there is, and how to open it.
fn print_counts(
    results: &SearchResults,
    args: &SearchArgs,
    name: &dyn Fn(&SessionHits) -> String,
    global: &GlobalArgs,
    terminal: &Terminal,
) {
    if terminal.is_quiet() {
        return;
    }
    let Some((session, hit)) = results.hits().next() else {
        terminal.print_note("nothing found");
        if args.query.iter().any(|word| !word.ends_with('*')) && !args.regex && !args.fixed {
            terminal.print_note("words match as a whole: check* finds words that begin so");
        }
        return;
    };
    let shown = results.sessions.len() as u64;
    let sessions = results.total_sessions + results.total_spread;
    let sessions_found = plural(results.total_sessions, "session");
    let mut text = match results.total_messages {
        0 => format!("the titles of {sessions_found}"),
        messages => format!("{} in {sessions_found}", plural(messages, "message")),
    };
    if results.total_spread > 0 {
        let more = plural(results.total_spread, "session");
        text += &format!("; {more} with the words in different messages");
    }
    if shown < sessions {
        text += &format!("; {shown} of {sessions} sessions shown, --limit 0 for all");
    } else if results.is_capped() {
        text += "; --hits 0 shows all messages";
    }
    terminal.print_note(&text);
    if !session.is_deleted {
        let command = show_command(&name(session), hit, global);
        terminal.print_note(&format!("to read hit 1: {command}, or --open 1"));
    }
}

/// The number of values that a hint lists.
const MAX_VALUES: usize = 6;

/// The columns of a query that are printed above the caret.
const MAX_QUERY: usize = 70;

/// Words an error in a query, with a caret below its place.
pub(crate) fn query_failure(error: &QueryError) -> Failure {
    let message = match &error.kind {
        QueryErrorKind::UnknownValue { field, value, .. } => match field.as_str() {
            "in" => format!("`{value}` is not a kind of text"),
            "role" => format!("`{value}` is not a role"),
            field => format!("no {field} is called `{value}`"),
        },
        kind => kind.to_string(),
    };
    let (line, caret) = point_at(&error.query, &error.span);
    let chars = |end: usize| error.query[..end].chars().count();
    let mut failure = Failure::new(message)
        .kind(FailureKind::InvalidQuery)
        .pointing_at(format!("  {line}\n  {caret}"))
        .with("query", error.query.as_str().into())
        .with("span", vec![chars(error.span.start), chars(error.span.end)].into());
    if let QueryErrorKind::UnknownValue { valid, .. } = &error.kind {
        failure = failure.with("valid", valid.clone().into());
        if let Some(nearest) = error.kind.nearest() {
            failure = failure.hint(format!("did you mean `{nearest}`?"));
        } else if !valid.is_empty() {
            let shown: Vec<String> =
                valid.iter().take(MAX_VALUES).map(|value| format!("`{value}`")).collect();
            let more = valid.len().saturating_sub(MAX_VALUES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            failure = failure.hint(format!("there are {}{more}", shown.join(", ")));
        }
    }
    failure
}

/// Returns the part of a query around a range, and a line that points at it.
pub(crate) fn point_at(query: &str, span: &std::ops::Range<usize>) -> (String, String) {
    let clean = |text: &str| text.replace(|c: char| c.is_control(), " ");
    let before: Vec<char> = clean(&query[..span.start]).chars().collect();
    let skipped = before.len().saturating_sub(MAX_QUERY / 2);
    let mut line: String = if skipped > 0 { "…".to_owned() } else { String::new() };
    line.extend(&before[skipped..]);
    let indent = render::text_width(&line);
    let marked: String = clean(&query[span.clone()]).chars().take(MAX_QUERY).collect();
    let rest: String = clean(&query[span.end..]).chars().take(MAX_QUERY / 2).collect();
    let caret = " ".repeat(indent) + &"^".repeat(render::text_width(&marked).max(1));
    (line + &marked + &rest, caret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_point_at_their_place() {
        assert_eq!(point_at("x in:thinkin y", &(5..12)), ("x in:thinkin y".into(), "     ^^^^^^^".into()));
        assert_eq!(point_at("漢 a(b", &(5..6)), ("漢 a(b".into(), "    ^".into()));
        assert_eq!(point_at("", &(0..0)), (String::new(), "^".into()));
        let long = "word ".repeat(40) + "in:x";
        let (line, caret) = point_at(&long, &(203..204));
        assert!(line.starts_with('…') && line.ends_with("in:x") && caret.len() <= 40, "{line}\n{caret}");
    }
}
