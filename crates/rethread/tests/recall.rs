//! Searches for phrases of real messages, each of which occurs in one message only, must find that message first.
//!
//! The phrases are chosen and counted by code of its own, which does not use the index or the tokens of a search.
//! `RETHREAD_RECALL=N` tries about N messages instead of a fixed sample.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;

use aho_corasick::AhoCorasick;
use rethread::{Library, MessagePlace, Query, QuerySyntax, SearchLimits};
use rethread_testkit::{logs_under, shared};
use serde_json::Value;

/// A text of a message.
struct MessageText {
    class: &'static str,
    /// Identifies the message in all its copies.
    identity: String,
    text: String,
}

/// The texts of a library, and the entries of each message.
#[derive(Default)]
struct Texts {
    texts: Vec<MessageText>,
    uuids: HashMap<String, HashSet<String>>,
}

impl Texts {
    fn read(&mut self, log: &[u8]) {
        for line in log.split(|&byte| byte == b'\n') {
            let Ok(entry) = serde_json::from_slice::<Value>(line) else { continue };
            match (entry["type"].as_str(), entry["uuid"].as_str()) {
                (Some("user" | "assistant"), Some(_)) => self.add_entry(&entry),
                // Not tried, but a phrase that also occurs here is not unique.
                _ => for_each_string(&entry, &mut |text| {
                    let identity = entry["uuid"].as_str().unwrap_or("title").to_owned();
                    self.texts.push(MessageText { class: "note", identity, text: text.to_owned() });
                }),
            }
        }
    }

    fn add_entry(&mut self, entry: &Value) {
        let content = &entry["message"]["content"];
        let is_user = entry["type"] == "user";
        let id = entry["message"]["id"].as_str().filter(|_| !is_user);
        let identity = id.map_or_else(|| format!("{} {content}", entry["timestamp"]), str::to_owned);
        let uuid = entry["uuid"].as_str().unwrap_or_default().to_owned();
        self.uuids.entry(identity.clone()).or_default().insert(uuid);
        let is_hidden = entry["isMeta"] == true || entry["isCompactSummary"] == true;
        let plain = match (is_user, is_hidden) {
            (true, true) => "note",
            (true, false) => "prompt",
            (false, _) => "answer",
        };
        let mut add = |class: &'static str, text: &str| {
            let class = if entry["isSidechain"] == true { "subagent" } else { class };
            // Markup of the client is not part of what a person typed.
            let class = match is_user && class != "output" && text.contains('<') {
                true => "note",
                false => script_of(text).unwrap_or(class),
            };
            self.texts.push(MessageText { class, identity: identity.clone(), text: text.to_owned() });
        };
        if let Some(text) = content.as_str() {
            add(plain, text);
        }
        for block in content.as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") => add(plain, block["text"].as_str().unwrap_or_default()),
                Some("thinking") => add("thinking", block["thinking"].as_str().unwrap_or_default()),
                Some("tool_use") => for_each_string(&block["input"], &mut |text| add("input", text)),
                Some("tool_result") => match &block["content"] {
                    Value::String(text) => add("output", text),
                    parts => parts.as_array().into_iter().flatten().for_each(|part| {
                        add("output", part["text"].as_str().unwrap_or_default());
                    }),
                },
                _ => {}
            }
        }
    }
}

fn for_each_string(value: &Value, take: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(items) => items.iter().for_each(|item| for_each_string(item, take)),
        Value::Object(fields) => fields.values().for_each(|field| for_each_string(field, take)),
        _ => {}
    }
}

fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

/// Returns the class of a text whose script is tried for itself.
fn script_of(text: &str) -> Option<&'static str> {
    let count = |is_of: fn(char) -> bool| text.chars().filter(|&c| is_of(c)).count();
    if count(is_cjk) >= 12 {
        return Some("cjk");
    }
    (count(|c| matches!(c, 'а'..='я' | 'А'..='Я')) >= 20).then_some("cyrillic")
}

/// A word, or a part of an identifier, and where it is in its text.
struct Part {
    folded: String,
    start: usize,
    end: usize,
}

