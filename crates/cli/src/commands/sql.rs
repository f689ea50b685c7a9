//! `sql`: queries the catalogue.

use std::io::{self, Read, Write};
use std::time::Duration;

use rethread::{Library, SQL_VIEWS, SqlError, SqlOutcome, SqlRowWriter, SqlValue};
use rethread_render::{SqlCsv, SqlJsonRow, SqlTable, Style, distinct_names, plural};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::search::point_at;
use crate::commands::{json_line, writable_library};
use crate::failure::{Failure, with_causes};
use crate::failure_kind::FailureKind;
use crate::terminal::Terminal;
use crate::wording::unreadable;

/// Query sessions, messages, tool calls, files and findings in SQL
///
/// QUERY is one statement for SQLite that reads the views sessions, messages, tool_calls, files and findings; --schema
/// describes them. It can neither write nor read anything else. The views are those of the index that `rethread search`
/// uses, which is brought up to date first.
///
/// On a terminal, long values are cut to fit. --json and --csv print them whole; in both, bytes are hexadecimal. In CSV,
/// NULL is empty and an empty text is "". Values are printed as they are, so import them into a spreadsheet as text.
#[derive(Debug, clap::Args)]
pub(crate) struct SqlArgs {
    /// The query; `-` reads it from standard input
    #[arg(value_name = "QUERY", required_unless_present = "schema")]
    query: Option<String>,

    /// Print CSV with a header
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Describe the views and their columns
    #[arg(long, conflicts_with_all = ["query", "csv"])]
    schema: bool,

    /// Stop the query after N seconds; 0 for never
    #[arg(long, value_name = "N", default_value_t = 60)]
    timeout: u64,
}

/// The longest query that is read from standard input.
const MAX_QUERY: u64 = 1 << 20;

pub(crate) fn run(
    args: &SqlArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    if args.schema {
        return print_schema(global, terminal);
    }
    let query = match args.query.as_deref() {
        Some("-") => {
            let mut text = String::new();
            if io::stdin().take(MAX_QUERY + 1).read_to_string(&mut text)? as u64 > MAX_QUERY {
                return Err(
                    Failure::new("the query is longer than a megabyte").kind(FailureKind::InvalidQuery)
                );
            }
            text
        }
        query => query.unwrap_or_default().to_owned(),
    };
    let library = writable_library(global, terminal)?;
    let max_time = Some(Duration::from_secs(args.timeout)).filter(|time| !time.is_zero());
    let mut out = terminal.output();
    let mut hidden_columns = 0;
    let (outcome, rows) = match (global.json, args.csv) {
        (true, _) => {
            let mut rows = JsonRows { out: &mut out, names: Vec::new(), rows: 0 };
            (query_library(&library, &query, max_time, &mut rows, terminal), rows.rows)
        }
        (_, true) => {
            let mut rows = SqlCsv::new(&mut out, &terminal.stdout);
            (query_library(&library, &query, max_time, &mut rows, terminal), rows.rows)
        }
        _ => {
            let mut rows = SqlTable::new(&mut out, &terminal.stdout);
            let outcome = query_library(&library, &query, max_time, &mut rows, terminal);
            hidden_columns = rows.hidden_columns;
            (outcome, rows.rows)
        }
    };
    let outcome = outcome.map_err(|error| sql_failure(&query, error))?;
    out.finish()?;
    for (path, error) in &outcome.unreadable {
        terminal.warn(&Failure::new(unreadable(path, error)));
    }
    if outcome.is_stale {
        terminal
            .warn(&Failure::new("another process is updating the index; the newest messages may be missing"));
    }
    if !global.json && !args.csv {
        let mut text = plural(rows, "row").to_string();
        if hidden_columns > 0 {
            let hidden = plural(hidden_columns as u64, "column");
            text += &format!("; no room for {hidden}: name those to show, or use --json or --csv");
        }
        terminal.print_note(&text);
    }
    Ok(if rows == 0 { CommandOutcome::Negative } else { CommandOutcome::Success })
}

fn query_library(
    library: &Library,
    query: &str,
    max_time: Option<Duration>,
    writer: &mut dyn SqlRowWriter,
    terminal: &Terminal,
) -> Result<SqlOutcome, SqlError> {
    let progress = terminal.progress(|| library.all_bytes());
    library.with_progress(progress.observer()).sql(query, max_time, writer)
}

/// Writes an object for each row.
struct JsonRows<'w, W> {
    out: &'w mut W,
    names: Vec<String>,
    rows: u64,
}

impl<W: Write> SqlRowWriter for JsonRows<'_, W> {
    fn columns(&mut self, names: &[String]) -> io::Result<()> {
        self.names = distinct_names(names);
        Ok(())
    }

    fn row(&mut self, values: &[SqlValue<'_>]) -> io::Result<()> {
        self.rows += 1;
        json_line(&mut *self.out, &SqlJsonRow { names: &self.names, values })
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn print_schema(global: &GlobalArgs, terminal: &Terminal) -> Result<CommandOutcome, Failure> {
    let mut out = terminal.output();
    for (n, view) in SQL_VIEWS.iter().enumerate() {
        if global.json {
            for column in view.columns {
                let row = serde_json::json!({ "type": "column", "view": view.name, "column": column.name,
                    "meaning": column.meaning });
                json_line(&mut out, &row)?;
            }
            continue;
        }
        let gap = if n > 0 { "\n" } else { "" };
        writeln!(out, "{gap}{}  {}", terminal.stdout.paint(Style::Title, view.name), view.purpose)?;
        for column in view.columns {
            writeln!(out, "  {:<15} {}", column.name, column.meaning)?;
        }
    }
    out.finish()?;
    Ok(CommandOutcome::Success)
}

/// Words an error in a query, with a caret below its place.
fn sql_failure(query: &str, error: SqlError) -> Failure {
    const ALL: &str = "`rethread sql --schema` describes the tables and columns";
    let at = |message: String, span: Option<&std::ops::Range<usize>>| match span {
        Some(span) => {
            let (line, caret) = point_at(query, span);
            Failure::new(format!("{message}\n  {line}\n  {caret}"))
        }
        None => Failure::new(message),
    };
    let message = error.to_string();
    match error {
        SqlError::Write(error) => error.into(),
        SqlError::UnknownName { nearest: Some(nearest), span, .. } => {
            at(message, span.as_ref()).hint(format!("did you mean `{nearest}`?"))
        }
        SqlError::UnknownName { span, .. } => at(message, span.as_ref()).hint(ALL),
        SqlError::Syntax { span, .. } => at(message, span.as_ref()).hint(ALL),
        SqlError::NotAllowed(_) | SqlError::Failed(_) => Failure::new(message).hint(ALL),
        SqlError::TooLong(_) => Failure::new(message).hint("--timeout N sets the number of seconds"),
        SqlError::SeveralStatements | SqlError::NoResult => {
            Failure::new(message).hint("`rethread sql 'select title from sessions'` lists all titles")
        }
        SqlError::Index(rethread::IndexError::Missing) => {
            Failure::new("there is no cache directory for an index").hint("set XDG_CACHE_HOME to a directory")
        }
        SqlError::Index(error) => {
            Failure::new(with_causes(&error)).hint("`rethread index rebuild` makes the index again")
        }
        _ => Failure::new(message),
    }
}
