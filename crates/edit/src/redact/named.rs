//! Values that are secret because of their name: settings, fields, flags, attributes.
//!
//! `DB_PASSWORD=…`, `"clientSecret": "…"`, `--token …`, `<add key="ApiKey" value="…"/>`. A value must be replaced
//! whole or not at all, so most of this code finds the end of a value: the closing quote, or else a space or a
//! character that starts something new.

use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;

use super::MARK;
use super::search::is_word_start;
use super::value::{SecretName, is_secret};

/// The kind of secret that a name announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretKind {
    /// A password: short, of any characters.
    Password,
    /// A secret or token.
    Secret,
    /// A key, which may also be the key of a map or table.
    Key,
    /// A value of a service whose keys have no recognisable form.
    Service,
    /// Base64 of a key or certificate.
    Data,
}

impl SecretKind {
    pub(super) fn rule(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Secret => "assignment",
            Self::Key => "key",
            Self::Service => "service-key",
            Self::Data => "key-data",
        }
    }
}

/// Words that occur in names of secrets.
pub(super) const WORDS: &[&str] = &[
    "pass",
    "pwd",
    "pw",
    "kennwort",
    "contrase",
    "contraseña",
    "senha",
    "secret",
    "token",
    "credential",
    "creds",
    "_key",
    "-key",
    ".key",
    "apikey",
    "accesskey",
    "authkey",
    "privatekey",
    "privkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "licensekey",
    "sharedkey",
    "storagekey",
    "accountkey",
    "servicekey",
    "clientkey",
    "appkey",
    "key-data",
    "certificate-data",
    "authority-data",
    "salt",
    "pepper",
    "webhook_url",
    "_auth",
    "masterauth",
    "psk",
    "verifier",
    // Names of several words.
    "api key",
    "secret key",
    "access key",
    "hmac key",
    "signing key",
    "encryption key",
    "master key",
    "subscription key",
    "license key",
    "otp seed",
    "otp_seed",
    "backup code",
    "backup_code",
    "recovery code",
    "recovery_code",
    // Passwords in other languages.
    "parola",
    "clave",
    "heslo",
    "haslo",
    "hasło",
    "lösenord",
    "wachtwoord",
    "пароль",
    "Пароль",
    "ПАРОЛЬ",
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "비밀번호",
];

/// Words for passwords with non-ASCII letters.
const FOREIGN: [&str; 10] =
    ["hasło", "lösenord", "пароль", "Пароль", "ПАРОЛЬ", "密码", "密碼", "口令", "パスワード", "비밀번호"];

/// Services whose keys have no recognisable form.
pub(super) const SERVICES: &[&str] = &[
    "adafruit",
    "adobe",
    "airtable",
    "algolia",
    "alibaba",
    "amplitude",
    "artifactory",
    "asana",
    "atlassian",
    "auth0",
    "beamer",
    "bintray",
    "bitbucket",
    "bittrex",
    "cloudant",
    "cloudflare",
    "codecov",
    "cohere",
    "coinbase",
    "confluence",
    "confluent",
    "contentful",
    "datadog",
    "dd_api",
    "dd_app",
    "deepgram",
    "deepseek",
    "discord",
    "droneci",
    "dropbox",
    "elevenlabs",
    "etsy",
    "facebook",
    "fastly",
    "finicity",
    "finnhub",
    "firebase",
    "flickr",
    "freshbooks",
    "gitter",
    "gocardless",
    "heroku",
    "hubspot",
    "ibm_",
    "intercom",
    "jenkins",
    "jfrog",
    "jira",
    "kraken",
    "kucoin",
    "launchdarkly",
    "linear_",
    "linkedin",
    "linked_in",
    "lob_",
    "looker",
    "mailchimp",
    "mailgun",
    "mattermost",
    "meraki",
    "messagebird",
    "message_bird",
    "mistral",
    "netlify",
    "new_relic",
    "new-relic",
    "newrelic",
    "nytimes",
    "okta",
    "pagerduty",
    "plaid",
    "private_ai",
    "privateai",
    "pusher",
    "rapidapi",
    "sendbird",
    "sentry",
    "snyk",
    "softlayer",
    "sonar",
    "sourcegraph",
    "splunk",
    "spotify",
    "squarespace",
    "sumo",
    "tavily",
    "telegram",
    "travis",
    "trello",
    "twilio",
    "twitch",
    "twitter",
    "vonage",
    "weatherapi",
    "yandex",
    "zendesk",
];

/// The maximum length of a name on each side of its word.
const REACH: usize = 48;

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')
}

