//! What must not be shared: credentials, and on request names of people and machines.
//!
//! A [`Redaction`] looks at texts, not at files. It is told a text and the name it stands under, and
//! says what in it is to be replaced by what. First everything that belongs together is looked at (a
//! log, its subagents, its large results), so that what was recognised in one place is known in all
//! others; then the texts are rewritten.

mod decode;
mod file;
mod named;
mod people;
mod rules;
mod search;
mod strings;
mod value;
mod words;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};
use regex::bytes::Regex;
use rustc_hash::FxHashSet;

pub use file::NotTextError;
use people::People;
use search::{FIRST_CAREFUL_RANK, may_name_secret, named_secret, secret_search, without_ending};
use strings::{StringGroup, TextGroup, each_text, rewrite};
use value::{is_distinct, without_marks};

/// A pattern of the user's.
pub type RedactPattern = Regex;

/// What stands in for a secret begins so.
const MARK: &str = "[REDACTED:";

/// Something in a text that is to be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    /// Where it stands.
    pub range: Range<usize>,
    /// Which rule found it.
    pub rule: Cow<'static, str>,
    /// What takes its place.
    pub with: String,
    /// How sure the rule is: the lower the better.
    rank: usize,
    /// It began in a string before.
    continued: bool,
}

/// A hit in an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSecret {
    /// Where the string that holds it begins.
    pub at: usize,
    /// Which rule found it.
    pub rule: Cow<'static, str>,
    /// Enough of it to know which one it is.
    pub masked: String,
}

/// How many replacements were made, by rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct RedactionCounts(pub BTreeMap<String, u64>);

impl RedactionCounts {
    fn count(&mut self, hits: &[Hit]) {
        for hit in hits.iter().filter(|hit| !hit.continued) {
            *self.0.entry(hit.rule.clone().into_owned()).or_default() += 1;
        }
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        for (rule, n) in &other.0 {
            *self.0.entry(rule.clone()).or_default() += n;
        }
    }
}

/// Tells whether strings may be lines of one secret: few stand on several lines.
fn may_span(texts: &TextGroup<'_>) -> bool {
    static SPANS: OnceLock<AhoCorasick> = OnceLock::new();
    let words = ["PRIVATE KEY", "Private-Lines", "kind: Secret", "- name:", "Password,"];
    let spans = || AhoCorasick::new(words).expect("few words");
    texts.texts.len() > 1 && texts.texts.iter().any(|text| SPANS.get_or_init(spans).is_match(&**text))
}

/// What is looked for.
#[derive(Debug, Clone, Default)]
pub struct RedactOptions {
    /// Credentials.
    pub secrets: bool,
    /// Names of people and machines, and addresses.
    pub people: bool,
    /// More that is secret.
    pub extra: Vec<Regex>,
    /// What is no secret, whatever a rule says.
    pub allow: Vec<Regex>,
}

/// A pattern that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` is no pattern: {reason}")]
pub struct PatternError {
    pattern: String,
    reason: String,
}

impl RedactOptions {
    /// Reads a pattern of the user's.
    pub fn pattern(text: &str) -> Result<Regex, PatternError> {
        let bad = |error: regex::Error| PatternError { pattern: text.to_owned(), reason: error.to_string() };
        let pattern = Regex::new(text).map_err(bad)?;
        if pattern.is_match(b"") {
            let reason = "it fits everything".to_owned();
            return Err(PatternError { pattern: text.to_owned(), reason });
        }
        Ok(pattern)
    }

    /// Tells whether anything is looked for.
    pub fn is_enabled(&self) -> bool {
        self.secrets || self.people || !self.extra.is_empty()
    }
}

/// Finds what must not be shared, and remembers it.
#[derive(Debug, Default)]
pub struct Redaction {
    redact: RedactOptions,
    /// Values that were recognised somewhere, with the rule that did.
    values: BTreeMap<String, (usize, Cow<'static, str>)>,
    known: Option<KnownSecrets>,
    people: People,
    /// Texts in which there is nothing, by their hash: each is looked at once.
    clean_hashes: FxHashSet<u128>,
}

#[derive(Debug)]
struct KnownSecrets {
    finder: AhoCorasick,
    rules: Vec<(usize, Cow<'static, str>)>,
}

impl Redaction {
    /// Looks for what is asked for.
    pub fn new(redact: RedactOptions) -> Self {
        Self { redact, ..Self::default() }
    }

