//! Colours for code: comments, strings, numbers, keywords, and the lines of a diff.
//!
//! One lexer for all languages, like that of exported pages, instead of a grammar for each: it makes a single
//! pass and colours what readers look for. Code in an unknown language is not coloured.

use anstyle::Style as Ansi;

use super::line::StyledLine;
use super::wrap::expand_tabs;
use crate::text::{Style, escape};

/// The parts of a language that the lexer knows.
struct Syntax {
    names: &'static [&'static str],
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    /// Strings that may contain line ends.
    long_strings: &'static [&'static str],
    quotes: &'static [char],
    has_keywords: bool,
}

const C_LIKE: Syntax = Syntax {
    names: &[
        "js",
        "jsx",
        "ts",
        "tsx",
        "javascript",
        "typescript",
        "go",
        "java",
        "c",
        "cpp",
        "c++",
        "h",
        "cs",
        "csharp",
        "kotlin",
        "swift",
        "php",
        "dart",
        "scala",
        "zig",
        "groovy",
        "proto",
        "scss",
        "less",
    ],
    line_comments: &["//"],
    block_comment: Some(("/*", "*/")),
    long_strings: &["`"],
    quotes: &['"', '\''],
    has_keywords: true,
};

const SYNTAXES: [Syntax; 10] = [
    C_LIKE,
    Syntax { names: &["rust", "rs"], long_strings: &["\""], quotes: &[], ..C_LIKE },
    Syntax {
        names: &["python", "py"],
        line_comments: &["#"],
        block_comment: None,
        long_strings: &["\"\"\"", "'''"],
        ..C_LIKE
    },
    Syntax {
        names: &["ruby", "rb", "perl", "r", "elixir", "ex", "nix"],
        line_comments: &["#"],
        block_comment: None,
        long_strings: &[],
        ..C_LIKE
    },
    Syntax {
        names: &[
            "bash",
            "sh",
            "zsh",
            "shell",
            "console",
            "fish",
            "powershell",
            "dockerfile",
            "makefile",
            "make",
        ],
        line_comments: &["#"],
        block_comment: None,
        long_strings: &["\"", "'"],
        quotes: &[],
        has_keywords: true,
    },
    Syntax {
        names: &["yaml", "yml", "toml", "ini", "hcl", "terraform"],
        line_comments: &["#"],
        block_comment: None,
        long_strings: &[],
        ..C_LIKE
    },
    Syntax { names: &["json", "jsonc", "json5"], long_strings: &[], quotes: &['"'], ..C_LIKE },
    Syntax { names: &["sql", "lua", "haskell", "hs"], line_comments: &["--"], long_strings: &[], ..C_LIKE },
    Syntax {
        names: &["html", "xml", "svg", "vue", "svelte"],
        line_comments: &[],
        block_comment: Some(("<!--", "-->")),
        long_strings: &[],
        quotes: &['"'],
        has_keywords: false,
    },
    Syntax { names: &["css"], line_comments: &[], long_strings: &[], has_keywords: false, ..C_LIKE },
];

/// The keywords of all languages, sorted.
const KEYWORDS: [&str; 122] = [
    "False",
    "None",
    "SELECT",
    "Self",
    "True",
    "abstract",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "begin",
    "bool",
    "boolean",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "continue",
    "crate",
    "create",
    "def",
    "default",
    "defer",
    "del",
    "delete",
    "do",
    "done",
    "double",
    "dyn",
    "elif",
    "else",
    "elsif",
    "end",
    "enum",
    "esac",
    "except",
    "export",
    "extends",
    "extern",
    "false",
    "fi",
    "final",
    "finally",
    "float",
    "fn",
    "for",
    "from",
    "func",
    "function",
    "go",
    "group",
    "if",
    "impl",
    "implements",
    "import",
    "in",
    "insert",
    "int",
    "interface",
    "into",
    "is",
    "join",
    "lambda",
    "let",
    "local",
    "long",
    "loop",
    "match",
    "mod",
    "module",
    "move",
    "mut",
    "namespace",
    "new",
    "nil",
    "not",
    "null",
    "of",
    "or",
    "order",
    "override",
    "package",
    "pass",
    "private",
    "protected",
    "pub",
    "public",
    "raise",
    "readonly",
    "ref",
    "return",
    "select",
    "self",
    "static",
    "struct",
    "super",
    "switch",
    "table",
    "then",
    "this",
    "throw",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "undefined",
    "unless",
    "unsafe",
    "until",
    "update",
    "use",
    "using",
    "val",
    "var",
    "void",
    "where",
    "while",
    "yield",
];

/// Returns the lines of a piece of code with its colours on top of `base`. Tabs are expanded; everything that a
/// terminal interprets is escaped.
pub(crate) fn code_lines(language: &str, code: &str, base: Ansi) -> Vec<StyledLine> {
    let code = escape(code);
    let code = expand_tabs(&code);
    let language = language.to_ascii_lowercase();
    if matches!(&*language, "diff" | "patch") {
        return code.split('\n').map(|line| StyledLine::new(line, diff_style(line, base))).collect();
    }
    let syntax = SYNTAXES.iter().find(|syntax| syntax.names.contains(&&*language));
    let mut painter = CodePainter { lines: vec![StyledLine::default()], base };
    match syntax {
        Some(syntax) => painter.paint(&code, syntax),
        None => painter.push(&code, Style::Plain),
    }
    painter.lines
}

/// Returns the style of a line of a diff.
pub(crate) fn diff_style(line: &str, base: Ansi) -> Ansi {
    let style = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Style::Strong,
        [b'+', ..] => Style::Added,
        [b'-', ..] => Style::Removed,
        [b'@', b'@', ..] => Style::Number,
        _ => return base,
    };
    super::line::combine(base, style.ansi())
}

