//! Replaces names of people and machines by stable pseudonyms.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};
use regex::bytes::{Regex, RegexBuilder};

use super::{RuleHit, char_aligned};

/// The names that were seen.
#[derive(Debug, Default)]
pub(super) struct People {
    /// Owners of these sessions; their names are replaced everywhere.
    users: BTreeSet<String>,
    /// Other users with a home directory; their names are replaced in paths only if the owner is known.
    homes: BTreeSet<String>,
    /// A session ran below a home directory, so its owner is known.
    owner_is_known: bool,
    hosts: BTreeSet<String>,
    /// The search for all names, and for each name its kind and its replacement.
    finder: Option<(AhoCorasick, Vec<(&'static str, String)>)>,
}

/// Account names that identify nobody.
const GENERIC_NAMES: [&str; 25] = [
    "user",
    "users",
    "username",
    "root",
    "ubuntu",
    "runner",
    "app",
    "node",
    "shared",
    "public",
    "name",
    "you",
    "me",
    "dev",
    "vscode",
    "codespace",
    "codespaces",
    "admin",
    "home",
    "default",
    "guest",
    "test",
    "project",
    "projects",
    "claude",
];

fn cached_regex(cell: &'static OnceLock<Regex>, text: &str) -> &'static Regex {
    cell.get_or_init(|| RegexBuilder::new(text).unicode(false).build().expect("a pattern"))
}

fn home_regex() -> &'static Regex {
    static CELL: OnceLock<Regex> = OnceLock::new();
    cached_regex(
        &CELL,
        r"(?:^|[^A-Za-z0-9_)\]}.-])(?:/home/|/Users/|[A-Za-z]:\\{1,16}(?i:users)\\{1,16}|[A-Za-z]:/Users/)([A-Za-z0-9\x80-\xff][A-Za-z0-9._\x80-\xff-]{1,40})",
    )
}

fn prompt_regex() -> &'static Regex {
    static CELL: OnceLock<Regex> = OnceLock::new();
    cached_regex(&CELL, r"\b([a-z_][a-z0-9_.-]{1,31})@([A-Za-z][A-Za-z0-9-]{2,40})(?::|\s+[~/%$])")
}

fn email_regex() -> &'static Regex {
    static CELL: OnceLock<Regex> = OnceLock::new();
    cached_regex(&CELL, r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,18}\b")
}

/// Returns a pseudonym that is the same for the same name.
fn placeholder(kind: &str, name: &str) -> String {
    let hash = xxhash_rust::xxh3::xxh3_64(name.to_ascii_lowercase().as_bytes());
    format!("{kind}-{:04x}", hash & 0xffff)
}

fn is_placeholder(name: &str) -> bool {
    let hex = |rest: &str| rest.len() == 4 && rest.bytes().all(|b| b.is_ascii_hexdigit());
    ["user-", "host-", "mail-"].iter().any(|kind| name.strip_prefix(kind).is_some_and(hex))
}

impl People {
    pub(super) fn add_known(&mut self, users: &[String], hosts: &[String]) {
        let users = users.iter().filter(|name| is_personal_name(name));
        self.users.extend(users.cloned());
        self.hosts.extend(hosts.iter().filter(|name| name.len() >= 3 && *name != "localhost").cloned());
    }

    /// Records names; `is_cwd` marks the text as a working directory of the user.
    pub(super) fn scan(&mut self, text: &str, is_cwd: bool) {
        for found in home_regex().captures_iter(text.as_bytes()).filter_map(|found| found.get(1)) {
            let name = text[char_aligned(text, found.range())].trim_end_matches('.');
            self.owner_is_known |= is_cwd;
            let known = if is_cwd { &mut self.users } else { &mut self.homes };
            if is_personal_name(name) && !known.contains(name) {
                known.insert(name.to_owned());
            }
        }
        for found in prompt_regex().captures_iter(text.as_bytes()) {
            let (Some(user), Some(host)) = (found.get(1), found.get(2)) else { continue };
            let text = |range| &text[char_aligned(text, range)];
            let user = text(user.range());
            if (self.users.contains(user) || self.homes.contains(user)) && !is_placeholder(text(host.range()))
            {
                self.hosts.insert(text(host.range()).to_owned());
            }
        }
    }

