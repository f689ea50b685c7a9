//! Finds passwords in URLs.

use std::ops::Range;

use super::search::is_word_start;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
