//! Laws that every clone must satisfy, checked without the code that clones.

mod content;
mod ids;

use std::collections::BTreeSet;

use rethread_edit::{CloneSummary, IdMap, PreparedClone, Recipe, SourceIndexer, SourceSession};
use rethread_log::{BlockKind, Scanner};
use rethread_model::{
    BlockClass, Client, EntryNo, FactsBuilder, Finding, MessageKind, MessageView, NodeId, PartOrigin, Path,
    Session, TranscriptItem, check, resume,
};
use serde_json::Value;

pub use content::{kept_entries_unchanged, no_removed_text_remains};
pub use ids::{no_source_id_remains, only_ids_differ};

/// The id of the source in these checks if its file has none.
pub const SOURCE_ID: &str = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa";
/// The id of the clone.
pub const CLONE_ID: &str = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb";

/// Clones a log.
pub fn clone_of(log: &[u8], id: &str, recipe: &Recipe, keep_ids: bool) -> Result<Vec<u8>, String> {
    let source = SourceSession::read(log);
    match rethread_edit::normalise_source(&source, recipe).map_err(|error| error.to_string())? {
        Some((log, recipe)) => make_clone(&SourceSession::read(&log), id, &recipe, keep_ids)?.bytes(),
        None => make_clone(&source, id, recipe, keep_ids)?.bytes(),
    }
    .map_err(|error| error.to_string())
}

fn make_clone<'a>(
    source: &'a SourceSession<'a>,
    id: &str,
    recipe: &Recipe,
    keep: bool,
) -> Result<PreparedClone<'a>, String> {
    rethread_edit::plan_clone(source, recipe, IdMap::new(id, CLONE_ID, keep))
        .map_err(|error| error.to_string())
}

/// A clone of a log by a recipe, once with new ids and once with the old ones.
pub struct CloneCase<'l> {
    log: &'l [u8],
    id: &'l str,
    recipe: &'l Recipe,
    with_new_ids: Vec<u8>,
    with_old_ids: Vec<u8>,
}

impl<'l> CloneCase<'l> {
    /// Makes both clones.
    pub fn new(log: &'l [u8], id: &'l str, recipe: &'l Recipe) -> Result<Self, String> {
        let with_new_ids = clone_of(log, id, recipe, false)?;
        let with_old_ids = clone_of(log, id, recipe, true)?;
        Ok(Self { log, id, recipe, with_new_ids, with_old_ids })
    }
}