/// Returns the range of the name that contains a word.
pub(super) fn name_around(bytes: &[u8], word: Range<usize>) -> Range<usize> {
    let before = bytes[..word.start].iter().rev().take(REACH).take_while(|b| is_name(**b)).count();
    let after = bytes[word.end..].iter().take(REACH).take_while(|b| is_name(**b)).count();
    let (mut start, mut end) = (word.start - before, word.end + after);
    // The letter of an escape is not part of the name.
    if start > 0 && bytes[start - 1] == b'\\' && start < word.start && b"nrt".contains(&bytes[start]) {
        start += 1;
    }
    // Nor is the end of a terminal colour sequence.
    if start > 0 && matches!(bytes[start - 1], b'[' | b';') {
        let digits = bytes[start..word.start].iter().take_while(|b| b.is_ascii_digit()).count();
        start += if bytes[start..word.start].get(digits) == Some(&b'm') { digits + 1 } else { 0 };
    }
    while end > word.end && matches!(bytes[end - 1], b'.' | b'-') {
        end -= 1;
    }
    start..end
}

/// Returns the kind of secret that a name announces, if any.
pub(super) fn kind_of(name: &str) -> Option<SecretKind> {
    let low = name.to_ascii_lowercase();
    let low = low.trim_start_matches(['-', '.']);
    let squeezed: String = low.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let has = |words: &[&str]| words.iter().any(|word| squeezed.contains(word));
    if ["key-data", "certificate-data", "authority-data"].iter().any(|end| low.ends_with(end)) {
        return Some(SecretKind::Data);
    }
    let parts = || low.split(|c: char| !c.is_ascii_alphanumeric());
    if is_harmless(name, low) {
        return None;
    }
    const OWN: [&str; 9] = ["pass", "pw", "psk", "passe", "parola", "clave", "heslo", "haslo", "masterauth"];
    if has(&["passw", "passphrase", "passcode", "kennwort", "contrase", "pwd", "senha", "wachtwoord"])
        || parts().any(|part| OWN.contains(&part))
        || FOREIGN.iter().any(|word| low.contains(word))
        || squeezed.ends_with("pw") && squeezed.len() > 2
        || squeezed.ends_with("pass") && !squeezed.ends_with("bypass") && !squeezed.ends_with("compass")
    {
        return Some(SecretKind::Password);
    }
    const SECRET: [&str; 32] = [
        "hmackey",
        "subscriptionkey",
        "otpseed",
        "backupcode",
        "recoverycode",
        "codeverifier",
        "secret",
        "token",
        "apikey",
        "accesskey",
        "authkey",
        "privatekey",
        "privkey",
        "signingkey",
        "encryptionkey",
        "masterkey",
        "servicekey",
        "webhookkey",
        "accountkey",
        "licensekey",
        "clientkey",
        "sharedkey",
        "storagekey",
        "credential",
        "creds",
        "dbkey",
        "databasekey",
        "adminkey",
        "fernetkey",
        "jwtkey",
        "sessionkey",
        "appkey",
    ];
    if has(&SECRET) || low.ends_with("_auth") && low.len() > 5 {
        return Some(SecretKind::Secret);
    }
    if is_service_name(low) {
        return Some(SecretKind::Service);
    }
    let key = parts().next_back().is_some_and(|last| matches!(last, "key" | "salt"))
        || name.ends_with("Key") && name.len() > 3;
    let alone = matches!(low, "salt" | "pepper") || low == "key" && name.starts_with("--");
    let named = key && parts().count() > 1 || name.ends_with("Key") || alone;
    (named && !NON_SECRET_KEYS.iter().any(|head| low.contains(head))).then_some(SecretKind::Key)
}

/// Words that mark a key as not secret.
const NON_SECRET_KEYS: [&str; 18] = [
    "public",
    "primary",
    "foreign",
    "cache",
    "idempot",
    "partition",
    "sort",
    "object",
    "row",
    "unique",
    "known",
    "host",
    "group",
    "route",
    "query",
    "react",
    "dedup",
    "restore",
];

fn is_service_name(low: &str) -> bool {
    static FINDER: OnceLock<AhoCorasick> = OnceLock::new();
    let finder = FINDER.get_or_init(|| AhoCorasick::new(SERVICES).expect("few words"));
    let begins = |at: usize| at == 0 || !low.as_bytes()[at - 1].is_ascii_alphanumeric();
    finder.find_overlapping_iter(low).any(|found| begins(found.start()))
}