    /// Names that are to be replaced wherever they stand: of the user and the machine at hand.
    pub fn with_people(mut self, users: &[String], hosts: &[String]) -> Self {
        if self.redact.people {
            self.people.add_known(users, hosts);
        }
        self
    }

    /// Takes note of what is in a text, before any is rewritten; tells whether there may be something.
    fn scan_string(&mut self, name: &[u8], text: &str) -> bool {
        if self.redact.people {
            self.people.scan(text, name == b"cwd");
        }
        if is_id(name) {
            return true;
        }
        let hits = self.secrets_in(name, text);
        let any = !hits.is_empty();
        for hit in hits {
            let value = &text[hit.range.clone()];
            let mut keep = |value: &str| {
                if is_distinct(value) {
                    let known = (hit.rank, hit.rule.clone());
                    let slot = self.values.entry(value.to_owned()).or_insert_with(|| known.clone());
                    if known.0 < slot.0 {
                        *slot = known;
                    }
                }
            };
            if value.contains('\n') {
                // A key on several lines: each of them gives it away.
                let lines = value.split(|c: char| c.is_whitespace() || c == '\\').filter(|l| l.len() >= 40);
                lines.for_each(keep);
            } else {
                // Elsewhere it may stand without what ends a sentence.
                keep(value.trim_end_matches(['.', ',', ';', '?', ')', ':']));
            }
        }
        any
    }

    /// Takes note of what is in the strings of an entry.
    pub fn scan_entry(&mut self, raw: &[u8]) {
        each_text(raw, |strings| {
            let key = cache_key(strings);
            if !self.redact.people && key.is_some_and(|key| self.clean_hashes.contains(&key)) {
                return;
            }
            let texts = strings.texts();
            let mut any = false;
            for text in &texts.texts {
                any |= self.scan_string(texts.name, text);
            }
            if may_span(&texts) {
                any |= self.scan_string(texts.name, &texts.joined());
            }
            if let Some(key) = key.filter(|_| !any && self.clean_hashes.len() < MAX_CACHED) {
                self.clean_hashes.insert(key);
            }
        });
    }

    /// Takes note of what is in a text that is no JSON.
    pub fn scan_text(&mut self, text: &str) {
        self.scan_string(b"", text);
    }

    /// Finds what is to be replaced in the strings of an entry.
    pub fn find_in_entry(&self, raw: &[u8]) -> Vec<FoundSecret> {
        let mut found = Vec::new();
        // Results are stored twice.
        let mut empty = FxHashSet::default();
        each_text(raw, |strings| {
            let key = cache_key(strings);
            if key.is_some_and(|key| empty.contains(&key)) {
                return;
            }
            let texts = strings.texts();
            let all = self.hits_in(&texts);
            if let Some(key) = key.filter(|_| all.iter().all(Vec::is_empty) && !is_id(texts.name)) {
                empty.insert(key);
            }
            for (text, hits) in texts.texts.iter().zip(all) {
                let told = hits.into_iter().filter(|hit| !hit.continued);
                found.extend(told.map(|hit| FoundSecret {
                    at: texts.at,
                    masked: masked(&text[hit.range.clone()]),
                    rule: hit.rule,
                }));
            }
        });
        found
    }

    /// Finds what is to be replaced in a text that is no JSON, with the lines it stands on.
    pub fn find_in_text(&self, text: &str) -> Vec<(u32, FoundSecret)> {
        let (mut line, mut done) = (1, 0);
        let found = self.find(b"", text).into_iter().map(|hit| {
            line += text.as_bytes()[done..hit.range.start].iter().filter(|b| **b == b'\n').count();
            done = hit.range.start;
            let masked = masked(&text[hit.range.clone()]);
            (
                u32::try_from(line).unwrap_or(u32::MAX),
                FoundSecret { at: hit.range.start, masked, rule: hit.rule },
            )
        });
        found.collect()
    }

    /// Rewrites the name of a file. What says which kind of file it is stays.
    pub fn rewrite_name(&self, name: &str) -> String {
        let (stem, ending) = name.split_at(without_ending(name.as_bytes()).len());
        let stem =
            self.rewrite_text(stem, &mut RedactionCounts::default()).unwrap_or_else(|| stem.to_owned());
        stem + ending
    }

    /// Rewrites all names of a path.
    pub fn rewrite_path(&self, path: &Path) -> PathBuf {
        path.iter().map(|name| self.rewrite_name(&name.to_string_lossy())).collect()
    }

