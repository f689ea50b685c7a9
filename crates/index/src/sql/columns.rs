//! The meaning of the views. The documentation and the printed schema are made of this.

/// A view that queries can read.
#[derive(Debug, Clone, Copy)]
pub struct SqlView {
    /// Its name.
    pub name: &'static str,
    /// A sentence about its rows.
    pub purpose: &'static str,
    /// Its columns, in order.
    pub columns: &'static [SqlColumn],
}

/// A column of a view.
#[derive(Debug, Clone, Copy)]
pub struct SqlColumn {
    /// Its name.
    pub name: &'static str,
    /// Its content.
    pub meaning: &'static str,
}

const fn column(name: &'static str, meaning: &'static str) -> SqlColumn {
    SqlColumn { name, meaning }
}

/// The views that queries can read.
pub const SQL_VIEWS: &[SqlView] = &[
    SqlView {
        name: "sessions",
        purpose: "A row for each log: conversations, headless runs, subagents and files without a conversation.",
        columns: &[
            column("id", "the id: the name of the file without `.jsonl`"),
            column("path", "the path of the log"),
            column("project", "the directory of the project, or else its encoded name"),
            column("cwd", "the directory in which it was started"),
            column("git_branch", "the last git branch that it records"),
            column("title", "the title"),
            column(
                "title_source",
                "the origin of the title: `custom`, `ai`, `summary`, `first-prompt` or `none`",
            ),
            column(
                "kind",
                "`conversation`, `headless`, `agent`, `orphan`, `empty`, `summaries` or `pointer`",
            ),
            column("first_prompt", "the first prompt"),
            column("created", "the time of the first entry, such as `2026-03-10T09:00:00.000Z`"),
            column("created_ms", "the same in milliseconds since 1970"),
            column("modified", "the time of the last entry"),
            column("modified_ms", "the same in milliseconds since 1970"),
            column("bytes", "the size of the log"),
            column("entries", "the number of entries"),
            column("messages", "the number of messages"),
            column("turns", "the number of prompts that a person typed"),
            column("tool_calls", "the number of tool calls"),
            column("paths", "the number of paths: ends of the conversation"),
            column("compactions", "the number of compactions"),
            column("subagents", "the number of subagents whose messages are in this log"),
            column("defects", "the number of defects in the file"),
            column(
                "severity",
                "the worst of what clients would do with it: `odd` (harmless), `loses` or `refuses`",
            ),
            column("models", "the models that answered, separated by commas"),
            column("versions", "the client versions that wrote it, separated by commas"),
            column("is_subagent", "1 for the log of a subagent"),
            column("is_deleted", "1 if the log no longer exists and was kept in the index"),
            column("log", "the number of the log in the index, the same in all views"),
        ],
    },
    SqlView {
        name: "messages",
        purpose: "A row for each message of a log.",
        columns: &[
            column("session", "the id of the session"),
            column("n", "the number of the message, which all outputs show"),
            column("line", "the line of its first entry"),
            column("time", "the time of its first entry"),
            column("time_ms", "the same in milliseconds since 1970"),
            column("kind", "`prompt`, `answer`, `result`, `summary`, `command` or `note`"),
            column("place", "`active`, `abandoned`, `compacted` or `subagent`"),
            column("model", "the model that answered"),
            column("key", "a number that copies of a message share, in clones, forks and resumed files"),
            column("log", "the number of the log"),
        ],
    },
    SqlView {
        name: "tool_calls",
        purpose: "A row for each tool call.",
        columns: &[
            column("session", "the id of the session"),
            column("n", "the number of the call in its log"),
            column("message", "the number of the message that contains it"),
            column("line", "the line of the call"),
            column("time", "the time of the call"),
            column("time_ms", "the same in milliseconds since 1970"),
            column("tool", "the name of the tool"),
            column("file", "the file that it reads or changes"),
            column("result_message", "the number of the message with its result"),
            column("duration_ms", "the time until the result, in milliseconds"),
            column("result_bytes", "the size of the result in the log"),
            column("is_error", "1 if the tool failed"),
            column("log", "the number of the log"),
        ],
    },
    SqlView {
        name: "files",
        purpose: "A row for each file that a tool call names.",
        columns: &[
            column("session", "the id of the session"),
            column("path", "the path of the file"),
            column("action", "`read`, `edit` or `write`"),
            column("message", "the number of the message"),
            column("tool", "the name of the tool"),
            column("time", "the time of the call"),
            column("time_ms", "the same in milliseconds since 1970"),
            column("log", "the number of the log"),
        ],
    },
    SqlView {
        name: "usage",
        purpose: "A row for each response of the API, counted once for all of its copies (`docs/usage.md`).",
        columns: &[
            column("session", "the id of the session that the response is billed to"),
            column("project", "the directory of its project"),
            column("time", "the time of the response"),
            column("time_ms", "the same in milliseconds since 1970"),
            column("model", "the model"),
            column(
                "source",
                "`answer`, or `progress` for a response that only progress records mention: its output is a lower bound",
            ),
            column("git_branch", "the git branch"),
            column("is_subagent", "1 for a response to a subagent"),
            column("agent", "the id of the subagent"),
            column("input", "input tokens that were not cached"),
            column("output", "output tokens"),
            column("cache_write_5m", "tokens written to the cache for five minutes"),
            column("cache_write_1h", "tokens written to the cache for an hour"),
            column("cache_read", "tokens read from the cache"),
            column("web_searches", "the number of web searches"),
            column("is_fast", "1 for fast mode"),
            column("cost_micros", "the cost in millionths of a dollar; NULL without a known price"),
            column("tool_calls", "the number of tool calls"),
            column("rows", "the number of rows of all logs that repeat the response"),
            column("copies", "the number of logs that have it"),
            column("path", "the log with the row that counts"),
            column("line", "the line of that row"),
        ],
    },
    SqlView {
        name: "findings",
        purpose: "A row for each finding of a check.",
        columns: &[
            column("session", "the id of the session"),
            column("line", "the line that it is about"),
            column("kind", "the kind, as in JSON"),
            column("severity", "`odd` (harmless), `loses` or `refuses`"),
            column("detail", "what it is about"),
            column("log", "the number of the log"),
        ],
    },
];