/// Returns whether a name is harmless, whatever it starts with.
fn is_harmless(name: &str, low: &str) -> bool {
    const TAILS: [&str; 43] = [
        "page",
        "address",
        "mint",
        "hash",
        "name",
        "path",
        "file",
        "url",
        "limit",
        "count",
        "type",
        "label",
        "expir",
        "expiry",
        "cursor",
        "title",
        "length",
        "size",
        "field",
        "param",
        "header",
        "endpoint",
        "uri",
        "policy",
        "arn",
        "alias",
        "regex",
        "pattern",
        "placeholder",
        "usage",
        "budget",
        "index",
        "tokens",
        "prefix",
        "format",
        "symbol",
        "program",
        "version",
        "output",
        "message",
        "description",
        "status",
        "error",
    ];
    const HEADS: [&str; 7] =
        ["tokeniz", "nextpage", "page_", "cursor", "continuation", "public_token", "publickey"];
    let camel_id =
        name.ends_with("Id") || name.ends_with("ID") && name.contains(|c: char| c.is_ascii_lowercase());
    let id = (low.ends_with("_id") || low.ends_with("-id") || camel_id)
        && !low.ends_with("secret_id")
        && !is_service_name(low);
    let last = TAILS.iter().any(|tail| low.ends_with(tail));
    let webhook = low.ends_with("webhook_url");
    (last && !webhook) || id || HEADS.iter().any(|head| low.contains(head))
}

/// The range of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ValueSpan {
    pub(super) range: Range<usize>,
    /// The value is quoted, or it is the whole text.
    pub(super) quoted: bool,
}

/// The progress of the search for names and values in a text.
#[derive(Debug, Default)]
pub(super) struct NameProgress {
    /// The end of the last name.
    last_name_end: usize,
    /// The end of the last value.
    last_value_end: usize,
    /// The number of consecutive names inside values that were read already.
    n_nested: usize,
}

impl NameProgress {
    /// Returns the maximum length of a name's value. It keeps a text with names inside the values of others from being
    /// read once for each of them.
    fn limit(&mut self, name: &Range<usize>) -> usize {
        self.n_nested = if name.start < self.last_value_end { self.n_nested + 1 } else { 0 };
        if self.n_nested > 8 { 256 } else { usize::MAX }
    }
}

/// Finds the secret value of a name: its range and the kind of the name.
pub(super) fn find(
    text: &str,
    word: Range<usize>,
    progress: &mut NameProgress,
) -> Option<(Range<usize>, SecretKind)> {
    let bytes = text.as_bytes();
    if word.start < progress.last_name_end || !may_follow(bytes, word.end) {
        return None;
    }
    let name = name_around(bytes, word);
    progress.last_name_end = name.end;
    // A redaction mark contains a name too; it has a value only if `=` or `:` follows.
    let marked = bytes[..name.start].ends_with(MARK.as_bytes()) && bytes.get(name.end) == Some(&b']');
    if marked && !matches!(bytes.get(name.end + 1), Some(b'=' | b':')) {
        return None;
    }
    // Test runners print `PASS:`.
    if &text[name.clone()] == "PASS" && bytes.get(name.end) == Some(&b':') {
        return None;
    }
    let kind = kind_of(&text[name.clone()])?;
    let limit = progress.limit(&name);
    let value = value_of(text, &name, kind, limit)?;
    progress.last_value_end = progress.last_value_end.max(value.range.end);
    let range = text.floor_char_boundary(value.range.start)..text.ceil_char_boundary(value.range.end);
    let named = SecretName { kind, name: &text[name], quoted: value.quoted };
    is_secret(&named, &text[range.clone()]).then_some((range, kind))
}

/// Returns whether a value may follow a word: a fast check, since most words are in prose.
fn may_follow(bytes: &[u8], end: usize) -> bool {
    let rest = &bytes[end..bytes.len().min(end + REACH)];
    let after = rest.iter().copied().find(|b| !is_name(*b));
    after.is_some_and(|b| b"\"'`\\])(=:>?|, \t\n\r&*\xe2\xef".contains(&b))
}

/// Returns the range of a name's value.
fn value_of(text: &str, name: &Range<usize>, kind: SecretKind, limit: usize) -> Option<ValueSpan> {
    let bytes = text.as_bytes();
    let start = value_start(bytes, name, kind)?;
    let value = value_at(&bytes[..bytes.len().min(start.saturating_add(limit))], start, name.start)?;
    (!value.range.is_empty()).then_some(value)
}

/// Skips up to `most` bytes of a set.
fn skip(bytes: &[u8], at: usize, most: usize, set: &[u8]) -> usize {
    at + bytes[at..].iter().take(most).take_while(|b| set.contains(b)).count()
}