/// The soft hyphen: a place where a word may be broken, not an end of the word.
const SOFT_HYPHEN: char = '\u{ad}';

/// Returns whether a character is part of a word: also an accent after its letter, and a soft hyphen.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == SOFT_HYPHEN || matches!(c, '\u{300}'..='\u{36f}')
}

/// Splits a text into words, the parts of identifiers, and single ideographs.
fn parts(text: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut before = ' ';
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let is_lower_next = chars.peek().is_some_and(|(_, next)| next.is_lowercase());
        let begins = !is_word(before)
            || is_cjk(c)
            || is_cjk(before)
            || c.is_uppercase() && (!before.is_uppercase() || is_lower_next);
        if is_word(c) {
            if begins || parts.is_empty() {
                parts.push(Part { folded: String::new(), start: at, end: at });
            }
            let part = parts.last_mut().expect("begun");
            part.folded.extend(c.to_lowercase().filter(|&c| c != SOFT_HYPHEN));
            part.end = at + c.len_utf8();
        }
        before = c;
    }
    parts
}

/// A phrase of a message.
struct Phrase<'t> {
    class: &'static str,
    identity: &'t str,
    typed: String,
    folded: String,
}

/// Chooses a phrase of a text: a few words in it, or parts of an identifier and the words after it.
fn choose<'t>(text: &'t MessageText, random: usize) -> Option<Phrase<'t>> {
    let parts = parts(&text.text);
    let len = if text.class == "cjk" { 6 } else { 4 + random % 3 };
    let (class, from, to) = match identifier_in(&parts, random).filter(|_| random.is_multiple_of(5)) {
        Some((from, to)) => ("identifier", from, to),
        None => {
            let from = (random / 7) % parts.len().checked_sub(len)?.max(1);
            (text.class, from, from + len)
        }
    };
    let chosen = parts.get(from..to)?;
    let typed = &text.text[chosen.first()?.start..chosen.last()?.end];
    let is_plain = chosen.iter().all(|part| part.folded.len() < 40) && typed.len() < 200;
    let folded = chosen.iter().map(|part| format!(" {}", part.folded)).collect::<String>() + " ";
    (is_plain && !typed.contains('"')).then(|| Phrase {
        class,
        identity: &text.identity,
        typed: typed.to_owned(),
        folded,
    })
}

/// Returns the last parts of an identifier with three or more, and two words after it.
fn identifier_in(parts: &[Part], random: usize) -> Option<(usize, usize)> {
    let start = random % parts.len().max(1);
    (start..parts.len().min(start + 400)).find_map(|from| {
        let joined = parts[from..].windows(2).take_while(|pair| pair[0].end == pair[1].start).count();
        let is_word = parts.get(from..from + 3)?.iter().all(|part| part.folded.len() > 2);
        (joined >= 2 && is_word).then_some((from + 1, from + joined + 3))
    })
}

/// Keeps the phrases that occur in the texts of one message only.
fn unique<'t>(phrases: Vec<Phrase<'t>>, texts: &'t [MessageText]) -> Vec<Phrase<'t>> {
    let finder = AhoCorasick::new(phrases.iter().map(|phrase| &phrase.folded)).expect("phrases");
    let mut owners: Vec<HashSet<&str>> = vec![HashSet::new(); phrases.len()];
    for text in texts {
        let mut folded: String = parts(&text.text).iter().map(|part| format!(" {}", part.folded)).collect();
        folded.push(' ');
        for found in finder.find_overlapping_iter(&folded) {
            owners[found.pattern().as_usize()].insert(&text.identity);
        }
    }
    let unique = phrases.into_iter().zip(owners).filter(|(_, owners)| owners.len() == 1);
    unique.map(|(phrase, _)| phrase).collect()
}