/// A law that every clone must satisfy.
pub type CloneLaw = fn(&CloneCase<'_>) -> Result<(), String>;

macro_rules! named {
    ($($law:ident),* $(,)?) => { [$((stringify!($law), $law as CloneLaw)),*] };
}

/// All laws by name.
pub const CLONE_LAWS: [(&str, CloneLaw); 9] = named![
    written_as_read,
    no_source_id_remains,
    only_ids_differ,
    all_clients_resume_clone,
    kept_entries_unchanged,
    no_removed_text_remains,
    dialogue_is_kept,
    every_prompt_is_sent,
    cloning_is_idempotent,
];

/// Checks all laws for the clone of a log by a recipe; the error names the first violation.
pub fn check_clone(log: &[u8], id: &str, recipe: &Recipe) -> Result<(), String> {
    let case = CloneCase::new(log, id, recipe)?;
    CLONE_LAWS.iter().try_for_each(|(_, law)| law(&case))
}

/// A lazily read log gives the same clone, and the session that is read while writing it is the written one.
pub fn written_as_read(case: &CloneCase<'_>) -> Result<(), String> {
    check_reading(case.log, case.id, case.recipe, false, &case.with_new_ids)?;
    check_reading(case.log, case.id, case.recipe, true, &case.with_old_ids)
}

/// No client loses or refuses anything of an edited clone, and all clients send the same content. For a plain clone
/// each client sends what it sends for the source.
pub fn all_clients_resume_clone(case: &CloneCase<'_>) -> Result<(), String> {
    if case.recipe.is_plain() {
        same_findings(case.log, &case.with_new_ids)?;
        return same_previews(case.log, &case.with_new_ids);
    }
    // The log of a subagent cannot be resumed.
    if Session::read(case.log).facts.is_all_sidechain() {
        Ok(())
    } else {
        resumes_everywhere(&case.with_new_ids)
    }
}

/// A clone of a lazily read log.
pub struct LazyClone {
    /// The written bytes.
    pub bytes: Vec<u8>,
    /// The session that was read while it was written; `None` for a plain clone.
    pub session: Option<Session>,
}

/// Clones a lazily read log whose content is `later` on the second read; `None` if it has to be normalised first.
pub fn clone_by_reading_again(
    log: &[u8],
    later: &[u8],
    id: &str,
    recipe: &Recipe,
    keep_ids: bool,
) -> Result<Option<LazyClone>, String> {
    let (mut noting, mut builder) = (SourceIndexer::for_lazy_source(recipe, 0), FactsBuilder::for_size(0));
    Scanner::default().scan(log, &mut noting);
    let mut scanner = Scanner::default();
    scanner.scan(log, &mut builder);
    let facts = builder.finish(scanner.lines(), scanner.bad_lines);
    let read_at = |offset: u64, bytes: &mut [u8]| {
        let start = usize::try_from(offset).map_err(std::io::Error::other)?;
        let range = later.get(start..start + bytes.len());
        bytes.copy_from_slice(range.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    };
    let source = SourceSession::lazy(&read_at, log.len() as u64, noting, facts);
    if rethread_edit::normalise_source(&source, recipe).map_err(|error| error.to_string())?.is_some() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let outcome = make_clone(&source, id, recipe, keep_ids)?.write(&mut |mut piece| {
        bytes.append(&mut piece);
        Ok(piece)
    });
    outcome
        .map(|outcome| Some(LazyClone { bytes, session: outcome.session }))
        .map_err(|error| error.to_string())
}

fn check_reading(log: &[u8], id: &str, recipe: &Recipe, keep_ids: bool, clone: &[u8]) -> Result<(), String> {
    let Some(LazyClone { bytes, session }) = clone_by_reading_again(log, log, id, recipe, keep_ids)? else {
        return Ok(());
    };
    if bytes != clone {
        return Err("the clone of the lazily read log differs".to_owned());
    }
    let Some(session) = session else { return Ok(()) };
    let written = Session::read(clone);
    let (read, expected) = (CloneSummary::of(&session), CloneSummary::of(&written));
    if read != expected {
        return Err(format!("{read:?} was read, but it is {expected:?}"));
    }
    let debug = |session: &Session| format!("{:?}", crate::harmful_findings_of(session));
    if debug(&session) == debug(&written) { Ok(()) } else { Err("the findings differ".to_owned()) }
}

fn lines_and_rows(log: &[u8]) -> impl Iterator<Item = (&[u8], Value)> {
    log.split(|&b| b == b'\n')
        .filter_map(|line| Some((line, serde_json::from_slice(line).ok()?)))
        .filter(|(_, row): &(_, Value)| row.is_object())
}

fn rows(log: &[u8]) -> Vec<Value> {
    lines_and_rows(log).map(|(_, row)| row).collect()
}

/// Visits all strings in a value.
fn for_each_text(value: &Value, visit: &mut impl FnMut(&str)) {
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => visit(text),
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => waiting.extend(members.values()),
            _ => {}
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(120).collect()
}

fn harmful_findings(log: &[u8]) -> Vec<Finding> {
    crate::harmful_findings_of(&Session::read(log))
}

fn same_findings(log: &[u8], clone: &[u8]) -> Result<(), String> {
    let findings = |log: &[u8]| -> Vec<_> {
        let all = check(&Session::read(log), &Client::ALL);
        // A missing final line break is added, and an incomplete last line is removed.
        all.into_iter()
            .filter(|f| {
                !matches!(
                    f.kind,
                    rethread_model::FindingKind::NoLineBreak | rethread_model::FindingKind::CutShort
                )
            })
            // All session ids are one in the clone.
            .filter(|f| f.kind != rethread_model::FindingKind::SeveralSessions)
            .map(|f| (f.line, f.kind, f.severity, f.clients))
            .collect()
    };
    let (before, after) = (findings(log), findings(clone));
    if before == after { Ok(()) } else { Err(format!("findings differ: {before:?} and {after:?}")) }
}

/// Returns the blocks that a client sends.
fn wire(log: &[u8], client: Client) -> Vec<(bool, String)> {
    let session = Session::read(log);
    let resumed = resume(&session.facts, client);
    let wire = rethread_model::Reader::new(&session, log).wire_messages(&resumed, client, "");
    let blocks = wire.iter().flat_map(|m| m.blocks.iter().map(move |block| (m.assistant, block)));
    blocks
        .map(|(assistant, block)| (assistant, String::from_utf8_lossy(block.json().raw()).into_owned()))
        .collect()
}

fn same_previews(log: &[u8], clone: &[u8]) -> Result<(), String> {
    for client in Client::ALL {
        let (before, after) = (wire(log, client), wire(clone, client));
        let same = |(a, b): (&(bool, String), &(bool, String))| {
            a == b || a.0 == b.0 && (a.1.contains("tool-results") || b.1.contains(CLONE_ID))
        };
        if before.len() != after.len() || !before.iter().zip(&after).all(same) {
            return Err(format!("{client:?} would send something else"));
        }
    }
    Ok(())
}

/// Returns the conversation that is sent, in order: prompts, answers, calls and results. Content that clients add, or
/// that only some of them send, is left out: thinking, markers, notes, command records, notices.
fn sent_content(log: &[u8], client: Client) -> Vec<(bool, PartOrigin)> {
    let session = Session::read(log);
    let mut sent = Vec::new();
    for mut message in resume(&session.facts, client).messages {
        message.parts.retain(|part| {
            let of_client = part.origin.node().is_none_or(|node| {
                let fact = &session.facts.nodes[node];
                let flags = fact.flags;
                let in_dialogue = flags.is_human() || flags.has_result() || flags.is_summary();
                fact.role != rethread_model::Role::Assistant && !in_dialogue
            });
            !part.class.is_thinking() && part.class != BlockClass::Fallback && !of_client
        });
        message
            .parts
            .sort_by_key(|part| (part.class != BlockClass::ToolResult, part.class == BlockClass::ToolCall));
        sent.extend(message.parts.iter().map(|part| (message.assistant, part.origin)));
    }
    sent
}

fn resumes_everywhere(clone: &[u8]) -> Result<(), String> {
    if let Some(finding) = harmful_findings(clone).first() {
        return Err(format!("check finds {:?} for {:?}: {}", finding.kind, finding.clients, finding.detail));
    }
    let newest = sent_content(clone, Client::NEWEST);
    for client in Client::ALL {
        if sent_content(clone, client) != newest {
            return Err(format!("{client:?} and the newest client do not send the same"));
        }
    }
    Ok(())
}

/// Every path of the dialogue, or the chosen one up to its end, is on one path of the clone. Condensed turns appear in
/// their summary.
pub fn dialogue_is_kept(case: &CloneCase<'_>) -> Result<(), String> {
    let (log, clone, recipe) = (case.log, &case.with_new_ids, case.recipe);
    if recipe.is_plain() {
        return Ok(());
    }
    let single = recipe.path.is_some() || recipe.until.is_some() || recipe.compress.is_some();
    let chosen = |path: &Path| match recipe.path {
        Some(n) => path.n == n,
        None => !single || path.active,
    };
    let answers = recipe.compress.is_none();
    let in_dialogue = |message: &MessageView<'_>| match message.kind {
        MessageKind::Prompt => !message.meta,
        MessageKind::Answer => answers && message.model.is_some_and(|model| model != "<synthetic>"),
        _ => false,
    };
    let mut before = message_texts(log, chosen, in_dialogue, recipe.until);
    if recipe.compress.is_some() {
        let (mut left, mut texts) = (String::new(), BTreeSet::new());
        for row in rows(clone) {
            for_each_text(&row, &mut |text| {
                left.push_str(text);
                left.push('\n');
                texts.insert(text.trim().to_owned());
            });
        }
        // Searching all texts is slow, and nearly every text is equal to one of them.
        let kept = |text: &String| texts.contains(text) || left.contains(text.as_str());
        return match before.iter().flatten().find(|text| !kept(text)) {
            Some(lost) => Err(format!("text of the dialogue is lost: {}", cut(lost))),
            None => Ok(()),
        };
    }
    let mut after = message_texts(clone, |path| !single || path.active, |_| true, None);
    if Session::read(log).facts.has_duplicates() {
        // Entries with a duplicate id have no definite position.
        before.iter_mut().chain(&mut after).for_each(|texts| texts.sort_unstable());
    }
    for path in before {
        let mut best = 0;
        for now in &after {
            let mut now = now.iter();
            best = best.max(path.iter().take_while(|text| now.any(|other| other == *text)).count());
            if best == path.len() {
                break;
            }
        }
        if let Some(lost) = path.get(best) {
            return Err(format!("text of the dialogue is lost: {}", cut(lost)));
        }
    }
    Ok(())
}

/// Every prompt that the newest client sends for the source, including queued ones, is sent by each current client for
/// the clone. Only recipes that choose a path or compress turns may omit prompts. For a plain clone each client sends
/// the prompts that it sends for the source.
pub fn every_prompt_is_sent(case: &CloneCase<'_>) -> Result<(), String> {
    let CloneCase { log, recipe, with_new_ids, .. } = case;
    if recipe.path.is_some() || recipe.until.is_some() || recipe.compress.is_some() {
        return Ok(());
    }
    for client in Client::IN_USE {
        let before = prompts(log, if recipe.is_plain() { client } else { Client::NEWEST });
        let after = prompts(with_new_ids, client);
        if let Some(lost) = before.difference(&after).next() {
            return Err(format!("{} does not send the prompt {}", client.version(), cut(lost)));
        }
    }
    Ok(())
}

/// Returns the prompts that a client sends: typed ones, and those queued while the model was working.
fn prompts(log: &[u8], client: Client) -> BTreeSet<String> {
    let session = Session::read(log);
    let reader = rethread_model::Reader::new(&session, log);
    let resumed = resume(&session.facts, client);
    let typed = resumed.messages.iter().flat_map(|message| &message.parts).filter_map(|p| p.origin.node());
    let typed = typed.filter(|&node| session.facts.nodes[node].flags.is_human());
    let mut found: BTreeSet<String> = typed.map(|node| reader.prompt_words(node).trim().to_owned()).collect();
    let boundary = |node: &NodeId| session.facts.nodes[*node].flags.is_boundary();
    let start = resumed.chain.iter().rposition(boundary).unwrap_or(0);
    let chain = if resumed.refusal.is_none() { &resumed.chain[start..] } else { &[] };
    for &node in chain.iter().filter(|&&node| session.facts.nodes[node].flags.is_queued_prompt()) {
        let entry: Value =
            serde_json::from_slice(reader.entry_bytes(session.facts.nodes[node].entry)).unwrap_or_default();
        found.insert(format!("(queued) {}", entry["attachment"]["prompt"]));
    }
    found
}

/// Returns the texts of messages on each chosen path, to its end or to a message.
fn message_texts(
    log: &[u8],
    chosen: impl Fn(&Path) -> bool,
    included: impl Fn(&MessageView<'_>) -> bool,
    until: Option<usize>,
) -> Vec<Vec<String>> {
    let session = Session::read(log);
    let reader = rethread_model::Reader::new(&session, log);
    let mut all = Vec::new();
    for path in session.paths(Client::NEWEST).iter().filter(|path| chosen(path)) {
        let mut path_texts = Vec::new();
        let chain = chain_of(&session, path.tip);
        for item in reader.items(path.step) {
            let TranscriptItem::Message(message) = item else { continue };
            // A queued prompt off the chain is displayed, but no client finds it; `check` reports it.
            let found =
                message.entries.iter().any(|entry| chain.contains(entry)) || !is_queued(&session, &message);
            if included(&message) && found {
                let texts = message.blocks.iter().filter(|block| block.kind == Some(BlockKind::Text));
                let texts = texts.map(|block| block.text().trim().to_owned());
                // No client accepts an empty text.
                path_texts.extend(texts.filter(|text| !["", "(no content)"].contains(&text.as_str())));
            }
            if until == Some(message.n.get() as usize) {
                break;
            }
        }
        all.push(path_texts);
    }
    all
}

/// Returns the numbers of the entries on the parent chain of a tip.
fn chain_of(session: &Session, tip: NodeId) -> BTreeSet<EntryNo> {
    let mut chain = BTreeSet::new();
    let mut at = Some(tip);
    while let Some(node) = at {
        chain.insert(session.facts.nodes[node].entry);
        at = session.tree.links[node].target();
    }
    chain
}

fn is_queued(session: &Session, message: &MessageView<'_>) -> bool {
    let first = session.facts.messages[message.n].first_node;
    session.facts.nodes[first].flags.is_queued_prompt()
}

/// Cloning a clone by the same recipe changes nothing.
pub fn cloning_is_idempotent(case: &CloneCase<'_>) -> Result<(), String> {
    let (kept, recipe) = (&case.with_old_ids, case.recipe);
    let mut again = recipe.clone();
    // The chosen path is the active one now, and it ends where it was cut.
    let active = Session::read(kept).paths(Client::NEWEST).iter().find(|path| path.active).map(|path| path.n);
    if again.until.take().is_some() || again.path.is_some() {
        again.path = active;
    }
    let twice = clone_of(kept, CLONE_ID, &again, true)?;
    if twice == *kept {
        return Ok(());
    }
    let lines =
        |log: &[u8]| -> Vec<String> { String::from_utf8_lossy(log).lines().map(str::to_owned).collect() };
    let (once, twice) = (lines(kept), lines(&twice));
    let at = once.iter().zip(&twice).position(|(a, b)| a != b).unwrap_or(once.len().min(twice.len()));
    let shown = |lines: &[String]| lines.get(at).map_or("nothing".to_owned(), |line| cut(line));
    Err(format!("twice changes line {} of {}: {} became {}", at + 1, once.len(), shown(&once), shown(&twice)))
}

/// Returns the numbers of the messages on a path.
fn message_numbers(session: &Session, log: &[u8], path: &Path) -> Vec<usize> {
    let number = |item| {
        if let TranscriptItem::Message(message) = item { Some(message.n.get() as usize) } else { None }
    };
    rethread_model::Reader::new(session, log).items(path.step).into_iter().filter_map(number).collect()
}

/// Returns the recipes to try on a log, with their names: each single change, every path, and some combinations.
pub fn recipes(log: &[u8]) -> Vec<(String, Recipe)> {
    use rethread_edit::{CompressOptions, Preset, ToolRecipe};
    let session = Session::read(log);
    let mut all: Vec<(String, Recipe)> = vec![("plain".into(), Recipe::default())];
    let mut add = |name: &str, change: &dyn Fn(&mut Recipe)| {
        let mut recipe = Recipe::default();
        change(&mut recipe);
        all.push((name.to_owned(), recipe));
    };
    let strip = |names: &[&str]| ToolRecipe {
        strip: Some(names.iter().map(|&name| name.to_owned()).collect()),
        ..ToolRecipe::default()
    };
    let compress = |keep| Some(CompressOptions { keep, ..CompressOptions::default() });
    for preset in Preset::ALL {
        add(preset.name(), &|recipe| preset.add_to(recipe));
    }
    add("strip-tools", &|recipe| recipe.tools = strip(&[]));
    add("strip-tools=Bash,Read", &|recipe| recipe.tools = strip(&["Bash", "Read"]));
    add("keep-tools 1", &|recipe| recipe.tools.keep = Some(1));
    add("shorten-tools 100", &|recipe| recipe.tools.shorten = Some(100));
    add("strip-thinking", &|recipe| recipe.strip_thinking = true);
    add("compress=5", &|recipe| recipe.compress = compress(5));
    add("compress=1", &|recipe| recipe.compress = compress(1));
    add("compress=0", &|recipe| recipe.compress = compress(0));
    add("strip-tools strip-thinking", &|recipe| {
        recipe.tools = strip(&[]);
        recipe.strip_thinking = true;
    });
    add("compress=2 strip-thinking", &|recipe| {
        recipe.compress = compress(2);
        recipe.strip_thinking = true;
    });
    add("heavy compress=5", &|recipe| {
        Preset::Heavy.add_to(recipe);
        recipe.compress = compress(5);
    });
    let paths = session.paths(Client::NEWEST);
    for path in &paths {
        add(&format!("path {}", path.n), &|recipe| recipe.path = Some(path.n));
    }
    if let Some(path) = paths.iter().rfind(|path| path.active) {
        add("path strip-tools", &|recipe| {
            recipe.path = Some(path.n);
            recipe.tools = strip(&[]);
        });
        let numbers = message_numbers(&session, log, path);
        for part in [1, 2, 3] {
            if let Some(&n) = numbers.get(numbers.len() * part / 4) {
                add(&format!("until {n}"), &|recipe| recipe.until = Some(n));
            }
        }
    }
    all
}