/// Returns the start of the value after the separator that follows the name.
fn value_start(bytes: &[u8], name: &Range<usize>, kind: SecretKind) -> Option<usize> {
    let closed = skip(bytes, name.end, 8, b"\"'`\\])*");
    let quoted = closed > name.end && bytes[name.end..closed].iter().any(|b| b"\"'`".contains(b));
    let at = skip(bytes, closed, 8, b" \t");
    let rest = &bytes[at..];
    const SIGNS: [&[u8]; 16] = [
        b"=>",
        b":-",
        b"->",
        b":=",
        b"?=",
        b"===",
        b"==",
        b"!==",
        b"!=",
        b"+=",
        b"::",
        b"||=",
        b"=",
        b":",
        // An arrow, and the full-width colon of Chinese and Japanese texts.
        b"\xe2\x86\x92",
        b"\xef\xbc\x9a",
    ];
    // In a shell variable only a default is a value.
    let variable = bytes[..name.start].ends_with(b"${");
    if variable && !rest.starts_with(b":-") && !rest.starts_with(b":=") {
        return None;
    }
    if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(sign)) {
        let after = at + sign.len();
        // A type may precede the value.
        let typed = (*sign == b":").then(|| value_after_type(bytes, after)).flatten();
        return Some(typed.unwrap_or(after));
    }
    let tag = name.start > 0 && matches!(bytes[name.start - 1], b'<' | b':');
    if (tag || quoted) && rest.first() == Some(&b'>') {
        return Some(at + 1);
    }
    // A fallback value.
    if rest.starts_with(b"||") || rest.starts_with(b"??") {
        let next = skip(bytes, at + 2, 4, b" \t\n");
        return matches!(bytes.get(next), Some(b'"' | b'\'' | b'`' | b'\\')).then_some(next);
    }
    if let Some(value) = value_in_attribute(bytes, closed) {
        return Some(value);
    }
    let called = if quoted { value_in_call(bytes, name, at) } else { value_in_setter(bytes, name) };
    if called.is_some() {
        return called;
    }
    if let Some(value) = in_row(bytes, name, at) {
        return Some(value);
    }
    let flag = bytes[name.start] == b'-';
    if flag && at > name.end {
        let value = bytes.get(at).is_some_and(|b| !matches!(b, b'-' | b'<' | b'[' | b'|' | b'\n'));
        return value.then_some(at);
    }
    if at > closed && kind != SecretKind::Service && (is_line(bytes, name, at) || is_setting(bytes, name, at))
    {
        return Some(at);
    }
    let dash = at > closed && rest.starts_with(b"- ") && kind == SecretKind::Secret;
    if dash {
        return Some(at + 2);
    }
    let quoted_value = matches!(kind, SecretKind::Password | SecretKind::Secret)
        && at > closed
        && matches!(bytes.get(at), Some(b'"' | b'\'' | b'`'));
    quoted_value.then_some(at)
}

/// Returns the start of a value in a call whose previous argument is the name or a selector for it:
/// `setdefault("PASSWORD", "…")`, `fill('#password', '…')`, `get('#password').type('…')`.
fn value_in_call(bytes: &[u8], name: &Range<usize>, at: usize) -> Option<usize> {
    const WRITES: [&[u8]; 5] = [b".type(", b".fill(", b".send_keys(", b".sendKeys(", b".setValue("];
    let rest = &bytes[at..];
    let next = if rest.first() == Some(&b',') {
        let from = name.start.saturating_sub(40);
        let quote = bytes[from..name.start].iter().rposition(|b| matches!(b, b'"' | b'\''))?;
        let opened = bytes[..from + quote].iter().rev().find(|b| !b"\"'\\".contains(b));
        skip(bytes, (opened == Some(&b'(')).then_some(at + 1)?, 4, b" \t\n")
    } else {
        at + WRITES.iter().find(|call| rest.starts_with(call))?.len()
    };
    matches!(bytes.get(next), Some(b'"' | b'\'' | b'\\')).then_some(next)
}

/// Returns the start of a value that a setter receives: `setPassword("…")`, `.password('…')`.
fn value_in_setter(bytes: &[u8], name: &Range<usize>) -> Option<usize> {
    let open = bytes.get(name.end..).filter(|rest| rest.starts_with(b"(")).map(|_| name.end + 1)?;
    let word = &bytes[name.clone()];
    let word = word.rsplit(|b| *b == b'.').next().unwrap_or(word);
    let member =
        word.len() < name.len() || name.start > 0 && matches!(bytes[name.start - 1], b'.' | b'>' | b':');
    let sets = [&b"set"[..], b"with", b"use"]
        .iter()
        .any(|verb| word.len() > verb.len() && word[..verb.len()].eq_ignore_ascii_case(verb));
    const OWN: [&[u8]; 6] = [b"password", b"token", b"apikey", b"api_key", b"secret", b"passphrase"];
    let own = member && OWN.iter().any(|own| word.eq_ignore_ascii_case(own));
    let quote = matches!(bytes.get(open), Some(b'"' | b'\'' | b'\\'));
    ((sets || own) && quote).then_some(open)
}

/// Returns the start of a value in the next table column: one word with a digit or symbol, not a description.
fn in_row(bytes: &[u8], name: &Range<usize>, at: usize) -> Option<usize> {
    let before = bytes[..name.start].iter().rev().take(16).find(|b| !b" \t*`\"'".contains(b));
    if before != Some(&b'|') || bytes.get(at) != Some(&b'|') {
        return None;
    }
    let cell = bytes[at + 1..].iter().take(1300).take_while(|b| !matches!(b, b'|' | b'\n')).count();
    let cell = bytes[at + 1..at + 1 + cell].trim_ascii();
    let unusual = |b: &u8| b.is_ascii_digit() || b"!#$%^&+=?@~".contains(b);
    (cell.iter().any(unusual) && !cell.iter().any(u8::is_ascii_whitespace)).then_some(at + 1)
}

