//! The search for all rules at once.
//!
//! All words of all rules are searched in one pass; where one occurs, its rules are tried there and nowhere else. So
//! the work grows with the text and the words in it, not with the number of rules.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use regex::bytes::{Regex, RegexBuilder};

use super::named::{self, SERVICES, SecretKind, WORDS};
use super::rules::{CharClass, PATTERNS, PatternRule, TOKENS, TokenRule};
use super::value::{SecretName, entropy, is_data, is_rule_value, is_scrambled, is_secret, without_marks};
use super::words::WordFinder;
use super::{RuleHit, char_aligned, decode, hit, is_id, kubernetes, url};

/// Rules with a lower rank recognise a secret without a name or context.
pub(super) const FIRST_CAREFUL_RANK: usize = 10_000;

/// The maximum depth of nested escapes.
const MAX_DEPTH: usize = 3;
/// A pattern that may start before its word is matched up to this far after it.
const LOOKAHEAD: usize = 256;

/// Rules that are neither tokens nor patterns.
const OTHER_RULES: [&str; 10] = [
    "also",
    "url-password",
    "kubernetes-secret",
    "key-array",
    "password",
    "assignment",
    "key",
    "service-key",
    "key-data",
    "azure-shared-key",
];

/// The check to try where a word occurs.
#[derive(Debug, Clone, Copy)]
enum Matcher {
    Token(u16),
    Pattern(u16),
    Name,
    Url,
    Kubernetes,
}

/// All rules in searchable form, built once.
pub(super) struct SecretSearch {
    patterns: Vec<OnceLock<Regex>>,
    /// The check for each word.
    words: WordFinder<Matcher>,
    /// Words that occur in names of secrets.
    names: AhoCorasick,
}

/// Returns the search for all rules.
pub(super) fn secret_search() -> &'static SecretSearch {
    static READY: OnceLock<SecretSearch> = OnceLock::new();
    READY.get_or_init(SecretSearch::new)
}

/// Returns whether a rule has this name.
pub(super) fn is_rule(name: &str) -> bool {
    static NAMES: OnceLock<BTreeSet<&'static str>> = OnceLock::new();
    let names = || {
        let tokens = TOKENS.iter().map(|token| token.name);
        tokens.chain(PATTERNS.iter().map(|pattern| pattern.name)).chain(OTHER_RULES).collect()
    };
    NAMES.get_or_init(names).contains(name)
}

/// Compiles a pattern; done on first use, since most patterns are never tried.
fn compile_pattern(rule: &PatternRule) -> Regex {
    let (flags, rest) = match rule.pattern.strip_prefix("(?i)") {
        Some(rest) => ("(?i)", rest),
        None => ("", rule.pattern),
    };
    let after_boundary = rest.strip_prefix(r"\b");
    let pattern = match after_boundary {
        _ if rule.lookbehind == 0 => format!(r"{flags}\A(?:{})", after_boundary.unwrap_or(rest)),
        // A terminal colour may precede it.
        Some(rest) => format!(r"{flags}(?:\b|\[[0-9;]{{0,8}}m)({rest})"),
        None => rule.pattern.to_owned(),
    };
    RegexBuilder::new(&pattern).unicode(false).size_limit(1 << 24).build().expect(rule.name)
}