struct CodePainter {
    lines: Vec<StyledLine>,
    base: Ansi,
}

impl CodePainter {
    fn push(&mut self, text: &str, style: Style) {
        let style = super::line::combine(self.base, style.ansi());
        for (i, piece) in text.split('\n').enumerate() {
            if i > 0 {
                self.lines.push(StyledLine::default());
            }
            if let Some(line) = self.lines.last_mut() {
                line.push(piece, style);
            }
        }
    }

    fn paint(&mut self, code: &str, syntax: &Syntax) {
        let (mut plain, mut at) = (0, 0);
        while let Some(c) = code[at..].chars().next() {
            let before = code[..at].chars().next_back();
            let (len, style) = token(&code[at..], c, before, syntax);
            if style != Style::Plain {
                self.push(&code[plain..at], Style::Plain);
                self.push(&code[at..at + len], style);
                plain = at + len;
            }
            at += len;
        }
        self.push(&code[plain..], Style::Plain);
    }
}

/// Returns the length and the style of the token at the beginning of `rest`, whose first character is `c`.
fn token(rest: &str, c: char, before: Option<char>, syntax: &Syntax) -> (usize, Style) {
    if c.is_alphabetic() || c == '_' {
        let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let is_keyword = syntax.has_keywords && before != Some('.') && is_keyword(&rest[..len]);
        return (len, if is_keyword { Style::Keyword } else { Style::Plain });
    }
    if c.is_ascii_digit() {
        let len =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_').unwrap_or(rest.len());
        return (len, Style::Number);
    }
    if let Some((_, close)) = syntax.block_comment.filter(|(open, _)| rest.starts_with(open)) {
        let len = rest[2..].find(close).map_or(rest.len(), |end| 2 + end + close.len());
        return (len, Style::Comment);
    }
    // A `#` or `--` inside a word is part of it.
    let starts_word = before.is_none_or(char::is_whitespace);
    if syntax.line_comments.iter().any(|open| rest.starts_with(open) && (*open == "//" || starts_word)) {
        return (rest.find('\n').unwrap_or(rest.len()), Style::Comment);
    }
    if let Some(quote) = syntax.long_strings.iter().find(|quote| rest.starts_with(**quote)) {
        return (quote.len() + string_length(&rest[quote.len()..], quote, true), Style::Literal);
    }
    if syntax.quotes.contains(&c) {
        let mut buffer = [0; 4];
        return (
            c.len_utf8() + string_length(&rest[c.len_utf8()..], c.encode_utf8(&mut buffer), false),
            Style::Literal,
        );
    }
    (c.len_utf8(), Style::Plain)
}

/// Returns the length of a string after its opening quote, with its closing quote.
fn string_length(rest: &str, close: &str, has_lines: bool) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            // The character after a backslash may have several bytes, of which none is a quote.
            b'\\' => at += 2,
            b'\n' if !has_lines => return at,
            _ if bytes[at..].starts_with(close.as_bytes()) => return at + close.len(),
            _ => at += 1,
        }
    }
    rest.len()
}

fn is_keyword(word: &str) -> bool {
    KEYWORDS.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Marks what is coloured.
    fn marked(language: &str, code: &str) -> String {
        let mark = |style: Ansi| {
            [
                (Style::Keyword, "k"),
                (Style::Literal, "s"),
                (Style::Number, "n"),
                (Style::Comment, "c"),
                (Style::Removed, "-"),
            ]
            .into_iter()
            .find(|(known, _)| known.ansi() == style)
            .map(|(_, mark)| mark)
        };
        let line = |line: &StyledLine| {
            line.spans()
                .map(|(text, style)| {
                    mark(style).map_or_else(|| text.to_owned(), |mark| format!("<{mark} {text}>"))
                })
                .collect::<String>()
        };
        code_lines(language, code, Ansi::new()).iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn code_is_coloured_by_kind() {
        insta::assert_snapshot!(marked("rust", "pub fn f<'a>(x: &'a str) -> u8 { 0x1f } // done\n\"a\\\"b\""), @r#"
        <k pub> <k fn> f<'a>(x: &'a str) -> u8 { <n 0x1f> } <c // done>
        <s "a\"b">
        "#);
        insta::assert_snapshot!(marked("python", "x = '''a\nb''' # c\nself.match = 1"), @"
        x = <s '''a>
        <s b'''> <c # c>
        <k self>.match = <n 1>
        ");
        insta::assert_snapshot!(marked("bash", "for f in *; do echo \"$f\" a#b; done"), @r#"<k for> f <k in> *; <k do> echo <s "$f"> a#b; <k done>"#);
        insta::assert_snapshot!(marked("js", "/* a\nb */ f('x"), @"
        <c /* a>
        <c b */> f(<s 'x>
        ");
        insta::assert_snapshot!(marked("diff", " a\n-b"), @"
         a
        <- -b>
        ");
        assert_eq!(marked("unknown", "fn \"x\" 1"), "fn \"x\" 1");
    }

    #[test]
    fn keywords_are_sorted() {
        assert!(KEYWORDS.is_sorted());
    }

    proptest! {
        #[test]
        fn colours_do_not_change_the_text(code in "[a-z0-9 \"'/*#\\\\\n`<>!漢-]{0,60}", syntax in 0..SYNTAXES.len()) {
            let lines = code_lines(SYNTAXES[syntax].names[0], &code, Ansi::new());
            let text: Vec<&str> = lines.iter().map(StyledLine::text).collect();
            prop_assert_eq!(text.join("\n"), code);
        }
    }
}
