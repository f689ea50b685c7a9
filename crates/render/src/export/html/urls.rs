//! Web addresses in plain text as links.

use crate::export::safe::push_escaped;

/// Appends a text, escaped, with its `http:` and `https:` addresses as links. The text is read once, however
/// many addresses begin in it.
pub(super) fn push_linked(out: &mut String, text: &str) {
    let mut written = 0;
    let mut searched = 0;
    while let Some(found) = memchr::memmem::find(&text.as_bytes()[searched..], b"http") {
        let start = searched + found;
        searched = start + "http".len();
        let Some(scheme) = scheme_len(&text[start..]) else { continue };
        if text[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &text[start + scheme..];
        let run = &rest[..rest.find(|c| !is_in_address(c)).unwrap_or(rest.len())];
        searched = start + scheme + run.len();
        let address = without_punctuation(run);
        let is_host = |c: char| c.is_alphanumeric() || c == '[';
        if !address.starts_with(is_host) || address.len() > MAX_ADDRESS {
            continue;
        }
        push_escaped(out, &text[written..start]);
        written = start + scheme + address.len();
        out.push_str("<a href=\"");
        push_escaped(out, &text[start..written]);
        out.push_str("\" rel=\"noopener noreferrer\">");
        push_escaped(out, &text[start..written]);
        out.push_str("</a>");
    }
    push_escaped(out, &text[written..]);
}

/// Maximum length of an address; longer ones are data.
const MAX_ADDRESS: usize = 4096;

fn scheme_len(text: &str) -> Option<usize> {
    ["https://", "http://"].into_iter().find(|scheme| text.starts_with(scheme)).map(str::len)
}

/// Returns whether an address can contain a character.
fn is_in_address(c: char) -> bool {
    match c {
        '<' | '>' | '"' | '\'' | '`' | '{' | '}' | '|' | '\\' | '^' => false,
        c if c.is_ascii() => c.is_ascii_graphic(),
        // Symbols include the marks that replace hidden characters.
        c => c.is_alphanumeric(),
    }
}

/// Removes the punctuation of the sentence around an address from its end.
fn without_punctuation(mut address: &str) -> &str {
    let surplus = |open: char, close: char| {
        let count = |bracket: char| address.matches(bracket).count();
        count(close).saturating_sub(count(open))
    };
    let (mut parentheses, mut brackets) = (surplus('(', ')'), surplus('[', ']'));
    while let Some(last) = address.chars().next_back() {
        let left = match last {
            ')' => &mut parentheses,
            ']' => &mut brackets,
            '.' | ',' | ';' | ':' | '!' | '?' | '*' | '_' | '~' => &mut 1,
            _ => break,
        };
        if *left == 0 {
            break;
        }
        *left -= 1;
        address = &address[..address.len() - 1];
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::safe::html_escaped;
    use proptest::prelude::*;

    fn links(text: &str) -> Vec<String> {
        let mut out = String::new();
        push_linked(&mut out, text);
        let of = |part: &str| part.split_once('"').map(|(href, _)| href.to_owned());
        out.split("<a href=\"").skip(1).filter_map(of).collect()
    }

    #[test]
    fn addresses_are_linked_without_punctuation() {
        assert_eq!(
            links("see https://a.b/c?d=e&f#g, or (http://h.i/j_(k))."),
            ["https://a.b/c?d=e&amp;f#g", "http://h.i/j_(k)"]
        );
        assert_eq!(
            links("<https://a.b> [x](https://c.d/) \"https://e.f\"!"),
            ["https://a.b", "https://c.d/", "https://e.f"]
        );
        assert_eq!(
            links("https://bücher.example/ä https://[::1]:80/x"),
            ["https://bücher.example/ä", "https://[::1]:80/x"]
        );
    }

    #[test]
    fn other_text_is_not_linked() {
        for text in
            ["javascript:alert(1)", "xhttp://a", "http:// a", "https://…", "http", "ftp://a", "https://\"x"]
        {
            assert_eq!(links(text), [""; 0], "{text}");
        }
        assert_eq!(links(&format!("https://{}", "a".repeat(9_000))), [""; 0]);
    }

    proptest! {
        #[test]
        fn linked_text_reads_like_the_text(text in "(http|s?://|[a-z\"<>&'.)( \n]|\\PC){0,60}") {
            let mut linked = String::new();
            push_linked(&mut linked, &text);
            let parts = linked.split('<').enumerate();
            let plain: String = parts.map(|(i, part)| if i == 0 { part } else { &part[part.find('>').map_or(0, |at| at + 1)..] }).collect();
            prop_assert_eq!(plain, html_escaped(&text));
        }
    }
}
