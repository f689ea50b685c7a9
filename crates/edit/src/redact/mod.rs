//! Redacts credentials and, on request, names of people and machines.
//!
//! A [`Redaction`] works on texts, not on files. For a text and its field name it returns the ranges to replace and
//! their replacements. First everything that belongs together (a log, its subagents, its large results) is
//! scanned, so that a value recognised in one place is found in all others. Then the texts are rewritten.

mod decode;
mod file;
mod kubernetes;
mod named;
mod people;
mod rules;
mod search;
mod strings;
mod url;
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
use search::{FIRST_CAREFUL_RANK, may_name_secret, named_secret, secret_search, without_extension};
use strings::{StringGroup, TextGroup, each_text, rewrite};
use value::{is_distinct, without_marks};

/// A user-defined pattern.
pub type RedactPattern = Regex;

/// The start of every replacement for a secret.
const MARK: &str = "[REDACTED:";

/// A range of a text to replace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleHit {
    pub range: Range<usize>,
    /// The rule that found it.
    pub rule: Cow<'static, str>,
    /// The replacement.
    pub replacement: String,
    /// The certainty of the rule; lower is more certain.
    rank: usize,
    /// The secret began in an earlier string.
    continued: bool,
}

/// A secret in an entry or a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSecret {
    /// The offset of the string that contains it.
    pub at: usize,
    /// The rule that found it.
    pub rule: Cow<'static, str>,
    /// The secret, masked but still recognisable to its owner.
    pub masked: String,
}

/// The number of replacements by rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct RedactionCounts(pub BTreeMap<String, u64>);

impl RedactionCounts {
    fn count(&mut self, hits: &[RuleHit]) {
        for hit in hits.iter().filter(|hit| !hit.continued) {
            *self.0.entry(hit.rule.clone().into_owned()).or_default() += 1;
        }
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        for (rule, n) in &other.0 {
            *self.0.entry(rule.clone()).or_default() += n;
        }
    }
}

/// Returns whether strings may be lines of one secret; few kinds of secrets span lines.
fn may_span(texts: &TextGroup<'_>) -> bool {
    static SPANS: OnceLock<AhoCorasick> = OnceLock::new();
    let words = ["PRIVATE KEY", "Private-Lines", "kind: Secret", "- name:", "Password,"];
    let spans = || AhoCorasick::new(words).expect("few words");
    texts.texts.len() > 1 && texts.texts.iter().any(|text| SPANS.get_or_init(spans).is_match(&**text))
}

/// The kinds of values to redact.
#[derive(Debug, Clone, Default)]
pub struct RedactOptions {
    /// Redacts credentials.
    pub secrets: bool,
    /// Redacts names of people and machines, and email addresses.
    pub people: bool,
    /// Additional patterns to redact.
    pub extra: Vec<Regex>,
    /// Patterns of values that are never redacted.
    pub allow: Vec<Regex>,
}

/// The error for an invalid pattern.
#[derive(Debug, thiserror::Error)]
#[error("invalid pattern `{pattern}`: {reason}")]
pub struct PatternError {
    pattern: String,
    reason: String,
}

impl RedactOptions {
    /// Compiles a user-defined pattern.
    pub fn pattern(text: &str) -> Result<Regex, PatternError> {
        let invalid =
            |error: regex::Error| PatternError { pattern: text.to_owned(), reason: error.to_string() };
        let pattern = Regex::new(text).map_err(invalid)?;
        if pattern.is_match(b"") {
            let reason = "it matches the empty string".to_owned();
            return Err(PatternError { pattern: text.to_owned(), reason });
        }
        Ok(pattern)
    }

    /// Returns whether anything is redacted.
    pub fn is_enabled(&self) -> bool {
        self.secrets || self.people || !self.extra.is_empty()
    }
}

