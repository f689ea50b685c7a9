//! The examples in the help of each command. `tests/examples.rs` runs every one of them.

use clap::Command;
use clap::builder::StyledStr;

/// A command line to try.
pub(crate) struct Example {
    /// The line, for a shell.
    pub(crate) line: &'static str,
    /// Its purpose.
    pub(crate) does: &'static str,
    /// Its exit status on the sample library.
    #[allow(dead_code, reason = "only the test that runs the examples reads it")]
    pub(crate) status: i32,
}

/// Makes an example that succeeds.
const fn example(line: &'static str, does: &'static str) -> Example {
    Example { line, does, status: 0 }
}

/// Makes an example that finds something, and exits with 1 for that reason.
const fn finding(line: &'static str, does: &'static str) -> Example {
    Example { line, does, status: 1 }
}

/// The examples of the program itself, under an empty name, and of each command.
pub(crate) const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "",
        &[
            example("rethread --demo", "look around in the sample sessions"),
            example("rethread --demo show 0000d005", "read one of them"),
            example("rethread ls --all", "list your own sessions"),
            example("rethread show last", "read the newest session of this project"),
        ],
    ),
    (
        "ls",
        &[
            example("rethread ls", "the sessions of this project"),
            example("rethread ls --all --since 7d", "everything of the last week"),
            example("rethread --demo ls kettle --sort size", "another project, largest first"),
            example("rethread ls --all --json | head -n 3", "for scripts: one object per line"),
        ],
    ),
    (
        "info",
        &[
            example("rethread info last", "the newest session"),
            example("rethread --demo info 0000d001 0000d002", "several, with a total"),
            example("rethread info last --json", "for scripts"),
        ],
    ),
    (
        "tree",
        &[
            example("rethread tree last", "the branches of the newest session"),
            example("rethread --demo tree 0000d001", "a sample with two abandoned branches"),
            example("rethread tree last --client 2.1.76", "the active path as an older client chooses it"),
        ],
    ),
    (
        "outline",
        &[
            example("rethread outline last", "the prompts of the newest session"),
            example("rethread --demo outline 0000d001", "a sample with forks"),
            example("rethread --demo outline 0000d001 --max-chars 400 --json", "for agents: little to read"),
        ],
    ),
    (
        "search",
        &[
            example("rethread --demo search sensor", "messages with a word, in all sessions"),
            example("rethread --demo search '\"temperature sensor\" role:user'", "a phrase, in prompts only"),
            example("rethread --demo search 'branch:abandoned wait*'", "on abandoned branches only"),
            example("rethread --demo search --regex 'sensors?\\b' --open 1", "open the first hit"),
        ],
    ),
    (
        "show",
        &[
            example("rethread show last", "the newest session"),
            example("rethread show last --turns -1", "only its last turn"),
            example("rethread --demo show 0000d005 --tools full --thinking", "everything there is"),
            example(
                "rethread --demo show 0000d005 --at 16 --around 2 --max-chars 2000",
                "a part, for an agent",
            ),
        ],
    ),
    (
        "export",
        &[
            example("rethread export last -o notes", "the newest session, as Markdown"),
            example("rethread export --all -f html -o transcripts", "everything, as web pages with an index"),
            example(
                "rethread --demo export 0000d001 --path active -f json -o out",
                "the active path, as JSON",
            ),
        ],
    ),
    (
        "resume",
        &[
            example("rethread resume", "continue the newest session of this project"),
            example("rethread resume last --fork", "continue in a copy"),
            example("rethread --demo resume 0000d005 --print", "print the command instead of running it"),
        ],
    ),
    (
        "preview",
        &[
            example("rethread preview last", "the messages of the next request"),
            example("rethread --demo preview 0000d002 --client 2.1.76", "the same for an older client"),
            example("rethread preview last --json", "the exact content, for scripts"),
        ],
    ),
    (
        "check",
        &[
            example("rethread check last", "can the newest session be resumed?"),
            finding(
                "rethread --demo check 0000d002 --client 2.1.76",
                "a sample that an old client cannot read",
            ),
            finding("rethread check --all --client all", "every session with every known client"),
        ],
    ),
    (
        "repair",
        &[
            example("rethread repair last --dry-run", "show what would change"),
            example("rethread --demo repair 0000d004", "make a repaired copy; the original is kept"),
            example("rethread --demo repair 0000d004 --in-place", "repair the session itself, with a backup"),
        ],
    ),
    (
        "clone",
        &[
            example("rethread --demo clone 0000d001 --path 1", "an abandoned branch as a session of its own"),
            example("rethread clone last --until 4", "go back to message 4"),
            example("rethread clone last --heavy --dry-run", "how much smaller would a lighter clone be?"),
            example("rethread clone last --compress=1 --keep-removed", "summarise all turns but the last"),
        ],
    ),
    (
        "clean",
        &[
            example(
                "rethread clean last -o share --redact --anonymise",
                "a copy of the newest session to share",
            ),
            example("rethread clean --all -o backup -l light", "everything, without duplicated data"),
            example("rethread --demo clean 0000d005 -n -l max", "how much would each rule remove?"),
            example("rethread clean last --rule media -o out", "remove only images and documents"),
        ],
    ),
    (
        "secrets",
        &[
            finding("rethread secrets last", "the newest session"),
            finding("rethread --demo secrets 0000d005", "a sample with two credentials"),
            finding(
                "rethread secrets --all --also 'KETTLE-[0-9]{8}'",
                "search for a format of your own, too",
            ),
        ],
    ),
    (
        "usage",
        &[
            example("rethread --demo usage", "tokens and cost by day"),
            example("rethread --demo usage --by model --since 2026-01-01", "by model"),
            example("rethread --demo usage --by session --limit 5", "the five most expensive sessions"),
            example("rethread --demo usage --explain 0000d001", "each response, with the lines of the log"),
        ],
    ),
    (
        "sql",
        &[
            example("rethread --demo sql 'select title, turns from sessions'", "a table"),
            example(
                "rethread --demo sql --json 'select tool, count(*) from tool_calls group by 1'",
                "for scripts: an object for each row",
            ),
            example("rethread --demo sql --schema", "what can be queried"),
        ],
    ),
    (
        "index",
        &[
            example("rethread --demo index", "where is it, how large, and is it up to date?"),
            example(
                "rethread --demo index update --keep-deleted",
                "sessions stay findable when clients delete them",
            ),
            example("rethread --demo index clear", "delete it; the next search makes it again"),
        ],
    ),
    (
        "util",
        &[
            example("rethread util man | man -l -", "read the manual"),
            example("rethread util man --dir man1", "write a page for each command"),
            example("rethread util completions bash > rethread.bash", "completions to source in .bashrc"),
        ],
    ),
];

