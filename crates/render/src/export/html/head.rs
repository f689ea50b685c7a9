//! The part above a conversation: outline, metadata, diagram of the branches.

use std::fmt::Write as _;
use std::io;

use rethread_model::{OutlineEntry, SiblingPath, TranscriptHeader};

use super::page::page_start_parts;
use super::{badge, html_text, write_time};
use crate::export::safe::{html_escaped, push_escaped, strip_control_codes};
use crate::export::{
    Document, DocumentLinks, MAX_HEADING, first_words, format_time, input_tokens, truncate_at_word,
};
use crate::text::{format_count, plural, truncate};

/// Writes everything before the first message.
pub(super) fn write_head(out: &mut String, document: &Document<'_>) -> io::Result<()> {
    let (head, links) = (&document.transcript.header, document.links);
    let title = if head.title.is_empty() { "Untitled session" } else { &head.title };
    let title = strip_control_codes(title);
    let heading = truncate_at_word(&title, MAX_HEADING);
    let (before, after) = page_start_parts();
    out.push_str(before);
    push_escaped(out, &heading);
    out.push_str(after);
    let _ = write!(
        out,
        "<body data-messages=\"{}\">\n<a class=\"skip\" href=\"#main\">Skip to the conversation</a>\n\
         <div class=\"bar\"><button id=\"menu\" type=\"button\" aria-controls=\"side\" aria-expanded=\"false\">Outline</button>\
         <span class=\"bar-title\">{}</span><button id=\"theme\" type=\"button\" aria-label=\"Colours\">◐</button></div>\n\
         <aside id=\"side\">\n<div class=\"find\"><input id=\"find\" type=\"search\" placeholder=\"Search  ( / )\" \
         aria-label=\"Search this transcript\" autocomplete=\"off\"><p id=\"found\" role=\"status\"></p></div>\n\
         <ol id=\"hits\" hidden></ol>\n<nav id=\"outline\" aria-label=\"Prompts\"><ol>",
        head.messages,
        html_escaped(&heading)
    );
    write_outline(out, document)?;
    out.push_str("</ol></nav>\n</aside>\n<div class=\"column\">\n<header class=\"head\">\n");
    write_crumbs(out, links);
    let full = if heading == title { String::new() } else { format!(" title=\"{}\"", html_escaped(&title)) };
    let _ = writeln!(out, "<h1{full}>{}</h1>", html_escaped(&heading));
    write_status(out, head);
    // On a phone all of this is folded.
    let _ = writeln!(out, "<details class=\"about\"><summary>{}</summary>", summary_line(head));
    write_metadata(out, head);
    if let Some(command) = document.resume_command {
        let _ = writeln!(
            out,
            "<p class=\"resume\"><span>Resume</span><code id=\"resume\">{}</code></p>",
            html_text(command)
        );
    }
    if head.siblings.len() > 1 {
        write_branches(out, head, links);
    }
    out.push_str("</details>\n");
    write_defects(out, &head.defects);
    if let Some((file, n)) = &links.begins_in {
        let file = html_escaped(file);
        let (to, name) = n.map_or((file.clone(), "another path".to_owned()), |n| {
            (format!("{file}#m{n}"), format!("message #{n} of another path"))
        });
        let _ = writeln!(out, "<p class=\"begins\">Earlier messages: <a href=\"{to}\">{name}</a></p>");
    }
    out.push_str(
        "</header>\n<div class=\"tools-bar\"><button id=\"unfold\" type=\"button\">Expand all</button>\
         <button id=\"fold\" type=\"button\">Collapse all</button>\
         <label><input type=\"checkbox\" id=\"show-tools\" checked> tools</label>\
         <label><input type=\"checkbox\" id=\"show-thinking\" checked> thinking</label></div>\n\
         <main id=\"main\" tabindex=\"-1\">\n<section class=\"page\" data-page=\"1\">\n",
    );
    Ok(())
}

/// Writes the name of a subagent, or the status of a path if there are several.
fn write_status(out: &mut String, head: &TranscriptHeader) {
    if let Some(agent) = &head.subagent {
        let _ = writeln!(out, "<p class=\"status\">Subagent <code>{}</code></p>", html_text(agent));
    } else if head.paths > 1 {
        let (n, of) = (head.path_n, head.paths);
        let _ = writeln!(out, "<p class=\"status\">{} path {n} of {of}</p>", badge(head.active));
    }
}

