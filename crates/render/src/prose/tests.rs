//! Tests of Markdown on a terminal.

use proptest::prelude::*;

use super::*;
use crate::hidden::hidden_chars;

fn rendered(text: &str, width: usize, markers: bool) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    let options = ProseOptions { width, markers, base: Ansi::new() };
    let mut emit = |line: &StyledLine| {
        lines.push(line.clone());
        Ok(())
    };
    markdown_lines(text, options, &mut emit).expect("lines are kept");
    lines
}

fn plain(text: &str, width: usize) -> String {
    let lines = rendered(text, width, false);
    lines.iter().map(|line| line.text().trim_end()).collect::<Vec<_>>().join("\n")
}

fn typed(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    let options = ProseOptions { width, markers: false, base: Ansi::new() };
    let mut emit = |line: &StyledLine| {
        lines.push(line.text().to_owned());
        Ok(())
    };
    typed_lines(text, options, &mut emit).expect("lines are kept");
    lines.join("\n")
}

#[test]
fn blocks_are_laid_out() {
    let text = "# Kettle\nIt *boils* **water** with `heat()`.\n\n- one\n- two that is long enough to wrap\n  1. nested\n  2. list\n- [x] done\n- [ ] open\n\n> quoted words that wrap\n> here\n\n---\n```rust\nfn main() {\n\tboil();\n}\n```\nSee [the docs](https://example.org/docs) or <https://example.org>.";
    insta::assert_snapshot!(plain(text, 30), @"
    Kettle

    It boils water with heat().

    • one
    • two that is long enough to
      wrap
      1. nested
      2. list
    • [x] done
    • [ ] open

    │ quoted words that wrap
    │ here

    ──────────────────────────────

      fn main() {
              boil();
      }

    See the docs
    (https://example.org/docs) or
    https://example.org.
    ");
}

#[test]
fn markers_are_kept_without_styles() {
    let lines = rendered("## Head\n**bold** *it* ~~no~~ `code`", 60, true);
    let text: Vec<&str> = lines.iter().map(StyledLine::text).collect();
    assert_eq!(text, ["## Head", "", "**bold** *it* ~~no~~ `code`"]);
}

#[test]
fn tables_fit_the_width() {
    let text = "| part | price | note |\n|---|--:|:-:|\n| heater | 12 | needs a relay and a fuse |\n| probe | 3 | ok |";
    insta::assert_snapshot!(plain(text, 60), @"
    part   │ price │           note
    ───────┼───────┼─────────────────────────
    heater │    12 │ needs a relay and a fuse
    probe  │     3 │            ok
    ");
    insta::assert_snapshot!(plain(text, 32), @"
    part   │ price │      note
    ───────┼───────┼────────────────
    heater │    12 │  needs a relay
           │       │   and a fuse
    ───────┼───────┼────────────────
    probe  │     3 │       ok
    ");
    insta::assert_snapshot!(plain(text, 20), @"
    part: heater
    price: 12
    note: needs a
      relay and a fuse

    part: probe
    price: 3
    note: ok
    ");
}

#[test]
fn typed_text_is_not_interpreted() {
    let text = "* keep # this\n  - and *this* word by word, wrapped\n```rust\nlet x = 1;\n```\n`code` and a lone ` mark";
    insta::assert_snapshot!(typed(text, 24), @"
    * keep # this
      - and *this* word by
      word, wrapped
    ```rust
    let x = 1;
    ```
    `code` and a lone ` mark
    ");
}

#[test]
fn characters_spelled_as_entities_are_escaped() {
    assert_eq!(plain("a &#27;[31m &#x202e; b&#10;c", 60), "a \\x1b[31m \\u{202e} b c");
}

#[test]
fn deep_nesting_is_linear() {
    let size = 20_000;
    for text in [
        "> ".repeat(size) + "x",
        "- ".repeat(size) + "x",
        "[".repeat(size),
        "*a_".repeat(size),
        "|a".repeat(size) + "\n" + &"|-".repeat(size) + "\n|b",
    ] {
        let lines = rendered(&text, 40, false);
        assert!(lines.iter().all(|line| line.width() <= 40));
    }
}

const PIECES: &str = "([a-z]{1,30}|漢字|👩‍💻|\u{1b}\\[m|\u{202e}|&#27;|\n|\n\n| |\t|\\*\\*|\\*|_|`|```|# |> |- |1\\. |\\[|\\]\\(|\\)|\\||\n\\|-\\|-\\|\n|<b>|~~|---){0,60}";

proptest! {
    #[test]
    fn no_line_is_wider_than_the_width(text in PIECES, width in 20usize..90, markers: bool) {
        for line in rendered(&text, width, markers) {
            prop_assert!(line.width() <= width, "{:?} in {text:?}", line.text());
            prop_assert!(hidden_chars(line.text()).next().is_none());
            prop_assert!(!line.text().contains(['\n', '\t']));
        }
        for line in typed(&text, width).split('\n') {
            prop_assert!(super::width(line) <= width, "{line:?} in {text:?}");
            prop_assert!(hidden_chars(line).next().is_none());
        }
    }

    #[test]
    fn all_words_are_shown_in_order(text in "[a-z]{1,20}( [a-z]{1,20}|\n[a-z]{1,20}|\n\n[a-z]{1,20}){0,40}", width in 20usize..90) {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        prop_assert_eq!(words(&plain(&text, width)), words(&text));
    }
}
