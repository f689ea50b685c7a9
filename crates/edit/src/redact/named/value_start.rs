//! Finds the start of the value of a name.

use std::ops::Range;

use super::{REACH, SecretKind, skip};

/// The signs between a name and its value.
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

/// Returns the start of the value after the separator that follows the name.
pub(super) fn value_start(bytes: &[u8], name: &Range<usize>, kind: SecretKind) -> Option<usize> {
    let closed = skip(bytes, name.end, 8, b"\"'`\\])*");
    let quoted = closed > name.end && bytes[name.end..closed].iter().any(|b| b"\"'`".contains(b));
    let pos = skip(bytes, closed, 8, b" \t");
    let rest = &bytes[pos..];
    // In a shell variable only a default is a value.
    let variable = bytes[..name.start].ends_with(b"${");
    if variable && !rest.starts_with(b":-") && !rest.starts_with(b":=") {
        return None;
    }
    if let Some(value) = value_after_sign(bytes, pos) {
        return Some(value);
    }
    let tag = name.start > 0 && matches!(bytes[name.start - 1], b'<' | b':');
    if (tag || quoted) && rest.first() == Some(&b'>') {
        return Some(pos + 1);
    }
    // A fallback value.
    if rest.starts_with(b"||") || rest.starts_with(b"??") {
        let next = skip(bytes, pos + 2, 4, b" \t\n");
        return matches!(bytes.get(next), Some(b'"' | b'\'' | b'`' | b'\\')).then_some(next);
    }
    let in_call = || if quoted { value_in_call(bytes, name, pos) } else { value_in_setter(bytes, name) };
    let value = value_in_attribute(bytes, closed).or_else(in_call).or_else(|| value_in_row(bytes, name, pos));
    if value.is_some() {
        return value;
    }
    if bytes[name.start] == b'-' && pos > name.end {
        let value = bytes.get(pos).is_some_and(|b| !matches!(b, b'-' | b'<' | b'[' | b'|' | b'\n'));
        return value.then_some(pos);
    }
    if pos > closed { value_after_blank(bytes, name, pos, kind) } else { None }
}

/// Returns the start of the value after the sign at `pos`, if there is one.
fn value_after_sign(bytes: &[u8], pos: usize) -> Option<usize> {
    let sign = SIGNS.iter().find(|sign| bytes[pos..].starts_with(sign))?;
    let after = pos + sign.len();
    // A type may precede the value.
    let typed = (*sign == b":").then(|| value_after_type(bytes, after)).flatten();
    Some(typed.unwrap_or(after))
}

/// Returns the start of a value that only a blank separates from its name.
fn value_after_blank(bytes: &[u8], name: &Range<usize>, pos: usize, kind: SecretKind) -> Option<usize> {
    if kind != SecretKind::Service && (is_line(bytes, name, pos) || is_setting(bytes, name, pos)) {
        return Some(pos);
    }
    if kind == SecretKind::Secret && bytes[pos..].starts_with(b"- ") {
        return Some(pos + 2);
    }
    let quoted = matches!(bytes.get(pos), Some(b'"' | b'\'' | b'`'));
    (quoted && matches!(kind, SecretKind::Password | SecretKind::Secret)).then_some(pos)
}