/// Describes a document on one line: its path if there are several, date, length and project.
fn summary_line(head: &TranscriptHeader) -> String {
    let mut parts = Vec::new();
    let has_paths = head.subagent.is_none() && head.paths > 1;
    if has_paths {
        parts.push(format!("{} path {} of {}", badge(head.active), head.path_n, head.paths));
    }
    if let Some(time) = head.span.and_then(|(first, _)| first.to_iso()) {
        let day = html_escaped(time.get(..10).unwrap_or(&time));
        parts.push(format!("<time datetime=\"{}\" data-day>{day}</time>", html_escaped(&time)));
    }
    let is_session = head.subagent.is_none() && head.turns > 0;
    let (turns, messages) =
        (plural(u64::from(head.turns), "turn"), plural(u64::from(head.messages), "message"));
    parts.push(if is_session { turns.to_string() } else { messages.to_string() });
    let project = head.project.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or_default();
    if !project.is_empty() && !has_paths {
        parts.push(html_text(&truncate(project, 24)));
    }
    parts.join(" · ")
}

/// Writes the links to the index and to the parent session.
fn write_crumbs(out: &mut String, links: &DocumentLinks) {
    if !links.has_index && links.parent.is_none() {
        return;
    }
    out.push_str("<p class=\"crumbs\">");
    if links.has_index {
        let _ = write!(out, "<a href=\"{}index.html\">All transcripts</a>", links.root_prefix);
    }
    if let Some(parent) = &links.parent {
        let dot = if links.has_index { " · " } else { "" };
        let _ =
            write!(out, "{dot}<a href=\"{}{}\">Parent session</a>", links.root_prefix, html_escaped(parent));
    }
    out.push_str("</p>\n");
}

fn write_defects(out: &mut String, defects: &[String]) {
    if defects.is_empty() {
        return;
    }
    let n = defects.len();
    let what = if n == 1 { "The log has a defect".to_owned() } else { format!("The log has {n} defects") };
    let _ =
        write!(out, "<details class=\"defects\"><summary>{what}; the readable part is shown</summary><ul>");
    for defect in defects {
        let _ = write!(out, "<li>{}</li>", html_text(defect));
    }
    out.push_str("</ul></details>\n");
}

/// Writes the prompts, with the compactions between them.
fn write_outline(out: &mut String, document: &Document<'_>) -> io::Result<()> {
    let mut compactions = 0;
    document.transcript.outline(|entry| match entry {
        OutlineEntry::Prompt { message, anchor } => {
            let words = first_words(message, 90);
            let words = if words.is_empty() { "(no text)" } else { &words };
            let _ = write!(
                out,
                "<li><a href=\"#{anchor}\"><span>#{}</span> {}</a></li>",
                message.n,
                html_escaped(words)
            );
        }
        OutlineEntry::Compaction => {
            compactions += 1;
            let _ = write!(out, "<li class=\"mark\"><a href=\"#c{compactions}\">compacted</a></li>");
        }
    })
}

fn write_metadata(out: &mut String, head: &TranscriptHeader) {
    out.push_str("<dl class=\"facts\">");
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
        }
    };
    fact("Session", format!("<code>{}</code>", html_text(&head.session)));
    fact("Project", html_text(&head.project));
    let mut span = String::new();
    let (first, last) = head.span.unzip();
    write_time(&mut span, first);
    if format_time(first) != format_time(last) {
        span.push_str(" to ");
        write_time(&mut span, last);
    }
    fact("Time", span);
    let mut size = plural(u64::from(head.messages), "message").to_string();
    if head.subagent.is_none() {
        size = format!("{}, {size}", plural(u64::from(head.turns), "turn"));
    }
    if head.compactions > 0 {
        size = format!("{size}, {}", plural(u64::from(head.compactions), "compaction"));
    }
    fact("Length", size);
    fact("Models", head.models.iter().map(|model| html_text(model)).collect::<Vec<_>>().join(", "));
    fact("Client", head.versions.iter().map(|version| html_text(version)).collect::<Vec<_>>().join(", "));
    fact("Git branch", head.git_branch.as_deref().map(html_text).unwrap_or_default());
    if let Some(n) = head.resumes_at {
        fact("Resumes", format!("the client would resume after <a href=\"#m{n}\">#{n}</a>"));
    }
    if let Some(uuid) = &head.fork_point {
        fact("Fork point", format!("<code>{}</code>", html_text(uuid)));
    }
    out.push_str("</dl>\n");
    let usage = &head.usage;
    if *usage != rethread_model::Usage::default() {
        let _ = write!(
            out,
            "<details class=\"tokens\"><summary>Tokens: {} in · {} out</summary><table>",
            format_count(input_tokens(usage)),
            format_count(usage.output)
        );
        for (name, n) in [
            ("input, not cached", usage.input),
            ("written to the cache for 5 minutes", usage.cache_write_5m),
            ("written to the cache for an hour", usage.cache_write_1h),
            ("read from the cache", usage.cache_read),
            ("output", usage.output),
            ("web searches and fetches", usage.web),
        ] {
            if n > 0 {
                let _ = write!(out, "<tr><td>{name}</td><td>{}</td></tr>", format_count(n));
            }
        }
        out.push_str("</table></details>\n");
    }
}