    /// Rewrites the strings of an entry, and counts by rule; returns nothing if none changes.
    pub fn rewrite_entry(&self, raw: &[u8], counts: &mut RedactionCounts) -> Option<Vec<u8>> {
        rewrite(raw, |strings| {
            let empty =
                !self.redact.people && cache_key(strings).is_some_and(|key| self.clean_hashes.contains(&key));
            if empty && self.known.is_none() {
                return None;
            }
            let texts = strings.texts();
            // What holds nothing by itself may hold what is known from elsewhere.
            let hits = if empty { self.known_in(&texts) } else { self.hits_in(&texts) };
            if hits.iter().all(Vec::is_empty) {
                return None;
            }
            let texts = texts.texts.iter().zip(hits).map(|(text, hits)| {
                counts.count(&hits);
                (!hits.is_empty()).then(|| replaced(text, &hits))
            });
            Some(texts.collect())
        })
    }

    /// Rewrites a line that is no entry. What is hidden in its escapes cannot be taken out, so then all
    /// of it goes.
    pub fn rewrite_torn(&self, raw: &[u8], counts: &mut RedactionCounts) -> Option<String> {
        let text = String::from_utf8_lossy(raw);
        let safe = self.rewrite_text(&text, counts);
        let plain = rethread_log::unescape(safe.as_deref().unwrap_or(&text).as_bytes()).into_owned();
        let hidden = self.find(b"", &plain);
        if hidden.is_empty() {
            return safe;
        }
        counts.count(&hidden);
        Some("\n".to_owned())
    }

    /// Rewrites a text that is no JSON, and counts by rule; returns nothing if it stays.
    pub fn rewrite_text(&self, text: &str, counts: &mut RedactionCounts) -> Option<String> {
        let hits = self.find(b"", text);
        counts.count(&hits);
        (!hits.is_empty()).then(|| replaced(text, &hits))
    }

    /// The hits in each of some strings; one that goes on over several is in each of them.
    fn hits_in(&self, texts: &TextGroup<'_>) -> Vec<Vec<Hit>> {
        let mut all: Vec<Vec<Hit>> = texts.texts.iter().map(|text| self.find(texts.name, text)).collect();
        if !may_span(texts) {
            return all;
        }
        for hit in self.find(texts.name, &texts.joined()) {
            let mut start = 0;
            let mut continued = false;
            for (text, hits) in texts.texts.iter().zip(&mut all) {
                let from = hit.range.start.max(start);
                let to = hit.range.end.min(start + text.len());
                if from < to {
                    hits.push(Hit { range: from - start..to - start, continued, ..hit.clone() });
                    continued = true;
                }
                start += text.len() + 1;
            }
        }
        all.into_iter().map(merge_overlapping).collect()
    }

    /// The hits of what is known from elsewhere in each of some strings.
    fn known_in(&self, texts: &TextGroup<'_>) -> Vec<Vec<Hit>> {
        let hits = texts.texts.iter().map(|text| {
            let mut hits = Vec::new();
            self.find_known(text, &mut hits);
            hits.retain(|hit| !self.is_allowed(&text[hit.range.clone()]));
            merge_overlapping(hits)
        });
        hits.collect()
    }

    fn find_known(&self, text: &str, hits: &mut Vec<Hit>) {
        let Some(known) = &self.known else { return };
        hits.extend(known.finder.find_iter(text).map(|found| {
            let (rank, rule) = known.rules[found.pattern().as_usize()].clone();
            hit(found.start()..found.end(), rank, rule)
        }));
    }

    /// Makes ready to rewrite what was noted.
    pub fn finish_scan(&mut self) {
        self.people.build_finder();
        if self.values.is_empty() {
            return;
        }
        let finder =
            AhoCorasickBuilder::new().match_kind(MatchKind::LeftmostLongest).build(self.values.keys());
        self.known =
            finder.ok().map(|finder| KnownSecrets { finder, rules: self.values.values().cloned().collect() });
    }

    /// Finds what in a text is to be replaced, in order.
    fn find(&self, name: &[u8], text: &str) -> Vec<Hit> {
        let mut hits = self.secrets_in(name, text);
        if is_id(name) {
            // An id is changed nowhere or everywhere, and it is no secret.
            hits.retain(|hit| hit.rank < FIRST_CAREFUL_RANK);
            return hits;
        }
        self.find_known(text, &mut hits);
        hits.retain(|hit| !self.is_allowed(&text[hit.range.clone()]));
        if self.redact.people && !is_structure(name) {
            hits.extend(self.people.find(text));
        }
        merge_overlapping(hits)
    }