/// Returns whether a joined name is followed, from `at` on, by a value that is not a word: `auth_token …` within
/// other text.
fn is_setting(bytes: &[u8], name: &Range<usize>, at: usize) -> bool {
    let word = &bytes[name.clone()];
    let joined = word.iter().any(|b| matches!(b, b'_' | b'.'))
        || [&b"bindpw"[..], b"rootpw", b"requirepass", b"masterauth"].contains(&word);
    let value = &bytes[at..at + bytes[at..].iter().take(256).take_while(|b| !ends_word(**b)).count()];
    let count = |is: fn(&u8) -> bool| value.iter().filter(|b| is(b)).count();
    let signs = count(|b| b"!#$%^&*+=?@~".contains(b));
    let mixed = count(u8::is_ascii_digit) > 0 && count(u8::is_ascii_alphabetic) > 0;
    joined && at == name.end + 1 && mixed && (value.len() >= 20 || value.len() >= 8 && signs > 0)
}

fn ends_word(b: u8) -> bool {
    b <= b' ' || b"\"'`<>\\()[]{},;".contains(&b)
}

/// Returns whether a line has only a name and, from `at` on, a value.
fn is_line(bytes: &[u8], name: &Range<usize>, at: usize) -> bool {
    let before = bytes[..name.start].iter().rev().take_while(|b| **b != b'\n').take(24);
    let rest = bytes[at..].iter().take(REACH * 8).take_while(|b| **b != b'\n');
    let blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\r');
    rest.clone().count() >= 8
        && before.clone().all(|b| blank(b) || matches!(b, b'+' | b'>'))
        && !rest.skip_while(|b| !blank(b)).any(|b| !blank(b))
}

/// Returns the start of a value after a type and an equals sign: `: &str = "…"`.
fn value_after_type(bytes: &[u8], at: usize) -> Option<usize> {
    let is_type = |b: &u8| b.is_ascii_alphanumeric() || b"&_<>[], |?.'\t :".contains(b);
    let end = at + bytes[at..].iter().take(40).take_while(|b| is_type(b)).count();
    let sign = bytes.get(end) == Some(&b'=') && bytes[at..end].iter().any(u8::is_ascii_alphabetic);
    let after = sign.then(|| skip(bytes, end + 1, 3, b" \t"))?;
    matches!(bytes.get(after), Some(b'"' | b'\'' | b'`' | b'\\')).then_some(after)
}

/// Returns the start of a value labelled `value`: in an attribute, or in the field after the one with the name.
fn value_in_attribute(bytes: &[u8], at: usize) -> Option<usize> {
    if let Some(value) = value_in_default(bytes, at) {
        return Some(value);
    }
    let at = skip(bytes, at, 24, b" \t\r\n+,\"'\\/><|");
    let word = bytes.get(at..at + 5).filter(|word| word.eq_ignore_ascii_case(b"value"))?;
    let at = skip(bytes, at + word.len(), 8, b"\"'\\ \t");
    matches!(bytes.get(at), Some(b'=' | b':' | b'>')).then_some(at + 1)
}

/// Returns the start of the default of a variable: `variable "db_password" { default = "…" }`.
fn value_in_default(bytes: &[u8], at: usize) -> Option<usize> {
    let open = skip(bytes, at, 4, b" \t");
    let block = bytes.get(open..bytes.len().min(open + 400)).filter(|block| block.starts_with(b"{"))?;
    let block = &block[..memchr::memchr(b'}', block).unwrap_or(block.len())];
    let word = memchr::memmem::find(block, b"default")? + b"default".len();
    let sign = skip(block, word, 16, b" \t");
    (block.get(sign) == Some(&b'=')).then_some(open + sign + 1)
}

/// Returns the start of a value that is alone on one of the next lines.
fn on_next_line(bytes: &[u8], at: usize) -> Option<usize> {
    let next = skip(bytes, at, 40, b" \t\r\n+>");
    let word = bytes[next..].iter().take(256).take_while(|b| !ends_word(**b)).count();
    let value = &bytes[next..next + word];
    let count = |is: fn(&u8) -> bool| value.iter().filter(|b| is(b)).count();
    let unusual =
        count(|b| b"!#$%^&*+=?@~".contains(b)) > 0 || word >= 20 && count(|b| b"_-./:".contains(b)) == 0;
    let mixed = count(u8::is_ascii_digit) > 0 && count(u8::is_ascii_alphabetic) > 0;
    let after = bytes[next + word..].iter().find(|b| !matches!(b, b' ' | b'\t' | b'\r'));
    let alone = after.is_none_or(|b| b"\n\"'`<".contains(b));
    (word >= 8 && unusual && mixed && alone && !value.ends_with(b":")).then_some(next)
}