/// Returns the start of a value in a call whose previous argument is the name or a selector for it:
/// `setdefault("PASSWORD", "…")`, `fill('#password', '…')`, `get('#password').type('…')`.
fn value_in_call(bytes: &[u8], name: &Range<usize>, pos: usize) -> Option<usize> {
    const WRITES: [&[u8]; 5] = [b".type(", b".fill(", b".send_keys(", b".sendKeys(", b".setValue("];
    let rest = &bytes[pos..];
    let next = if rest.first() == Some(&b',') {
        let from = name.start.saturating_sub(40);
        let quote = bytes[from..name.start].iter().rposition(|b| matches!(b, b'"' | b'\''))?;
        let opened = bytes[..from + quote].iter().rev().find(|b| !b"\"'\\".contains(b));
        skip(bytes, (opened == Some(&b'(')).then_some(pos + 1)?, 4, b" \t\n")
    } else {
        pos + WRITES.iter().find(|call| rest.starts_with(call))?.len()
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
fn value_in_row(bytes: &[u8], name: &Range<usize>, pos: usize) -> Option<usize> {
    let before = bytes[..name.start].iter().rev().take(16).find(|b| !b" \t*`\"'".contains(b));
    if before != Some(&b'|') || bytes.get(pos) != Some(&b'|') {
        return None;
    }
    let cell = bytes[pos + 1..].iter().take(1300).take_while(|b| !matches!(b, b'|' | b'\n')).count();
    let cell = bytes[pos + 1..pos + 1 + cell].trim_ascii();
    let unusual = |b: &u8| b.is_ascii_digit() || b"!#$%^&+=?@~".contains(b);
    (cell.iter().any(unusual) && !cell.iter().any(u8::is_ascii_whitespace)).then_some(pos + 1)
}

/// Returns whether a joined name is followed, from `pos` on, by a value that is not a word: `auth_token …` within
/// other text.
fn is_setting(bytes: &[u8], name: &Range<usize>, pos: usize) -> bool {
    let word = &bytes[name.clone()];
    let joined = word.iter().any(|b| matches!(b, b'_' | b'.'))
        || [&b"bindpw"[..], b"rootpw", b"requirepass", b"masterauth"].contains(&word);
    let value = &bytes[pos..pos + bytes[pos..].iter().take(256).take_while(|b| !ends_word(**b)).count()];
    let count = |is: fn(&u8) -> bool| value.iter().filter(|b| is(b)).count();
    let signs = count(|b| b"!#$%^&*+=?@~".contains(b));
    let mixed = count(u8::is_ascii_digit) > 0 && count(u8::is_ascii_alphabetic) > 0;
    joined && pos == name.end + 1 && mixed && (value.len() >= 20 || value.len() >= 8 && signs > 0)
}

fn ends_word(b: u8) -> bool {
    b <= b' ' || b"\"'`<>\\()[]{},;".contains(&b)
}

/// Returns whether a line has only a name and, from `pos` on, a value.
fn is_line(bytes: &[u8], name: &Range<usize>, pos: usize) -> bool {
    let before = bytes[..name.start].iter().rev().take_while(|b| **b != b'\n').take(24);
    let rest = bytes[pos..].iter().take(REACH * 8).take_while(|b| **b != b'\n');
    let blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\r');
    rest.clone().count() >= 8
        && before.clone().all(|b| blank(b) || matches!(b, b'+' | b'>'))
        && !rest.skip_while(|b| !blank(b)).any(|b| !blank(b))
}

/// Returns the start of a value after a type and an equals sign: `: &str = "…"`.
fn value_after_type(bytes: &[u8], pos: usize) -> Option<usize> {
    let is_type = |b: &u8| b.is_ascii_alphanumeric() || b"&_<>[], |?.'\t :".contains(b);
    let end = pos + bytes[pos..].iter().take(40).take_while(|b| is_type(b)).count();
    let sign = bytes.get(end) == Some(&b'=') && bytes[pos..end].iter().any(u8::is_ascii_alphabetic);
    let after = sign.then(|| skip(bytes, end + 1, 3, b" \t"))?;
    matches!(bytes.get(after), Some(b'"' | b'\'' | b'`' | b'\\')).then_some(after)
}

/// Returns the start of a value labelled `value`: in an attribute, or in the field after the one with the name.
fn value_in_attribute(bytes: &[u8], pos: usize) -> Option<usize> {
    if let Some(value) = value_in_default(bytes, pos) {
        return Some(value);
    }
    let pos = skip(bytes, pos, 24, b" \t\r\n+,\"'\\/><|");
    let word = bytes.get(pos..pos + 5).filter(|word| word.eq_ignore_ascii_case(b"value"))?;
    let pos = skip(bytes, pos + word.len(), 8, b"\"'\\ \t");
    matches!(bytes.get(pos), Some(b'=' | b':' | b'>')).then_some(pos + 1)
}

/// Returns the start of the default of a variable: `variable "db_password" { default = "…" }`.
fn value_in_default(bytes: &[u8], pos: usize) -> Option<usize> {
    let open = skip(bytes, pos, 4, b" \t");
    let block = bytes.get(open..bytes.len().min(open + 400)).filter(|block| block.starts_with(b"{"))?;
    let block = &block[..memchr::memchr(b'}', block).unwrap_or(block.len())];
    let word = memchr::memmem::find(block, b"default")? + b"default".len();
    let sign = skip(block, word, 16, b" \t");
    (block.get(sign) == Some(&b'=')).then_some(open + sign + 1)
}

/// Returns the start of a value that is alone on one of the next lines.
pub(super) fn value_on_next_line(bytes: &[u8], pos: usize) -> Option<usize> {
    let next = skip(bytes, pos, 40, b" \t\r\n+>");
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
