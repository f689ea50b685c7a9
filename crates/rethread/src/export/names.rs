//! The file names of documents: readable, portable, stable and distinct, also where case does not count.

use rethread_model::Time;
use rethread_render::Format;
use rustc_hash::FxHashMap;

/// The file names of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileNaming {
    /// The session id: `transcript_{session_id}`.
    #[default]
    Id,
    /// Date, title and the beginning of the id: `2026-07-13_fix-zsh-prompt_e3c445a1`.
    Friendly,
}

impl FileNaming {
    /// Returns the usual names of a format. Programs that read Markdown transcripts expect ids.
    ///
    /// ```
    /// use rethread::{FileNaming, Format};
    ///
    /// assert_eq!(FileNaming::usual_for(Format::Md), FileNaming::Id);
    /// assert_eq!(FileNaming::usual_for(Format::Html), FileNaming::Friendly);
    /// ```
    pub fn usual_for(format: Format) -> Self {
        match format {
            Format::Md => Self::Id,
            Format::Html | Format::Json => Self::Friendly,
        }
    }

    /// Returns the stems that a session can have, the shortest first.
    pub(super) fn stems(self, id: &str, title: &str, start: Option<Time>) -> StemChoices {
        let id = safe_name(id);
        if self == Self::Id {
            return StemChoices { plain: vec![id] };
        }
        let date = start.and_then(Time::to_iso).and_then(|iso| Some(iso.get(..10)?.to_owned()));
        let date = date.filter(|date| date.bytes().all(|b| b.is_ascii_digit() || b == b'-'));
        let before: Vec<String> = [date, Some(slug(title))].into_iter().flatten().collect();
        let before = before.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_");
        let before = if before.is_empty() { "session".to_owned() } else { before };
        // A UUID is cut between its groups.
        let cuts = [8, 13, 18, 23].into_iter().filter(|&cut| id.as_bytes().get(cut) == Some(&b'-'));
        let ids = cuts.map(|cut| &id[..cut]).chain([&*id]);
        StemChoices { plain: ids.map(|id| format!("{before}_{id}")).collect() }
    }

    /// Returns the name of a session's document, without its ending.
    pub(super) fn document(self, stem: &str, path: &str) -> String {
        match self {
            Self::Id => format!("transcript_{stem}{path}"),
            Self::Friendly => format!("{stem}{path}"),
        }
    }
}

/// Maximum length of the title in a file name.
const MAX_SLUG: usize = 50;

/// Returns a title as lower-case ASCII words, cut between words. Web addresses are left out if there are other
/// words.
fn slug(title: &str) -> String {
    let words: Vec<&str> = title.split_whitespace().filter(|word| !word.contains("://")).collect();
    let title = if words.is_empty() { title.to_owned() } else { words.join(" ") };
    let title: String = title.chars().take(4 * MAX_SLUG).collect();
    let ascii = deunicode::deunicode_with_tofu(&title, " ").to_ascii_lowercase().replace('\'', "");
    let mut slug = String::new();
    for word in ascii.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        if slug.is_empty() {
            slug.push_str(&word[..word.len().min(MAX_SLUG)]);
        } else if slug.len() + 1 + word.len() <= MAX_SLUG {
            slug.push('-');
            slug.push_str(word);
        } else {
            break;
        }
    }
    slug
}

/// The stems that the documents of a session can have, in the order of preference.
pub(super) struct StemChoices {
    plain: Vec<String>,
}

impl StemChoices {
    /// Returns the stems; if all of them are taken, numbered ones.
    fn all(&self) -> impl Iterator<Item = String> {
        let last = self.plain.last().map_or("", String::as_str);
        self.plain.iter().cloned().chain((2..).map(move |n| format!("{last}_copy{n}")))
    }

    /// Returns whether a stem is one of them.
    fn contain(&self, stem: &str) -> bool {
        let is_numbered =
            |last: &String| stem.strip_prefix(last.as_str()).is_some_and(|n| n.starts_with("_copy"));
        self.plain.iter().any(|plain| plain == stem) || self.plain.last().is_some_and(is_numbered)
    }
}

/// The file names in a directory, and the sources that they belong to.
#[derive(Debug, Default)]
pub(super) struct DocumentNames {
    /// The source of each file, by its lower-case name.
    owner: FxHashMap<String, String>,
    /// The stems from earlier runs, by source.
    previous_stems: FxHashMap<String, Vec<String>>,
}

impl DocumentNames {
    /// Adds a file of an earlier run.
    pub(super) fn add(&mut self, file: &str, source: &str, stem: &str) {
        self.owner.insert(file.to_lowercase(), source.to_owned());
        let stems = self.previous_stems.entry(source.to_owned()).or_default();
        if !stem.is_empty() && !stems.iter().any(|known| known == stem) {
            stems.push(stem.to_owned());
        }
    }

    /// Returns the stem of a source's file names: its earlier one, or the first for which no file of it (listed
    /// by `files_of`) has the name of another source's file.
    pub(super) fn stem(
        &mut self,
        source: &str,
        choices: &StemChoices,
        files_of: impl Fn(&str) -> Vec<String>,
    ) -> String {
        let known = self.previous_stems.get(source).into_iter().flatten();
        let known: Vec<String> = known.filter(|stem| choices.contain(stem)).cloned().collect();
        for stem in known.into_iter().chain(choices.all()) {
            let files: Vec<String> = files_of(&stem).iter().map(|file| file.to_lowercase()).collect();
            if files.iter().all(|file| self.owner.get(file).is_none_or(|owner| owner == source)) {
                self.owner.extend(files.into_iter().map(|file| (file, source.to_owned())));
                return stem;
            }
        }
        unreachable!("there is always a higher number")
    }
}