    fn is_allowed(&self, value: &str) -> bool {
        self.redact.allow.iter().any(|allow| allow.is_match(value.as_bytes()))
    }

    fn secrets_in(&self, name: &[u8], text: &str) -> Vec<Hit> {
        let mut hits = Vec::new();
        if self.redact.secrets && text.len() >= 6 {
            secret_search().find(text, &mut hits);
            // In JSON the name stands apart from its value.
            if !name.is_empty() && text.len() <= 1 << 16 {
                hits.extend(named_secret(name, text));
            }
        }
        for also in &self.redact.extra {
            let found = also.captures_iter(text.as_bytes()).filter_map(|c| c.get(1).or_else(|| c.get(0)));
            hits.extend(
                found.filter(|m| !m.is_empty()).map(|m| hit(snapped(text, m.range()), 0, "also".into())),
            );
        }
        hits.retain(|hit| {
            let value = &text[hit.range.clone()];
            !self.is_allowed(value) && !is_marks(value)
        });
        merge_overlapping(hits)
    }
}

/// Texts from this length on are looked at once.
const REMEMBERED: usize = 32;
/// So many of them are remembered.
const MAX_CACHED: usize = 1 << 20;

/// What strings are remembered by: how they are spelled, and their name if that says something.
fn cache_key(strings: &StringGroup<'_, '_>) -> Option<u128> {
    let spelled = strings.spelled();
    if spelled.len() < REMEMBERED {
        return None;
    }
    let seed = if may_name_secret(strings.name) { xxhash_rust::xxh3::xxh3_64(strings.name) } else { 0 };
    Some(xxhash_rust::xxh3::xxh3_128_with_seed(spelled, seed))
}

/// Tells whether all of a value was replaced before.
fn is_marks(value: &str) -> bool {
    let left = without_marks(value);
    left.len() < value.len() && !left.bytes().any(|b| b.is_ascii_alphanumeric() || b >= 0x80)
}

/// Fields that name something.
fn is_id(name: &[u8]) -> bool {
    matches!(
        name,
        b"uuid"
            | b"parentUuid"
            | b"logicalParentUuid"
            | b"leafUuid"
            | b"sessionId"
            | b"id"
            | b"tool_use_id"
            | b"requestId"
            | b"messageId"
            | b"toolUseID"
            | b"parentToolUseID"
            | b"sourceToolUseID"
            | b"sourceToolAssistantUUID"
            | b"promptId"
            | b"agentId"
            | b"timestamp"
    )
}

/// Fields whose values clients know.
fn is_structure(name: &[u8]) -> bool {
    matches!(
        name,
        b"type"
            | b"role"
            | b"subtype"
            | b"model"
            | b"operation"
            | b"level"
            | b"stop_reason"
            | b"media_type"
            | b"version"
            | b"userType"
    )
}

fn hit(range: Range<usize>, rank: usize, rule: Cow<'static, str>) -> Hit {
    let with = format!("{MARK}{rule}]");
    Hit { range, rule, with, rank, continued: false }
}

/// Moves a range to where characters begin.
fn snapped(text: &str, range: Range<usize>) -> Range<usize> {
    text.floor_char_boundary(range.start)..text.ceil_char_boundary(range.end)
}

/// Joins hits that overlap, under the name of the surest.
fn merge_overlapping(mut hits: Vec<Hit>) -> Vec<Hit> {
    if hits.len() < 2 {
        return hits;
    }
    hits.sort_by_key(|hit| (hit.range.start, hit.rank));
    let mut out: Vec<Hit> = Vec::with_capacity(hits.len());
    for hit in hits {
        match out.last_mut() {
            Some(last) if hit.range.start < last.range.end => {
                let end = last.range.end.max(hit.range.end);
                if hit.rank < last.rank {
                    (last.rank, last.rule, last.with) = (hit.rank, hit.rule, hit.with);
                }
                last.range.end = end;
            }
            _ => out.push(hit),
        }
    }
    out
}

/// Puts what replaces hits into a text.
fn replaced(text: &str, hits: &[Hit]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for hit in hits {
        out.push_str(&text[done..hit.range.start]);
        out.push_str(&hit.with);
        done = hit.range.end;
    }
    out.push_str(&text[done..]);
    out
}

/// Shows so much of a secret that its owner knows which one it is.
fn masked(value: &str) -> String {
    let n = value.chars().count();
    let line = value.lines().next().unwrap_or_default();
    let shown = if n >= 16 { 4 } else { n / 5 };
    let start: String = line.chars().take(shown).collect();
    format!("{start}… ({n} characters)")
}