/// Returns whether a word starts here: no letter precedes it, except one of an escape or a colour.
pub(super) fn is_word_start(bytes: &[u8], at: usize) -> bool {
    let before = &bytes[..at];
    match before {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
        [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
        [.., b'\\', b'u', a, b, c, d] if [a, b, c, d].iter().all(|b| b.is_ascii_hexdigit()) => true,
        [.., b'0'..=b'9' | b'[' | b';', b'm'] => {
            memchr::memrchr(b'[', &before[at.saturating_sub(10)..]).is_some()
        }
        [.., b] => !b.is_ascii_alphanumeric(),
        [] => true,
    }
}

impl SecretSearch {
    fn new() -> Self {
        let mut words = Vec::new();
        for (n, token) in (0..).zip(TOKENS) {
            for prefix in token.prefixes {
                words.push((*prefix, true, Matcher::Token(n)));
            }
        }
        for (n, pattern) in (0..).zip(PATTERNS) {
            let exact = !pattern.pattern.starts_with("(?i");
            for word in pattern.words {
                words.push((*word, exact, Matcher::Pattern(n)));
            }
        }
        // Of two words that start at one place the longer is tried first: `secret key` before `secret`.
        let mut names: Vec<&str> = WORDS.iter().chain(SERVICES).copied().collect();
        names.sort_by_key(|word| std::cmp::Reverse(word.len()));
        for word in names {
            words.push((word, false, Matcher::Name));
        }
        for word in ["://", r":\/\/", r":\\/\\/", "//"] {
            words.push((word, true, Matcher::Url));
        }
        for word in ["kind: secret", "kind\": \"secret", "kind\":\"secret", "kind: \"secret"] {
            words.push((word, false, Matcher::Kubernetes));
        }
        Self {
            patterns: PATTERNS.iter().map(|_| OnceLock::new()).collect(),
            words: WordFinder::new(words),
            names: AhoCorasickBuilder::new()
                .ascii_case_insensitive(true)
                .build(WORDS.iter().chain(SERVICES))
                .expect("few words"),
        }
    }

    /// Finds secrets in a text in any encoding; hits may overlap.
    pub(super) fn find(&self, text: &str, hits: &mut Vec<RuleHit>) {
        if !is_data(text) {
            self.find_decoded(text, MAX_DEPTH, hits);
        }
        self.find_base64(text, hits);
    }

    /// Finds secrets in a text and in its decoded forms.
    fn find_decoded(&self, text: &str, depth: usize, hits: &mut Vec<RuleHit>) {
        self.find_plain(text, hits);
        key_arrays(text, hits);
        let mut inner = Vec::new();
        decode::each_percent(text, |place, view| {
            self.find_plain(&view.text, &mut inner);
            key_arrays(&view.text, &mut inner);
            move_hits(&mut inner, hits, |range| view.source(range), place.start);
        });
        for place in decode::pieces(text) {
            let Some(view) = decode::unnumbered(&text[place.clone()]) else { continue };
            self.find_plain(&view.text, &mut inner);
            move_hits(&mut inner, hits, |range| view.source(range), place.start);
        }
        if !decode::may_resolve(text) {
            return;
        }
        for place in decode::pieces(text) {
            let Some(view) = decode::uncoloured(&text[place.clone()]) else { continue };
            self.find_plain(&view.text, &mut inner);
            move_hits(&mut inner, hits, |range| view.kept(range), place.start);
        }
        if depth == 0 {
            return;
        }
        for place in decode::pieces(text) {
            let Some(view) = decode::unescaped(&text[place.clone()]) else { continue };
            self.find_decoded(&view.text, depth - 1, &mut inner);
            move_hits(&mut inner, hits, |range| view.source(range), place.start);
        }
    }

    /// Finds secrets in base64; the whole run is replaced then.
    fn find_base64(&self, text: &str, hits: &mut Vec<RuleHit>) {
        let mut inner = Vec::new();
        decode::each_base64(text, |place, decoded| {
            self.find_decoded(decoded, 1, &mut inner);
            if let Some(best) = inner.drain(..).min_by_key(|hit| hit.rank) {
                hits.push(RuleHit { range: place, ..best });
            }
        });
    }

    /// Finds secrets in a text without decoding it.
    fn find_plain(&self, text: &str, hits: &mut Vec<RuleHit>) {
        let bytes = text.as_bytes();
        let mut named = named::NameProgress::default();
        let mut runs = ClassRuns::default();
        let mut kubernetes_done = 0;
        let mut attempts: Vec<PatternAttempts> = Vec::new();
        self.words.each(bytes, |word, matcher| match matcher {
            Matcher::Token(n) => {
                let token = &TOKENS[usize::from(n)];
                if let Some(range) = token_at(token, bytes, &word, &mut runs) {
                    hits.push(hit(range, usize::from(n) + 1, token.name.into()));
                }
            }
            Matcher::Pattern(n) => {
                let tried = PatternAttempts::of_rule(n, &mut attempts);
                if tried.end <= word.start {
                    match self.pattern_at(n, text, &word, tried.window(), hits) {
                        Some(end) => tried.end = end,
                        None => tried.failed += 1,
                    }
                }
            }
            Matcher::Name => {
                if let Some((range, kind)) = named::find(text, word, &mut named) {
                    hits.push(careful_hit(char_aligned(text, range), kind));
                }
            }
            Matcher::Url => {
                if let Some(range) = url::url_password(text, word)
                    && is_url_password(&without_marks(&text[range.clone()]))
                {
                    hits.push(hit(char_aligned(text, range), FIRST_CAREFUL_RANK, "url-password".into()));
                }
            }
            Matcher::Kubernetes if word.start < kubernetes_done => {}
            Matcher::Kubernetes => {
                kubernetes_done = word.start + kubernetes::REACH / 4;
                let values = kubernetes::secret_values(text, word.start).into_iter();
                let values = values.filter(|range| without_marks(&text[range.clone()]).len() >= 4);
                hits.extend(values.map(|range| {
                    hit(char_aligned(text, range), FIRST_CAREFUL_RANK + 1, "kubernetes-secret".into())
                }));
            }
        });
    }

    /// Tries a pattern at a word; returns the end of its last match.
    fn pattern_at(
        &self,
        n: u16,
        text: &str,
        word: &Range<usize>,
        window: usize,
        hits: &mut Vec<RuleHit>,
    ) -> Option<usize> {
        let n = usize::from(n);
        let rule = &PATTERNS[n];
        let bytes = text.as_bytes();
        let anchored = rule.lookbehind == 0;
        if anchored
            && rule.pattern.trim_start_matches("(?i)").starts_with(r"\b")
            && !is_word_start(bytes, word.start)
        {
            return None;
        }
        let start = word.start.saturating_sub(rule.lookbehind);
        // Token characters directly before the word are part of the secret.
        let in_token = |b: &u8| b.is_ascii_alphanumeric() || b"_~.+/-".contains(b);
        if !anchored
            && !rule.careful
            && !bytes[start.max(word.start.saturating_sub(8))..word.start].iter().all(in_token)
        {
            return None;
        }
        let regex = self.patterns[n].get_or_init(|| compile_pattern(rule));
        let mut end = bytes.len().min(word.end.saturating_add(if anchored { window } else { LOOKAHEAD }));
        let mut found = regex.captures(&bytes[start..end])?;
        // The window may end within a match.
        if anchored && end < bytes.len() && found.get(0).is_some_and(|all| start + all.end() + 64 >= end) {
            end = bytes.len();
            found = regex.captures(&bytes[start..end])?;
        }
        let all = found.get(0)?;
        let value = found.get(1).unwrap_or(all);
        let mut range = start + value.start()..start + value.end();
        // The window may end within a value.
        while !anchored && range.end == end && bytes.get(range.end).is_some_and(|b| CharClass::Base64.has(*b))
        {
            range.end += 1;
        }
        let range = char_aligned(text, range);
        let before = &text[text.floor_char_boundary(start + all.start())..range.start];
        let value = &text[range.clone()];
        if is_rule_value(rule, value, before) {
            let rank = if rule.careful { FIRST_CAREFUL_RANK + 2 + n } else { TOKENS.len() + n + 1 };
            hits.push(hit(range, rank, rule.name.into()));
        }
        Some(start + all.end())
    }
}

/// The attempts of a pattern in a text.
struct PatternAttempts {
    rule: u16,
    /// The end of its last match.
    end: usize,
    failed: usize,
}

impl PatternAttempts {
    /// Returns the attempts of a rule, which are added if there were none.
    fn of_rule(rule: u16, all: &mut Vec<Self>) -> &mut Self {
        let at = all.iter().position(|tried| tried.rule == rule).unwrap_or_else(|| {
            all.push(Self { rule, end: 0, failed: 0 });
            all.len() - 1
        });
        &mut all[at]
    }

    /// Returns the length of the window to match in. After repeated failures it no longer reaches the end of the text.
    fn window(&self) -> usize {
        match self.failed {
            0..64 => usize::MAX,
            64..1024 => 4096,
            _ => 512,
        }
    }
}

/// The last run of each character class, so that a text of nothing but prefixes is read once.
#[derive(Default)]
struct ClassRuns([Range<usize>; 5]);

impl ClassRuns {
    /// Returns the end of the run of a class that starts at `at`.
    fn end(&mut self, class: CharClass, bytes: &[u8], at: usize) -> usize {
        let last = &mut self.0[class as usize];
        if !last.contains(&at) {
            *last = at..at + bytes[at..].iter().take_while(|b| class.has(**b)).count();
        }
        last.end
    }
}

/// Maps hits in a decoded text back to its source, which starts at `offset`, and moves them to `hits`.
fn move_hits(
    decoded: &mut Vec<RuleHit>,
    hits: &mut Vec<RuleHit>,
    source: impl Fn(Range<usize>) -> Range<usize>,
    offset: usize,
) {
    hits.extend(decoded.drain(..).map(|hit| {
        let range = source(hit.range.clone());
        RuleHit { range: offset + range.start..offset + range.end, ..hit }
    }));
}

fn careful_hit(range: Range<usize>, kind: SecretKind) -> RuleHit {
    hit(range, FIRST_CAREFUL_RANK + 1000 + kind as usize, kind.rule().into())
}

/// Returns whether a name may announce a secret.
pub(super) fn may_name_secret(name: &[u8]) -> bool {
    !is_common(name) && secret_search().names.is_match(name)
}

/// Returns whether a name is one of the few that most strings have and that announce no secret.
fn is_common(name: &[u8]) -> bool {
    is_id(name)
        || matches!(
            name,
            b"" | b"cwd"
                | b"type"
                | b"role"
                | b"text"
                | b"name"
                | b"slug"
                | b"model"
                | b"usage"
                | b"lines"
                | b"input"
                | b"level"
                | b"content"
                | b"version"
                | b"command"
                | b"message"
                | b"pattern"
                | b"gitBranch"
                | b"file_path"
                | b"stdout"
                | b"stderr"
                | b"userType"
                | b"filePath"
                | b"thinking"
                | b"entrypoint"
                | b"stop_reason"
                | b"service_tier"
                | b"old_string"
                | b"new_string"
                | b"oldString"
                | b"newString"
                | b"inference_geo"
                | b"hookEvent"
                | b"hookName"
                | b"addedLines"
                | b"addedNames"
                | b"status"
                | b"speed"
                | b"description"
                | b"backupTime"
                | b"backupFileName"
        )
}

/// Returns the secret in the value of a named field, if all of the value is one.
pub(super) fn named_secret(name: &[u8], text: &str) -> Option<RuleHit> {
    if !may_name_secret(name) {
        return None;
    }
    let name = &*String::from_utf8_lossy(name);
    let kind = named::kind_of(name)?;
    let trimmed = text.trim();
    let start = text.len() - text.trim_start().len();
    let named = SecretName { kind, name, quoted: true };
    is_secret(&named, trimmed).then(|| careful_hit(start..start + trimmed.len(), kind))
}

/// Returns the range of the token whose prefix is at `prefix`.
fn token_at(
    token: &TokenRule,
    bytes: &[u8],
    prefix: &Range<usize>,
    runs: &mut ClassRuns,
) -> Option<Range<usize>> {
    if !is_word_start(bytes, prefix.start) {
        return None;
    }
    let end = runs.end(token.class, bytes, prefix.end);
    // A file extension is not part of the token.
    let end = prefix.end + without_extension(&bytes[prefix.end..end]).len();
    let run = end - prefix.end;
    // A hex number does not continue with letters.
    let continues = token.class == CharClass::Hex && bytes.get(end).is_some_and(u8::is_ascii_alphanumeric);
    if run < token.min_len || continues {
        return None;
    }
    let value = &bytes[prefix.end..end.min(prefix.end + 400)];
    let min_entropy = if token.weak { 3.0_f32.min(0.8 * (value.len() as f32).log2()) } else { 1.5 };
    let mixed = match token.class {
        CharClass::Hex | CharClass::Alnum if !token.weak => true,
        CharClass::Hex => value.iter().any(u8::is_ascii_digit),
        _ => is_mixed(value),
    };
    (mixed && entropy(value) >= min_entropy).then_some(prefix.start..end)
}

/// Returns a file name without its extension.
pub(super) fn without_extension(name: &[u8]) -> &[u8] {
    const EXTENSIONS: [&[u8]; 10] =
        [b".meta.json", b".jsonl", b".json", b".txt", b".log", b".md", b".yml", b".yaml", b".env", b".bak"];
    EXTENSIONS.iter().find_map(|extension| name.strip_suffix(*extension)).unwrap_or(name)
}

/// Returns whether letters and digits are more mixed than in words.
fn is_mixed(value: &[u8]) -> bool {
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let letters = value.iter().filter(|b| b.is_ascii_alphabetic()).count();
    let changes = value.windows(2).filter(|two| two[0].is_ascii_digit() != two[1].is_ascii_digit()).count();
    let scrambled = std::str::from_utf8(value).is_ok_and(is_scrambled);
    letters > 0 && (scrambled || digits * 12 >= value.len() && changes >= 3)
}

fn is_url_password(value: &str) -> bool {
    let low = value.to_ascii_lowercase();
    let sample = ["password", "pass", "pwd", "secret", "user", "passwd", "token"].contains(&&*low);
    let placeholders =
        ["example", "xxxx", "placeholder", "changeme", "${", "{{", "****", "....", "process.", "$("];
    let code = value.starts_with(['{', '%', '*', '[', '<'])
        || value.starts_with('$') && !value.bytes().any(|b| b.is_ascii_digit());
    value.len() >= 3
        && !sample
        && !code
        && entropy(value.as_bytes()) >= 1.5
        && !placeholders.iter().any(|word| low.contains(word))
}

/// Finds keys written as arrays of their 64 bytes.
fn key_arrays(text: &str, hits: &mut Vec<RuleHit>) {
    const STEP: usize = 120;
    let bytes = text.as_bytes();
    let part = |b: u8| b.is_ascii_digit() || matches!(b, b',' | b' ' | b'\n' | b'\r' | b'\t');
    let mut at = STEP;
    while let Some(&b) = bytes.get(at) {
        if !b.is_ascii_digit() && b != b',' && b != b' ' && b != b'\n' {
            at += STEP;
            continue;
        }
        let before = bytes[..at].iter().rev().take(600).take_while(|b| part(**b)).count();
        let after = bytes[at..].iter().take(1200).take_while(|b| part(**b)).count();
        let range = at - before..at + after;
        let bracketed =
            range.start > 0 && bytes[range.start - 1] == b'[' && bytes.get(range.end) == Some(&b']');
        if bracketed && is_key_array(&text[range.clone()]) {
            hits.push(hit(range.start - 1..range.end + 1, FIRST_CAREFUL_RANK - 1, "key-array".into()));
        }
        at += after.max(STEP);
    }
}

fn is_key_array(list: &str) -> bool {
    let numbers: Option<Vec<u8>> = list.split(',').map(|n| n.trim().parse().ok()).collect();
    numbers.is_some_and(|numbers| numbers.len() == 64 && entropy(&numbers) >= 4.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rules_are_valid() {
        for rule in PATTERNS {
            assert!(!compile_pattern(rule).is_match(b""), "{} matches everything", rule.name);
            assert!(!rule.words.is_empty(), "{} is never tried", rule.name);
        }
        for token in TOKENS {
            assert!(token.min_len >= 10 && !token.prefixes.is_empty(), "{}", token.name);
        }
        for kind in
            [SecretKind::Password, SecretKind::Secret, SecretKind::Key, SecretKind::Service, SecretKind::Data]
        {
            assert!(is_rule(kind.rule()));
        }
    }

    #[test]
    fn common_names_announce_no_secret() {
        for name in ["", "content", "sessionId", "tool_use_id", "backupFileName"] {
            assert!(is_common(name.as_bytes()) && !secret_search().names.is_match(name), "{name}");
        }
        for name in ["password", "apiKey", "auth_token"] {
            assert!(may_name_secret(name.as_bytes()), "{name}");
        }
    }

    fn found(text: &str) -> Vec<&str> {
        let mut hits = Vec::new();
        secret_search().find(text, &mut hits);
        super::super::merge_overlapping(hits).into_iter().map(|hit| &text[hit.range]).collect()
    }

    #[test]
    fn long_secrets_are_found_whole() {
        let long = "a1B2c3D4".repeat(150);
        assert_eq!(found(&format!("x ghp_{long} y")), [format!("ghp_{long}")]);
        assert_eq!(found(&format!("MY_TOKEN={long}\nx")), [&*long]);
        assert_eq!(found(&format!("{{\\\"password\\\":\\\"{long}\\\"}}")), [&*long]);
    }

    #[test]
    fn colours_hide_no_secret() {
        let value = "Zk3vQ8rT1xW5yB7nM2pL4sD6";
        let token = format!("ghp_{value}aB3dE5gH7jK9");
        let colours = [
            "\x1b[31m",
            "\x1b[1;38;2;255;100;0m",
            r"\u001b[31m",
            r"\x1b[0;1m",
            r"\033[2m",
            r"\e[1m",
            "^[[4m",
        ];
        for colour in colours {
            let coloured = token.replacen("8r", &format!("8{colour}r"), 1);
            for (text, secret) in [
                (format!("DB_PASSWORD={colour}{value}{colour} x"), value),
                (format!("{colour}DB_PASSWORD{colour}={colour}{value}"), value),
                (format!("DB_PASSWORD{colour}: {colour}\"{value}\"{colour}"), value),
                (format!("see {colour}{token}{colour} x"), &*token),
                (format!("see {coloured}{colour} x"), &*coloured),
            ] {
                let found = found(&text);
                assert!(found.len() == 1 && found[0].contains(secret), "{found:?} in {text:?}");
                // Raw control sequences are kept.
                assert!(!colour.starts_with('\x1b') || found == [secret], "{found:?} in {text:?}");
            }
        }
    }

    #[test]
    fn file_extension_is_not_part_of_a_token() {
        let token = "glpat-Zk3vQ8rT1xW5yB7nM2pL4sD6";
        assert_eq!(found(&format!("agent-{token}.jsonl")), [token]);
        assert_eq!(found(&format!("{token}.01.a1b2c3d4e")), [format!("{token}.01.a1b2c3d4e")]);
    }

    #[test]
    fn keys_written_as_byte_arrays_are_found() {
        let bytes: Vec<String> = (0..64_u32).map(|n| (n * 37 % 256).to_string()).collect();
        let list = format!("[{}]", bytes.join(","));
        assert_eq!(found(&format!("key {list} end")), [&*list]);
        let zeros = format!("[{}]", ["0"; 64].join(", "));
        assert!(found(&zeros).is_empty());
    }
}