/// Returns a portable file name: letters, digits, `-`, `_` and inner dots, of limited length. A name that had
/// to be changed gets a hash to keep it distinct.
pub(crate) fn safe_name(name: &str) -> String {
    const MAX: usize = 120;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let safe: String = name.chars().take(MAX).map(|c| if plain(c) { c } else { '_' }).collect();
    let safe = safe.trim_matches('.');
    if safe == name && !name.is_empty() {
        return name.to_owned();
    }
    let hash = xxhash_rust::xxh3::xxh3_64(name.as_bytes()) & 0xffff_ffff;
    format!("{}-{hash:08x}", &safe[..safe.len().min(MAX - 20)])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "e3c445a1-0b6e-4000-8000-00000000000a";

    fn friendly(id: &str, title: &str, time: Option<&str>) -> String {
        let start = time.and_then(|time| Time::parse(time.as_bytes()));
        FileNaming::Friendly.stems(id, title, start).plain.remove(0)
    }

    #[test]
    fn safe_names_are_portable_and_distinct() {
        assert_eq!(safe_name("0a1b-2c_3.d"), "0a1b-2c_3.d");
        assert_eq!(safe_name("a/../b"), "a_.._b-a3d5c1a0".replace("a3d5c1a0", &safe_name("a/../b")[7..]));
        assert_ne!(safe_name("a?b"), safe_name("a*b"));
        assert!(safe_name(&"x".repeat(4000)).len() <= 120);
        assert!(safe_name("ä".repeat(300).as_str()).is_ascii());
        assert!(!safe_name("..").contains(".."));
        assert!(!safe_name("").is_empty());
    }

    #[test]
    fn friendly_names_have_date_title_and_short_id() {
        let time = Some("2026-07-13T23:59:59.000Z");
        assert_eq!(friendly(ID, "Fix zsh prompt", time), "2026-07-13_fix-zsh-prompt_e3c445a1");
        assert_eq!(
            friendly(ID, "Don’t parse `Größe`: 漢字 🦀!", time),
            "2026-07-13_dont-parse-grosse-han-zi-crab_e3c445a1"
        );
        assert_eq!(friendly(ID, "/init", None), "init_e3c445a1");
        assert_eq!(friendly(ID, "see https://a.b/c?d", None), "see_e3c445a1");
        assert_eq!(friendly(ID, "https://a.b/c?d", None), "https-a-b-c-d_e3c445a1");
        assert_eq!(friendly(ID, "…\u{202e}\0", time), "2026-07-13_e3c445a1");
        assert_eq!(friendly("agent-17", "", None), "session_agent-17");
        let long = friendly(ID, &"antidisestablishment ".repeat(9), None);
        assert_eq!(long, "antidisestablishment-antidisestablishment_e3c445a1");
        assert!(friendly(ID, &"x".repeat(9_000), None).len() <= 60);
    }

    #[test]
    fn ambiguous_short_ids_are_longer() {
        let other = "e3c445a1-ffff-4000-8000-00000000000a";
        let mut names = DocumentNames::default();
        let one = |stem: &str| vec![format!("{stem}.html")];
        let mut stem = |source: &str, id: &str| {
            names.stem(source, &FileNaming::Friendly.stems(id, "a title", None), one)
        };
        assert_eq!(stem("1", ID), "a-title_e3c445a1");
        assert_eq!(stem("2", other), "a-title_e3c445a1-ffff");
        assert_eq!(stem("3", ID), "a-title_e3c445a1-0b6e");
    }

    #[test]
    fn source_names_are_stable_and_unique() {
        let id = |id: &str| FileNaming::Id.stems(id, "", None);
        let mut names = DocumentNames::default();
        let one = |stem: &str| vec![format!("transcript_{stem}.md")];
        let two =
            |stem: &str| vec![format!("transcript_{stem}_path1.md"), format!("transcript_{stem}_path2.md")];
        assert_eq!(names.stem("1", &id("x"), one), "x");
        assert_eq!(names.stem("2", &id("X"), one), "X_copy2");
        assert_eq!(names.stem("3", &id("y"), two), "y");
        assert_eq!(names.stem("4", &id("y_path2"), one), "y_path2_copy2");
        let again = || {
            let mut names = DocumentNames::default();
            names.add("transcript_X_copy2.md", "2", "X_copy2");
            names
        };
        assert_eq!(again().stem("2", &id("X"), one), "X_copy2");
        assert_eq!(again().stem("5", &id("x_copy2"), one), "x_copy2_copy2");
        // A source can have names of both kinds.
        let mut names = again();
        names.add("a_X.html", "2", "a_X");
        let friendly = FileNaming::Friendly.stems("X", "a", None);
        assert_eq!(names.stem("2", &friendly, |stem| vec![format!("{stem}.html")]), "a_X");
        assert_eq!(names.stem("2", &id("X"), one), "X_copy2");
    }
}