/// Copies the corpus into a config directory.
fn library_of(corpus: &Path, root: &Path) -> Library {
    for (n, log) in logs_under(corpus).iter().enumerate() {
        let project = log.strip_prefix(corpus).expect("below").components().next().expect("a directory");
        let dir = root.join("projects").join(project);
        fs::create_dir_all(&dir).expect("created");
        let stem = log.file_stem().expect("a name").to_string_lossy();
        fs::copy(log, dir.join(format!("{stem}-{n}.jsonl"))).expect("copied");
    }
    Library::builder().root(root).cache_dir(root.join("cache")).open()
}

/// The number of phrases of a class that were tried, and of those whose message was found or was the first hit.
#[derive(Default)]
struct Recall {
    tried: u32,
    found: u32,
    first: u32,
    first_without_quotes: u32,
}

/// Returns whether the message is a hit, and whether it is the first one; and its place.
fn search(library: &Library, typed: &str, uuids: &HashSet<String>) -> (bool, bool, Option<MessagePlace>) {
    let syntax = QuerySyntax { parse_time: &|_| Err("no times".to_owned()) };
    let query = Query::parse(typed, &syntax).expect("a query");
    let found = library.search(&query, typed, &SearchLimits::default()).expect("searched");
    assert!(found.index_error.is_none() && found.rebuilt.is_none(), "{:?}", found.index_error);
    let is_wanted = |hit: &rethread::Hit| hit.uuid.as_ref().is_some_and(|uuid| uuids.contains(uuid));
    let place = found.results.hits().find(|(_, hit)| is_wanted(hit)).map(|(_, hit)| hit.place);
    (place.is_some(), found.results.hits().next().is_some_and(|(_, hit)| is_wanted(hit)), place)
}

#[expect(clippy::print_stderr, reason = "the figures are the result of a run")]
#[test]
fn phrases_of_real_messages_are_found_first() {
    let Some(corpus) = shared("corpus") else { return };
    let wanted = std::env::var("RETHREAD_RECALL").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let root = tempfile::tempdir().expect("a directory");
    let library = library_of(&corpus, root.path());
    let mut texts = Texts::default();
    for log in logs_under(root.path()) {
        texts.read(&fs::read(log).expect("read"));
    }
    let mut by_class: BTreeMap<&str, Vec<&MessageText>> = BTreeMap::new();
    for text in texts.texts.iter().filter(|text| text.class != "note") {
        by_class.entry(text.class).or_default().push(text);
    }
    let per_class = usize::max(1, wanted * 3 / 2 / by_class.len());
    let mut phrases = Vec::new();
    for members in by_class.values() {
        let step = (members.len() / per_class).max(1);
        let chosen = members.iter().enumerate().step_by(step);
        phrases.extend(chosen.filter_map(|(at, text)| choose(text, at.wrapping_mul(7919) % 100_003)));
    }
    let phrases = unique(phrases, &texts.texts);
    library.update_index().expect("an index").expect("made");

    let mut recall: BTreeMap<&str, Recall> = BTreeMap::new();
    let mut missed = Vec::new();
    for phrase in &phrases {
        let uuids = &texts.uuids[phrase.identity];
        let (is_found, is_first, place) = search(&library, &format!("\"{}\"", phrase.typed), uuids);
        let words = if phrase.class == "cjk" { &phrase.typed } else { phrase.folded.trim() };
        let (_, is_first_without_quotes, _) = search(&library, words, uuids);
        let is_abandoned = place == Some(MessagePlace::Abandoned);
        for class in [phrase.class].into_iter().chain(is_abandoned.then_some("abandoned")) {
            let class = recall.entry(class).or_default();
            class.tried += 1;
            class.found += u32::from(is_found);
            class.first += u32::from(is_first);
            class.first_without_quotes += u32::from(is_first_without_quotes);
        }
        if !is_first {
            missed.push(format!(
                "{} (found: {is_found}): {:?} in {}",
                phrase.class, phrase.typed, phrase.identity
            ));
        }
    }
    for (class, Recall { tried, found, first, first_without_quotes }) in &recall {
        eprintln!(
            "{class:10} tried {tried:5} found {found:5} first {first:5} without quotes {first_without_quotes:5}"
        );
    }
    assert!(missed.is_empty(), "{} of {}:\n{}", missed.len(), phrases.len(), missed.join("\n"));
}