/// Maximum number of paths in the diagram; the list below it contains them all.
const MAX_LANES: usize = 24;

/// Width of the branch diagram, in SVG units.
const WIDTH: u32 = 640;

/// Height of a lane.
const LANE: u32 = 22;

/// Draws the paths as lanes, each starting at the path that it forks from, and lists them.
fn write_branches(out: &mut String, head: &TranscriptHeader, links: &DocumentLinks) {
    out.push_str("<section class=\"branches\"><h2>Branches</h2>");
    if head.siblings.len() <= MAX_LANES {
        draw_lanes(out, head, links);
    }
    out.push_str("<ol>");
    for (i, branch) in head.siblings.iter().enumerate() {
        let is_here = branch.n == head.path_n;
        let _ = write!(out, "<li{}>", if is_here { " class=\"here\"" } else { "" });
        let name = format!("path {}", branch.n);
        match links.sibling(i) {
            Some(file) if !is_here => {
                let _ = write!(out, "<a href=\"{}\">{name}</a> ", html_escaped(file));
            }
            _ => {
                let _ = write!(out, "{name} ");
            }
        }
        let fork = branch.fork_message.map(|n| format!("from #{n} · ")).unwrap_or_default();
        let messages = plural(u64::from(branch.messages), "message");
        let prompt = html_text(&truncate(&branch.last_prompt, 80));
        let prompt = if prompt.is_empty() { prompt } else { format!(" · {prompt}") };
        let _ = write!(out, "{} <span>{fork}{messages}{prompt}</span></li>", badge(branch.active));
    }
    out.push_str("</ol>");
    // If there are thousands of paths, only those near this one are loaded.
    let left_out = head.paths.saturating_sub(head.siblings.len());
    if left_out > 0 {
        let _ = write!(out, "<p>and {} more</p>", format_count(left_out as u64));
    }
    out.push_str("</section>\n");
}

fn draw_lanes(out: &mut String, head: &TranscriptHeader, links: &DocumentLinks) {
    let longest = head.siblings.iter().map(|branch| branch.messages).max().unwrap_or(1).max(1);
    let x = |messages: u32| 12 + u64::from(messages) * u64::from(WIDTH - 60) / u64::from(longest);
    let y = |lane: usize| (lane as u64) * u64::from(LANE) + u64::from(LANE) / 2;
    let height = head.siblings.len() as u64 * u64::from(LANE);
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{} paths\">",
        head.siblings.len()
    );
    let lane_of = |n: usize| head.siblings.iter().position(|branch| branch.n == n);
    for (lane, branch) in head.siblings.iter().enumerate() {
        let class = class_of(branch, head);
        let parent = branch.parent_path.and_then(lane_of);
        let start = if parent.is_some() { branch.messages_before_fork } else { 0 };
        let (x0, x1, y1) = (x(start), x(branch.messages).max(x(start) + 8), y(lane));
        let from = parent
            .map(|parent| format!("M{x0} {} L{x0} {y1} ", y(parent)))
            .unwrap_or_else(|| format!("M{x0} {y1} "));
        let line = format!(
            "<path d=\"{from}L{x1} {y1}\"/><circle cx=\"{x1}\" cy=\"{y1}\" r=\"5\"/>\
            <text x=\"{}\" y=\"{}\">{}</text>",
            x1 + 10,
            y1 + 4,
            branch.n
        );
        match links.sibling(lane) {
            Some(file) if branch.n != head.path_n => {
                let _ = write!(
                    out,
                    "<a href=\"{}\" aria-label=\"path {}\"><g class=\"{class}\">{line}</g></a>",
                    html_escaped(file),
                    branch.n
                );
            }
            _ => {
                let _ = write!(out, "<g class=\"{class}\">{line}</g>");
            }
        }
    }
    out.push_str("</svg>");
}

fn class_of(branch: &SiblingPath, head: &TranscriptHeader) -> &'static str {
    match (branch.active, branch.n == head.path_n) {
        (true, true) => "lane active here",
        (true, false) => "lane active",
        (false, true) => "lane here",
        (false, false) => "lane",
    }
}
