//! `preview`: the request that a client would send on resume.

use std::ffi::OsString;
use std::io::Write;

use rethread::LazyPreview;
use rethread::WireMessage;
use rethread_render::{self as render, PreviewHead, WireMessageRow};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{client, json_bytes, library};
use crate::failure::Failure;
use crate::scope::find_one;
use crate::terminal::{PagedOutput, Terminal};

/// Show what the client would send to the API on resume
///
/// Prints the messages that the model would see if you resumed the session now and typed TEXT, after the
/// client has chosen a branch and dropped, merged and inserted content. Reminders that the client
/// generates with every prompt are left out.
///
/// The rules differ between client versions; those of 1.0.128 to 2.1.325 are known from runs of the real
/// clients.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct PreviewArgs {
    /// The session; defaults to the newest one of the current directory's project, or of all
    #[arg(value_name = "SESSION")]
    session: Option<OsString>,

    /// Use the rules of this client version, instead of the newest known version
    #[arg(long, value_name = "VERSION")]
    client: Option<String>,

    /// The next prompt
    #[arg(long, value_name = "TEXT", default_value = "(the next prompt)")]
    prompt: String,
}

const AFTER: &str = "\
Exit status: 0 the client resumes the session, 1 it does not, 2 error.";

pub(crate) fn run(
    args: &PreviewArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let (client, note) = client(args.client.as_deref())?;
    let library = library(global);
    let source = find_one(&library, args.session.as_deref(), terminal)?;
    if let Some(note) = note {
        terminal.print_note(&note);
    }
    let mut out = terminal.output();
    let preview = library.preview(&source, client)?;
    let accepted = if global.json {
        json(&mut out, &preview, &args.prompt)?
    } else {
        lines(&mut out, &preview, &args.prompt, terminal)?
    };
    out.finish()?;
    Ok(if accepted { CommandOutcome::Success } else { CommandOutcome::Negative })
}

/// Writes one line per block.
fn lines(
    out: &mut PagedOutput,
    preview: &LazyPreview,
    prompt: &str,
    terminal: &Terminal,
) -> Result<bool, Failure> {
    let (mut n, mut all) = (0, Vec::new());
    if preview.is_accepted() {
        let look = &terminal.stdout;
        let spell = |messages: &[WireMessage<'_>]| -> (usize, String) {
            (messages.len(), messages.iter().map(|message| render::message_lines(message, look)).collect())
        };
        preview.for_each_batch(prompt, spell, |(messages, lines)| -> Result<(), Failure> {
            n += messages;
            all.push(lines);
            Ok(())
        })?;
    }
    writeln!(out, "{}", render::preview_line(preview.summary(), n, &terminal.stdout))?;
    for lines in all {
        out.write_all(lines.as_bytes())?;
    }
    Ok(preview.is_accepted())
}

/// Writes a single JSON document.
fn json(out: &mut PagedOutput, preview: &LazyPreview, prompt: &str) -> Result<bool, Failure> {
    let head = json_bytes(&PreviewHead::from(preview.summary()))?;
    out.write_all(head.trim_ascii_end().strip_suffix(b"}").unwrap_or_default())?;
    if !preview.is_accepted() {
        out.write_all(b",\"messages\":null}\n")?;
        return Ok(false);
    }
    let spell = |messages: &[WireMessage<'_>]| -> Result<Vec<Vec<u8>>, Failure> {
        messages.iter().map(|message| json_bytes(&WireMessageRow(message))).collect()
    };
    out.write_all(b",\"messages\":[")?;
    let mut first = true;
    preview.for_each_batch(prompt, spell, |part| -> Result<(), Failure> {
        for message in part? {
            if !std::mem::take(&mut first) {
                out.write_all(b",")?;
            }
            out.write_all(message.trim_ascii_end())?;
        }
        Ok(())
    })?;
    out.write_all(b"]}\n")?;
    Ok(true)
}