/// Finds and replaces values that must not be shared.
#[derive(Debug, Default)]
pub struct Redaction {
    options: RedactOptions,
    /// Recognised values with the rank and name of their rule.
    values: BTreeMap<String, (usize, Cow<'static, str>)>,
    known: Option<KnownSecrets>,
    people: People,
    /// Hashes of texts without secrets, so that each text is scanned once.
    clean_hashes: FxHashSet<u128>,
}

#[derive(Debug)]
struct KnownSecrets {
    finder: AhoCorasick,
    rules: Vec<(usize, Cow<'static, str>)>,
}

impl Redaction {
    /// Creates a redaction with these options.
    pub fn new(options: RedactOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Adds names of the current user and machine, which are replaced wherever they occur.
    pub fn with_people(mut self, users: &[String], hosts: &[String]) -> Self {
        if self.options.people {
            self.people.add_known(users, hosts);
        }
        self
    }

    /// Records the secrets in a text before any text is rewritten; returns whether it may contain some.
    fn scan_string(&mut self, name: &[u8], text: &str) -> bool {
        if self.options.people {
            self.people.scan(text, name == b"cwd");
        }
        if is_id(name) {
            return true;
        }
        let hits = self.secrets_in(name, text);
        let any = !hits.is_empty();
        for hit in hits {
            let value = &text[hit.range.clone()];
            let mut record = |value: &str| {
                if is_distinct(value) {
                    let known = (hit.rank, hit.rule.clone());
                    let slot = self.values.entry(value.to_owned()).or_insert_with(|| known.clone());
                    if known.0 < slot.0 {
                        *slot = known;
                    }
                }
            };
            if value.contains('\n') {
                // A key that spans lines: each line reveals part of it.
                let lines = value.split(|c: char| c.is_whitespace() || c == '\\').filter(|l| l.len() >= 40);
                lines.for_each(record);
            } else {
                // Elsewhere it may occur without the punctuation that ends a sentence.
                record(value.trim_end_matches(['.', ',', ';', '?', ')', ':']));
            }
        }
        any
    }

    /// Records the secrets in the strings of an entry.
    pub fn scan_entry(&mut self, raw: &[u8]) {
        each_text(raw, |strings| {
            let key = cache_key(strings);
            if !self.options.people && key.is_some_and(|key| self.clean_hashes.contains(&key)) {
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

    /// Records the secrets in a text that is not JSON.
    pub fn scan_text(&mut self, text: &str) {
        self.scan_string(b"", text);
    }

    /// Finds the secrets in the strings of an entry.
    pub fn find_in_entry(&self, raw: &[u8]) -> Vec<FoundSecret> {
        let mut found = Vec::new();
        // Results are stored twice in an entry.
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
                let reported = hits.into_iter().filter(|hit| !hit.continued);
                found.extend(reported.map(|hit| FoundSecret {
                    at: texts.at,
                    masked: masked(&text[hit.range.clone()]),
                    rule: hit.rule,
                }));
            }
        });
        found
    }

    /// Finds the secrets in a text that is not JSON, each with its line number.
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

    /// Redacts the name of a file; its extension is kept.
    pub fn rewrite_name(&self, name: &str) -> String {
        let (stem, extension) = name.split_at(without_extension(name.as_bytes()).len());
        let stem =
            self.rewrite_text(stem, &mut RedactionCounts::default()).unwrap_or_else(|| stem.to_owned());
        stem + extension
    }

    /// Redacts all components of a path.
    pub fn rewrite_path(&self, path: &Path) -> PathBuf {
        path.iter().map(|name| self.rewrite_name(&name.to_string_lossy())).collect()
    }

    /// Redacts the strings of an entry and counts by rule; returns `None` if nothing changes.
    pub fn rewrite_entry(&self, raw: &[u8], counts: &mut RedactionCounts) -> Option<Vec<u8>> {
        rewrite(raw, |strings| {
            let empty = !self.options.people
                && cache_key(strings).is_some_and(|key| self.clean_hashes.contains(&key));
            if empty && self.known.is_none() {
                return None;
            }
            let texts = strings.texts();
            // A text in which the rules find nothing may contain values recognised elsewhere.
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

    /// Redacts a line that is not a valid entry. A secret hidden in its escapes cannot be cut out, so the whole line is
    /// replaced then.
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

    /// Redacts a text that is not JSON and counts by rule; returns `None` if nothing changes.
    pub fn rewrite_text(&self, text: &str, counts: &mut RedactionCounts) -> Option<String> {
        let hits = self.find(b"", text);
        counts.count(&hits);
        (!hits.is_empty()).then(|| replaced(text, &hits))
    }

    /// Returns the hits in each string of a group; a hit that spans several strings is in each of them.
    fn hits_in(&self, texts: &TextGroup<'_>) -> Vec<Vec<RuleHit>> {
        let mut all: Vec<Vec<RuleHit>> = texts.texts.iter().map(|text| self.find(texts.name, text)).collect();
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
                    hits.push(RuleHit { range: from - start..to - start, continued, ..hit.clone() });
                    continued = true;
                }
                start += text.len() + 1;
            }
        }
        all.into_iter().map(merge_overlapping).collect()
    }

    /// Returns the hits of recognised values in each string of a group.
    fn known_in(&self, texts: &TextGroup<'_>) -> Vec<Vec<RuleHit>> {
        let hits = texts.texts.iter().map(|text| {
            let mut hits = Vec::new();
            self.find_known(text, &mut hits);
            hits.retain(|hit| !self.is_allowed(&text[hit.range.clone()]));
            merge_overlapping(hits)
        });
        hits.collect()
    }

    fn find_known(&self, text: &str, hits: &mut Vec<RuleHit>) {
        let Some(known) = &self.known else { return };
        hits.extend(known.finder.find_iter(text).map(|found| {
            let (rank, rule) = known.rules[found.pattern().as_usize()].clone();
            hit(found.start()..found.end(), rank, rule)
        }));
    }

    /// Builds the search for the recorded values. Call it between scanning and rewriting.
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

    /// Finds the ranges to replace in a text, in order.
    fn find(&self, name: &[u8], text: &str) -> Vec<RuleHit> {
        let mut hits = self.secrets_in(name, text);
        if is_id(name) {
            // Ids must stay consistent across entries, and they are not secrets.
            hits.retain(|hit| hit.rank < FIRST_CAREFUL_RANK);
            return hits;
        }
        self.find_known(text, &mut hits);
        hits.retain(|hit| !self.is_allowed(&text[hit.range.clone()]));
        if self.options.people && !is_structure(name) {
            hits.extend(self.people.find(text));
        }
        merge_overlapping(hits)
    }

    fn is_allowed(&self, value: &str) -> bool {
        self.options.allow.iter().any(|allow| allow.is_match(value.as_bytes()))
    }

    fn secrets_in(&self, name: &[u8], text: &str) -> Vec<RuleHit> {
        let mut hits = Vec::new();
        if self.options.secrets && text.len() >= 6 {
            secret_search().find(text, &mut hits);
            // In JSON the name is separate from its value.
            if !name.is_empty() && text.len() <= 1 << 16 {
                hits.extend(named_secret(name, text));
            }
        }
        for pattern in &self.options.extra {
            let found = pattern.captures_iter(text.as_bytes()).filter_map(|c| c.get(1).or_else(|| c.get(0)));
            hits.extend(
                found.filter(|m| !m.is_empty()).map(|m| hit(char_aligned(text, m.range()), 0, "also".into())),
            );
        }
        hits.retain(|hit| {
            let value = &text[hit.range.clone()];
            !self.is_allowed(value) && !is_marks(value)
        });
        merge_overlapping(hits)
    }
}

/// Texts of at least this length are cached.
const MIN_CACHED_LEN: usize = 32;
/// The maximum number of cached texts.
const MAX_CACHED: usize = 1 << 20;

/// Returns the cache key of strings: their raw bytes, and their name if it affects the result.
fn cache_key(strings: &StringGroup<'_, '_>) -> Option<u128> {
    let raw = strings.raw_bytes();
    if raw.len() < MIN_CACHED_LEN {
        return None;
    }
    let seed = if may_name_secret(strings.name) { xxhash_rust::xxh3::xxh3_64(strings.name) } else { 0 };
    Some(xxhash_rust::xxh3::xxh3_128_with_seed(raw, seed))
}

/// Returns whether all of a value is redacted already.
fn is_marks(value: &str) -> bool {
    let left = without_marks(value);
    left.len() < value.len() && !left.bytes().any(|b| b.is_ascii_alphanumeric() || b >= 0x80)
}

/// Returns whether a field contains an id.
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

/// Returns whether the values of a field are defined by the client.
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

fn hit(range: Range<usize>, rank: usize, rule: Cow<'static, str>) -> RuleHit {
    let replacement = format!("{MARK}{rule}]");
    RuleHit { range, rule, replacement, rank, continued: false }
}

/// Extends a range to character boundaries.
fn char_aligned(text: &str, range: Range<usize>) -> Range<usize> {
    text.floor_char_boundary(range.start)..text.ceil_char_boundary(range.end)
}

/// Merges overlapping hits under the rule with the best rank.
fn merge_overlapping(mut hits: Vec<RuleHit>) -> Vec<RuleHit> {
    if hits.len() < 2 {
        return hits;
    }
    hits.sort_by_key(|hit| (hit.range.start, hit.rank));
    let mut out: Vec<RuleHit> = Vec::with_capacity(hits.len());
    for hit in hits {
        match out.last_mut() {
            Some(last) if hit.range.start < last.range.end => {
                let end = last.range.end.max(hit.range.end);
                if hit.rank < last.rank {
                    (last.rank, last.rule, last.replacement) = (hit.rank, hit.rule, hit.replacement);
                }
                last.range.end = end;
            }
            _ => out.push(hit),
        }
    }
    out
}

/// Returns a text with its hits replaced.
fn replaced(text: &str, hits: &[RuleHit]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for hit in hits {
        out.push_str(&text[done..hit.range.start]);
        out.push_str(&hit.replacement);
        done = hit.range.end;
    }
    out.push_str(&text[done..]);
    out
}

/// Returns just enough of a secret for its owner to recognise it.
fn masked(value: &str) -> String {
    let n = value.chars().count();
    let line = value.lines().next().unwrap_or_default();
    let shown = if n >= 16 { 4 } else { n / 5 };
    let start: String = line.chars().take(shown).collect();
    format!("{start}… ({n} characters)")
}