/// Parses the value of a name that starts at `at`.
fn value_at(bytes: &[u8], at: usize, name: usize) -> Option<ValueSpan> {
    let mut at = skip(bytes, at, 8, b" \t");
    // Markdown emphasis may close after the colon: `**Password:** …`.
    if bytes[at..].starts_with(b"** ") {
        at = skip(bytes, at + 2, 8, b" \t");
    }
    if let Some(b'\r' | b'\n') = bytes.get(at) {
        at = on_next_line(bytes, at)?;
    }
    // In YAML it may be on the next line.
    if let Some(b'|' | b'>') = bytes.get(at) {
        let end = skip(bytes, at + 1, 3, b"-+ \r");
        at = if bytes.get(end) == Some(&b'\n') { skip(bytes, end, 40, b" \t\r\n+") } else { at };
    }
    let prefix = bytes[at..].iter().take(3).take_while(|b| b"bfruBFRU@$".contains(b)).count();
    let open = if matches!(bytes.get(at + prefix), Some(b'"' | b'\'')) { at + prefix } else { at };
    let slashes = bytes[open..].iter().take_while(|b| **b == b'\\').count();
    match bytes.get(open + slashes) {
        Some(&quote @ (b'"' | b'\'' | b'`')) => {
            let run = bytes[open + slashes..].iter().take(3).take_while(|b| **b == quote).count();
            // An empty string.
            if run == 2 {
                return None;
            }
            let start = open + slashes + run;
            Some(ValueSpan { range: start..quoted_end(bytes, start, quote, slashes), quoted: true })
        }
        _ => Some(ValueSpan { range: at..plain_end(bytes, at, name), quoted: false }),
    }
}

/// Returns the end of a quoted value: the next quote with no more backslashes before it than the opening one.
fn quoted_end(bytes: &[u8], start: usize, quote: u8, slashes: usize) -> usize {
    let mut at = start;
    while let Some(end) = memchr::memchr3(quote, b'\n', b'\\', &bytes[at..]).map(|found| at + found) {
        match bytes[end] {
            b'\\' => {
                let run = bytes[end..].iter().take_while(|b| **b == b'\\').count();
                let after = bytes.get(end + run);
                let closes = if slashes == 0 { run.is_multiple_of(2) } else { run <= slashes };
                let line = slashes > 0 && run <= slashes && matches!(after, Some(b'n' | b'r'));
                if after == Some(&quote) && closes || line {
                    return if slashes == 0 { end + run } else { end };
                }
                at = end + run + usize::from(after == Some(&quote));
            }
            _ => return end,
        }
        if at >= bytes.len() {
            break;
        }
    }
    bytes.len()
}

/// Returns the end of an unquoted value.
fn plain_end(bytes: &[u8], start: usize, name: usize) -> usize {
    let line = memchr::memrchr(b'\n', &bytes[name.saturating_sub(400)..name])
        .map_or(name.saturating_sub(400), |at| name.saturating_sub(400) + at + 1);
    let before = &bytes[line..name];
    // A quote opened before the name ends the value.
    let opened = |quote: u8| before.iter().filter(|b| **b == quote).count() % 2 == 1;
    let inside = [opened(b'"'), opened(b'\''), opened(b'`')];
    // So does a bracket.
    let open = |open: u8, close: u8| {
        let count = |b: u8| before.iter().filter(|a| **a == b).count();
        count(open) > count(close)
    };
    let within = [open(b'(', b')'), open(b'[', b']'), open(b'{', b'}')];
    // In a query string other names follow.
    let query = before.last().is_some_and(|b| b"?&".contains(b));
    let lead: &[u8] = before.trim_ascii();
    // In a setting alone on its line, a final `|` is part of the value.
    let alone = lead.is_empty() || [&b"export"[..], b"set", b"-", b"+", b"ENV", b"ARG", b"$"].contains(&lead);
    // Brackets opened inside the value.
    let mut inner = [0_usize; 3];
    let mut at = start;
    while let Some(&b) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        let ends = match b {
            b if b <= b' ' || b == 0x7f => true,
            b'"' => inside[0],
            b'\'' => inside[1],
            b'`' => inside[2],
            b'\\' => next.is_none_or(|next| b"nrt\"'\\u".contains(&next)),
            b'<' => next.is_some_and(|next| next == b'/' || next.is_ascii_alphabetic()),
            b'(' | b'[' | b'{' => {
                inner[bracket(b)] += 1;
                false
            }
            b')' | b']' | b'}' => {
                let own = inner[bracket(b)] > 0;
                inner[bracket(b)] -= usize::from(own);
                !own && within[bracket(b)]
            }
            b'&' => {
                query && begins_name(&bytes[at + 1..])
                    || next == Some(b'&') && bytes.get(at + 2).is_none_or(u8::is_ascii_whitespace)
            }
            b';' | b',' | b'|' => {
                let last = next.is_none_or(|next| next.is_ascii_whitespace() || b"\"'`)]}".contains(&next));
                last && !(alone && b == b'|') || b != b'|' && begins_name(&bytes[at + 1..])
            }
            _ => false,
        };
        if ends {
            break;
        }
        at += 1;
    }
    at
}

