//! The frame of a page: its content security policy, style and script, and pagination.

use std::io::{self, Write};
use std::sync::LazyLock;

use base64::Engine;
use sha2::Digest;

use super::html_text;

const BASE_CSS: &str = include_str!("../assets/base.css");

const PAGE_CSS: &str = include_str!("../assets/page.css");

const PAGE_JS: &str = include_str!("../assets/page.js");

/// Bytes laid out initially: the first page is small, so that it appears at once.
const FIRST_BYTES: usize = 200_000;

const PAGE_BYTES: usize = 800_000;

const PAGE_MESSAGES: usize = 200;

/// Distributes items over pages.
pub(super) struct Paginator<'w> {
    out: &'w mut dyn Write,
    pending: String,
    /// Bytes on the current page.
    bytes: usize,
    n: usize,
    messages: usize,
    /// The beginning of an item is already on the page.
    begun: bool,
}

impl<'w> Paginator<'w> {
    /// Starts after the head.
    pub(super) fn new(out: &'w mut dyn Write) -> Self {
        Self { out, pending: String::new(), bytes: 0, n: 1, messages: 0, begun: false }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(self.pending.as_bytes())?;
        self.pending.clear();
        Ok(())
    }

    /// Writes the beginning of an item that is too long to buffer; [`Self::push`] receives its end.
    pub(super) fn begin(&mut self, start: &mut String) -> io::Result<()> {
        self.push(start)?;
        self.begun = true;
        self.flush()
    }

    /// Adds an item to the current page, or to the next.
    pub(super) fn push(&mut self, item: &mut String) -> io::Result<()> {
        if std::mem::take(&mut self.begun) {
            self.bytes += item.len();
            self.pending.push_str(item);
            item.clear();
            return Ok(());
        }
        let room = if self.n == 1 { FIRST_BYTES } else { PAGE_BYTES };
        let full = self.bytes + item.len() > room || self.messages >= PAGE_MESSAGES;
        if full && self.messages > 0 {
            self.flush()?;
            self.out.write_all(if self.n == 1 { FIRST_END.as_bytes() } else { b"</script>\n" })?;
            self.n += 1;
            (self.bytes, self.messages) = (0, 0);
            write!(self.out, "<script type=\"text/plain\" class=\"chunk\" data-page=\"{}\">", self.n)?;
        }
        self.messages += usize::from(!item.is_empty());
        self.bytes += item.len();
        if item.len() > PAGE_BYTES {
            // It may be very long, so it is not copied.
            self.flush()?;
            self.out.write_all(item.as_bytes())?;
            *item = String::new();
        }
        self.pending.push_str(item);
        item.clear();
        Ok(())
    }

    /// Closes the last page.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.out.write_all(if self.n == 1 { FIRST_END.as_bytes() } else { b"</script>\n" })?;
        write!(self.out, "<script>{PAGE_JS}</script>\n</body></html>\n")
    }
}

const FIRST_END: &str =
    "</section>\n</main>\n<nav class=\"pager\" aria-label=\"Pages\" hidden></nav>\n</div>\n";

/// Returns the beginning of every page: nothing is loaded, and only the script with this hash runs.
pub(in crate::export) fn page_start(title: &str, css: &str, js: &str) -> String {
    let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(js));
    let title = html_text(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; \
         style-src 'unsafe-inline'; script-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"generator\" content=\"rethread\">\n\
         <title>{title}</title>\n<style>\n{BASE_CSS}{css}</style>\n</head>\n"
    )
}

/// Cached, because hashing the script for every document would cost more than most documents.
static PAGE_START: LazyLock<String> = LazyLock::new(|| page_start(TITLE_PLACEHOLDER, PAGE_CSS, PAGE_JS));

/// Placeholder for the title.
const TITLE_PLACEHOLDER: &str = "\u{2400}";

/// Returns the parts before and after the title at the beginning of a page.
pub(super) fn page_start_parts() -> (&'static str, &'static str) {
    PAGE_START.split_once(TITLE_PLACEHOLDER).unwrap_or((&PAGE_START, ""))
}