    pub(super) fn build_finder(&mut self) {
        // A session on another drive, or in a directory such as /srv, names its owner only in the paths it mentions.
        if !self.owner_is_known {
            self.users.append(&mut self.homes);
        }
        let homes = self.homes.iter().filter(|name| !self.users.contains(*name));
        let homes = homes.map(|name| (name.clone(), "home"));
        let users = self.users.iter().map(|name| (name.clone(), "user")).chain(homes);
        let hosts = self.hosts.iter().map(|name| (name.clone(), "host"));
        let (names, replacements): (Vec<_>, Vec<_>) = users
            .chain(hosts)
            .map(|(name, kind)| (name.clone(), (kind, placeholder(kind_of(kind), &name))))
            .unzip();
        let mut finder = AhoCorasickBuilder::new();
        finder.match_kind(MatchKind::LeftmostLongest).ascii_case_insensitive(true);
        let finder = if names.is_empty() { None } else { finder.build(&names).ok() };
        self.finder = finder.map(|finder| (finder, replacements));
    }

    pub(super) fn find(&self, text: &str) -> Vec<RuleHit> {
        let mut hits = Vec::new();
        if memchr::memchr(b'@', text.as_bytes()).is_some() {
            for found in email_regex().find_iter(text.as_bytes()) {
                let range = char_aligned(text, found.range());
                let address = &text[range.clone()];
                if is_personal_email(address) {
                    let replacement = placeholder("mail", address) + "@example.com";
                    hits.push(RuleHit {
                        range,
                        rule: Cow::Borrowed("mail"),
                        replacement,
                        rank: 20_000,
                        continued: false,
                    });
                }
            }
        }
        let Some((finder, replacements)) = &self.finder else { return hits };
        for found in finder.find_iter(text) {
            let bytes = text.as_bytes();
            let continues = bytes.get(found.end()).is_some_and(|b| b.is_ascii_alphanumeric() || *b >= 0x80);
            if continues || !is_name_start(bytes, found.start()) {
                continue;
            }
            let (rule, replacement) = replacements[found.pattern().as_usize()].clone();
            if rule == "home" && !is_in_home_path(&text[..found.start()]) {
                continue;
            }
            hits.push(RuleHit {
                range: found.range(),
                rule: Cow::Borrowed(kind_of(rule)),
                replacement,
                rank: 20_001,
                continued: false,
            });
        }
        hits
    }
}

/// Returns the kind of pseudonym; a home directory gets that of its user.
fn kind_of(kind: &'static str) -> &'static str {
    if kind == "home" { "user" } else { kind }
}

/// Returns whether a text ends with the path of the directory that contains home directories. Each level of JSON inside
/// a string doubles the backslashes of a Windows path.
fn is_in_home_path(before: &str) -> bool {
    let prefixes = ["/home/", "/Users/", "-home-", "-Users-", "%2Fhome%2F", "%2FUsers%2F"];
    let parent = before.trim_end_matches('\\');
    prefixes.iter().any(|prefix| before.ends_with(prefix))
        || parent.len() < before.len() && ends_with_users(parent)
}

fn ends_with_users(text: &str) -> bool {
    text.len()
        .checked_sub(5)
        .and_then(|at| text.get(at..))
        .is_some_and(|end| end.eq_ignore_ascii_case("users"))
}

/// Returns whether a word starts here: the byte before it is no letter or digit, unless it ends an escape (`\n`, `%2F`)
/// or a terminal colour.
fn is_name_start(bytes: &[u8], at: usize) -> bool {
    let before = &bytes[..at];
    match before {
        [] => true,
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
        [.., b'0'..=b'9', b'm'] => memchr::memrchr(b'[', &before[at.saturating_sub(8)..]).is_some(),
        [.., b] => !b.is_ascii_alphanumeric() && *b < 0x80,
    }
}

fn is_personal_name(name: &str) -> bool {
    name.len() >= 3
        && !GENERIC_NAMES.contains(&&*name.to_ascii_lowercase())
        && !is_placeholder(name)
        && !name.bytes().all(|b| b.is_ascii_digit())
}

/// Returns whether an email address is a person's; addresses of programs and examples are not.
fn is_personal_email(address: &str) -> bool {
    let low = address.to_ascii_lowercase();
    let generic = ["git@", "noreply@", "no-reply@", "npm@", "user@", "you@"];
    let examples = [
        "@example.com",
        "@example.org",
        "@users.noreply.github.com",
        "@test.com",
        ".png",
        ".js",
        ".ts",
        ".svg",
    ];
    !generic.iter().any(|start| low.starts_with(start)) && !examples.iter().any(|end| low.ends_with(end))
}