/// Adds the examples to the help of the program and its commands.
pub(crate) fn with_examples(mut command: Command) -> Command {
    for (name, examples) in EXAMPLES {
        let text = help_section(examples);
        command = match *name {
            "" => append(command, &text),
            name => command.mut_subcommand(name, |command| append(command, &text)),
        };
    }
    command
}

/// Appends a section to what follows the options in the short and the long help.
fn append(command: Command, section: &str) -> Command {
    let join = |text: &StyledStr| format!("{text}\n\n{section}");
    let short = command.get_after_help().map_or_else(|| section.to_owned(), join);
    let long = command.get_after_long_help().map(join);
    let command = command.after_help(short);
    match long {
        Some(long) => command.after_long_help(long),
        None => command,
    }
}

/// Formats examples as a section of the help. A line that is too long has its purpose below it.
fn help_section(examples: &[Example]) -> String {
    const MAX_LINE: usize = 48;
    let short = || examples.iter().map(|example| example.line.len()).filter(|&length| length <= MAX_LINE);
    let width = short().max().unwrap_or(0);
    let mut text = String::from("Examples:");
    for Example { line, does, .. } in examples {
        text += &match line.len() <= MAX_LINE {
            true => format!("\n  {line:width$}   {does}"),
            false => format!("\n  {line}\n  {:width$}   {does}", ""),
        };
    }
    text
}