/// Returns the index of a kind of bracket.
fn bracket(b: u8) -> usize {
    match b {
        b'(' | b')' => 0,
        b'[' | b']' => 1,
        _ => 2,
    }
}

/// Returns whether another name with a separator starts here.
fn begins_name(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"amp;").unwrap_or(bytes);
    let n = bytes.iter().take(40).take_while(|b| is_name(**b) || matches!(b, b'"' | b'\'' | b' ')).count();
    n > 0 && matches!(bytes.get(n), Some(b'=' | b':'))
}

/// Finds the password in a URL; `sign` is the range of its `://`.
pub(super) fn url_password(text: &str, sign: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let before = sign.start.checked_sub(1).map(|at| bytes[at]);
    // Without a scheme, `//` must start a word.
    let bare = sign.len() == 2;
    let begins = is_word_start(bytes, sign.start) && !before.is_some_and(|b| b":/\\.".contains(&b));
    if bare && !begins || !bare && !before.is_some_and(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let ends = |b: &u8| *b <= b' ' || b"\"'`<>\\".contains(b);
    let rest = &bytes[sign.end..bytes.len().min(sign.end + 4096)];
    // Most URLs have no password, which shows early.
    let first = rest.iter().take(101).position(|b| ends(b) || b":/@".contains(b));
    let colon = first.filter(|at| rest[*at] == b':')?;
    let rest = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
    // Another URL may follow without a space.
    let rest = memchr::memmem::find(rest, b"://").map_or(rest, |next| &rest[..next]);
    if colon >= rest.len() {
        return None;
    }
    let password = colon + 1..memchr::memrchr(b'@', rest).filter(|at| *at > colon + 1)?;
    let host = rest.get(password.end + 1)?;
    if !(host.is_ascii_alphanumeric() || b"[_-$".contains(host)) {
        return None;
    }
    let value = &rest[password.clone()];
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    // The colon introduced a port.
    if digits > 0 && matches!(value.get(digits), Some(b'/' | b'?' | b'#')) && digits <= 5 {
        return None;
    }
    // A path before the `@`: with dots on both sides of the colon, the `@` is more likely part of the path.
    if memchr::memchr(b'/', value).is_some_and(|at| value[..at].contains(&b'.'))
        && rest[..colon].contains(&b'.')
    {
        return None;
    }
    (value.len() >= 3).then(|| sign.end + password.start..sign.end + password.end)
}

/// The maximum distance between the `kind` line of a Kubernetes secret and its values.
pub(super) const KUBE_REACH: usize = 1 << 14;

/// Returns the values of the Kubernetes secret whose kind is declared at `at`.
pub(super) fn kube_values(text: &str, at: usize) -> Vec<Range<usize>> {
    let start = text.floor_char_boundary(at.saturating_sub(KUBE_REACH));
    let end = text.ceil_char_boundary((at + KUBE_REACH).min(text.len()));
    let start = text[start..at].rfind("\n---").map_or(start, |mark| start + mark + 1);
    let end = text[at..end].find("\n---").map_or(end, |mark| at + mark);
    let mut values = Vec::new();
    // The indent of the `data` key while its values are read.
    let mut within: Option<usize> = None;
    let mut line_start = start;
    for line in text[start..end].split_inclusive('\n') {
        let trimmed = line.trim_start_matches(['+', '>', ' ', '\t']);
        let indent = line.len() - trimmed.len();
        let content = trimmed.trim_end();
        if matches!(content, "data:" | "stringData:") {
            within = Some(indent);
        } else if within.is_some_and(|outer| indent <= outer) && !content.is_empty() {
            within = None;
        } else if within.is_some() && !content.is_empty() && !content.starts_with('#') {
            let value = match content.split_once(':') {
                Some((name, value)) if name.bytes().all(is_name) => value.trim_start(),
                _ => content,
            };
            let value = value.split(" #").next().unwrap_or(value).trim_end();
            let value = value.trim_matches(['"', '\'']);
            if value.len() >= 4 && !value.starts_with(['|', '{', '$']) {
                let from = line_start + indent + content.rfind(value).unwrap_or(0);
                values.push(from..from + value.len());
            }
        }
        line_start += line.len();
    }
    values.extend(kube_json(text, start..end));
    values
}

/// Returns the values below `"data"` in JSON.
fn kube_json(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut values = Vec::new();
    for name in ["\"data\"", "\"stringData\""] {
        let Some(at) = text[range.clone()].find(name).map(|at| range.start + at + name.len()) else {
            continue;
        };
        let rest = &text[at..range.end];
        let Some(open) = rest.find('{').filter(|open| rest[..*open].trim() == ":") else { continue };
        let close = rest[open..].find('}').map_or(rest.len(), |close| open + close);
        let mut strings = rest[open..close].match_indices('"').map(|(quote, _)| at + open + quote);
        while let (Some(_), Some(_), Some(from), Some(to)) =
            (strings.next(), strings.next(), strings.next(), strings.next())
        {
            if to - from > 4 {
                values.push(from + 1..to);
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the raw secret value that the first word of a text names.
    fn value(text: &str) -> Option<&str> {
        let low = text.to_ascii_lowercase();
        let word = WORDS.iter().filter_map(|word| Some((low.find(word)?, word.len()))).min()?;
        let name = name_around(text.as_bytes(), word.0..word.0 + word.1);
        let kind = kind_of(&text[name.clone()])?;
        value_of(text, &name, kind, usize::MAX).map(|value| &text[value.range])
    }

    #[test]
    fn values_end_at_their_delimiter() {
        for (text, expected) in [
            ("DB_PASSWORD=Summer2024$extra&more", "Summer2024$extra&more"),
            ("DB_PASSWORD=a=b.c?\nNEXT=1", "a=b.c?"),
            ("?password=abc&user=bob", "abc"),
            ("Server=x;Password=a;b;Trusted=yes", "a;b"),
            ("password: \"it's \\\"mine\\\" 1\" # x", "it's \\\"mine\\\" 1"),
            (r#"{\"password\": \"ab$c\", \"x\": 1}"#, "ab$c"),
            (r"x\nDB_PASSWORD=abc\nNEXT=1", "abc"),
            ("echo \"TOKEN=abc\" > x", "abc"),
            ("TOKEN=ab\"cd'ef", "ab\"cd'ef"),
            ("f(password=abc)", "abc"),
            ("API_KEY=abc)d(e", "abc)d(e"),
            ("--password abc def", "abc"),
            ("--api-key=abc def", "abc"),
            ("<password>a b</password>", "a"),
            ("<add key=\"DbPassword\" value=\"x y\" />", "x y"),
            ("- name: DB_PASSWORD\n  value: abc", "abc"),
            ("const apiKey: string = 'abc';", "abc"),
            ("os.getenv('DB_PASSWORD', 'abc')", "abc"),
            ("password => b'abc',", "abc"),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn url_passwords_may_contain_separators() {
        let password = |text: &str| {
            let sign = text.find("://").expect("text has a URL");
            url_password(text, sign..sign + 3).map(|range| text[range].to_owned())
        };
        assert_eq!(password("postgres://u:p@ss/w:rd@host/db").as_deref(), Some("p@ss/w:rd"));
        assert_eq!(password("https://u:abc@host/a@b").as_deref(), Some("abc@host/a"));
        for none in ["https://host:8080/a@b", "https://user@host/x", "https://host/a:b@c", "http://[::1]:80/"]
        {
            assert_eq!(password(none), None, "{none}");
        }
    }

    #[test]
    fn name_determines_kind_of_secret() {
        assert_eq!(kind_of("DB_PASSWORD"), Some(SecretKind::Password));
        assert_eq!(kind_of("clientSecret"), Some(SecretKind::Secret));
        assert_eq!(kind_of("APP_KEY"), Some(SecretKind::Secret));
        assert_eq!(kind_of("THING_KEY"), Some(SecretKind::Key));
        assert_eq!(kind_of("client-key-data"), Some(SecretKind::Data));
        for none in
            ["public_key", "max_tokens", "nextPageToken", "token_count", "tokenAddress", "monkey", "key"]
        {
            assert_eq!(kind_of(none), None, "{none}");
        }
    }

    #[test]
    fn all_values_of_a_kubernetes_secret_are_found() {
        let text =
            "apiVersion: v1\ndata:\n  a: aGVsbG8=\n  b: \"d29ybGQ=\"\nkind: Secret\nmetadata:\n  name: x\n";
        let values: Vec<&str> = kube_values(text, 50).into_iter().map(|range| &text[range]).collect();
        assert_eq!(values, ["aGVsbG8=", "d29ybGQ="]);
        let json = r#"{"kind": "Secret", "data": {"a": "aGVsbG8=", "b": "d29ybGQ="}}"#;
        let values: Vec<&str> = kube_values(json, 5).into_iter().map(|range| &json[range]).collect();
        assert_eq!(values, ["aGVsbG8=", "d29ybGQ="]);
    }
}
