//! A listing is the same with and without the catalogue of an index.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rethread::{Library, Listing, LsOptions, SortOrder};
use rethread_testkit::{Home, LogBuilder, logs_under, shapes, shared};

/// A library without and one with an index of all logs.
struct TwoLibraries {
    home: Home,
    plain: Library,
    indexed: Library,
    cache: tempfile::TempDir,
}

impl TwoLibraries {
    fn new(home: Home) -> Self {
        age(home.path());
        let cache = tempfile::tempdir().expect("a directory");
        let plain = Library::open([home.path()]);
        let indexed = Library::builder().root(home.path()).cache_dir(cache.path()).open();
        indexed.update_index().expect("it has a cache directory").expect("indexed");
        Self { home, plain, indexed, cache }
    }

    /// Compares the listings of many options, and the summaries of the interactive list.
    fn assert_same(&self, when: &str) {
        let since = rethread::Time::parse(b"2026-01-01T06:00:00.000Z").expect("a time");
        let all = LsOptions::new;
        let options = [
            all(),
            all().check(true),
            all().agents(true).check(true),
            all().check(true).limit(3),
            all().limit(0),
            all().since(since).sort(SortOrder::Turns),
            all().until(since).sort(SortOrder::Size),
            all().branched(true),
            all().model("opus"),
            all().git_branch("main"),
            all().cwd("/home/ada/work/api").check(true),
            all().project("api").agents(true),
        ];
        for options in &options {
            let (plain, indexed) = (self.plain.ls(options), self.indexed.ls(options));
            assert_same_text(&text(&plain), &text(&indexed), &format!("{when}: {options:?}"));
        }
        let summaries = |library: &Library| -> Vec<String> {
            let catalog = library.catalog(&LsOptions::new());
            catalog.logs.iter().map(|log| format!("{:?}", catalog.summary(log))).collect()
        };
        assert_same_text(&summaries(&self.plain).join("\n"), &summaries(&self.indexed).join("\n"), when);
        let newest = |library: &Library| format!("{:?}", library.newest(Path::new("/home/ada/work/api")));
        assert_eq!(newest(&self.plain), newest(&self.indexed), "{when}");
    }

    fn catalogue(&self) -> std::path::PathBuf {
        let index = self.cache.path().join("index");
        let dir = fs::read_dir(index).expect("an index").next().expect("of one library").expect("listed");
        dir.path().join("catalogue.db")
    }
}

fn text(listing: &Listing) -> String {
    format!("{listing:#?}")
}

/// Compares long texts, and shows only where they begin to differ.
fn assert_same_text(expected: &str, found: &str, when: &str) {
    if let Some(at) = expected.lines().zip(found.lines()).position(|(a, b)| a != b) {
        let part =
            |text: &str| text.lines().skip(at.saturating_sub(8)).take(12).collect::<Vec<_>>().join("\n");
        assert_eq!(part(expected), part(found), "{when}");
    }
    assert_eq!(expected.lines().count(), found.lines().count(), "{when}");
}

/// Makes files older: one that is read just after it was written may still change within the same tick.
fn age(dir: &Path) {
    for path in logs_under(dir) {
        let file = File::options().append(true).open(path).expect("opened");
        file.set_modified(SystemTime::now() - Duration::from_secs(3600)).expect("changed");
    }
}

/// Conversations with branches and losses, subagents of both kinds, an orphan, summaries in another file, hostile logs.
fn library() -> Home {
    let home = Home::default();
    for (n, (_, shape)) in shapes::SHAPES.iter().enumerate() {
        let log = shape(10).bytes();
        home.write(&format!("projects/-shapes/{n:08x}-0000-4000-8000-000000000000.jsonl"), &log);
    }
    for number in 1..9 {
        let mut log = LogBuilder::new(number);
        log.cwd = if number % 2 == 0 { "/home/ada/work/api" } else { "/home/ada/play" }.to_owned();
        log.wait(u64::from(number) * 3600);
        let first = log.prompt(&format!("Prompt {number}"));
        log.answer("Done.");
        if number % 3 == 0 {
            log.back_to(&first);
            log.answer("Done differently.");
            log.prompt("And now?");
        }
        let path = home.add(&log.cwd.clone(), &log);
        let side = path.with_extension("");
        if number == 2 {
            fs::create_dir_all(side.join("subagents")).expect("created");
            fs::write(side.join("subagents/agent-a1.jsonl"), log.bytes()).expect("written");
        }
        if number == 4 {
            fs::write(path.with_file_name("agent-b2.jsonl"), log.bytes()).expect("written");
            fs::create_dir_all(&side).expect("created");
            let origin =
                r#"{"source":"00000002","kind":"clone","time":"2026-01-08T00:00:00.000Z","directory":"/x"}"#;
            fs::write(side.join("origin.json"), origin).expect("written");
        }
    }
    home.write("projects/-orphans/gone/subagents/agent-c3.jsonl", b"{\"type\":\"user\",\"uuid\":\"1\"}\n");
    home.write("projects/-empty/empty.jsonl", b"");
    home.write("projects/-empty/torn.jsonl", b"{\"type\":\"user\",\"uuid\":\"1\",\"message\":{\"role\":\"us");
    home.write("projects/-empty/not a uuid.jsonl", b"nonsense\n");
    home
}

#[test]
fn listing_is_the_same_with_and_without_an_index() {
    let mut both = TwoLibraries::new(library());
    both.assert_same("indexed");
    let mut logs = logs_under(both.home.path());
    logs.retain(|path| path.to_string_lossy().contains("work-api"));
    let [first, second, .., last] = &logs[..] else { panic!("several logs") };
    fs::write(first, LogBuilder::new(77).bytes()).expect("rewritten");
    let grown = [
        fs::read(second).expect("read"),
        b"{\"type\":\"summary\",\"summary\":\"A\",\"leafUuid\":\"1\"}\n".to_vec(),
    ];
    fs::write(second, grown.concat()).expect("grown");
    fs::rename(last, last.with_file_name("renamed.jsonl")).expect("renamed");
    fs::create_dir_all(second.with_extension("").join("subagents")).expect("created");
    both.home.add("/home/ada/new", &LogBuilder::new(99));
    both.assert_same("changed since");
    both.indexed.update_index().expect("it has a cache directory").expect("indexed");
    both.assert_same("indexed again");

    let catalogue = both.catalogue();
    let bytes = fs::read(&catalogue).expect("read");
    for (name, damaged) in [
        ("cut", bytes[..bytes.len() / 2].to_vec()),
        ("another file", b"not a database".to_vec()),
        ("empty", Vec::new()),
        ("flipped", bytes.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at % 4099 == 4098)).collect()),
    ] {
        fs::write(&catalogue, damaged).expect("written");
        both.assert_same(name);
    }
    fs::remove_dir_all(both.cache.path().join("index")).expect("removed");
    both.assert_same("deleted");
    // A library remembers where subagents are.
    both.plain = Library::open([both.home.path()]);
    both.indexed = Library::builder().root(both.home.path()).cache_dir("/dev/null/none").open();
    both.assert_same("no cache directory");
}

#[test]
fn listing_of_real_logs_is_the_same_with_and_without_an_index() {
    let Some(corpus) = shared("corpus") else { return };
    let home = Home::default();
    for (n, path) in logs_under(&corpus).iter().enumerate() {
        let log = fs::read(path).expect("read");
        let project = n % 5;
        home.write(&format!("projects/-p{project}/{n:08x}-0000-4000-8000-000000000000.jsonl"), &log);
    }
    TwoLibraries::new(home).assert_same("real logs");
}

/// The content of a log changes here although its size and time do not, which shows whether it is read.
#[test]
fn unchanged_logs_are_not_read_again() {
    let home = Home::default();
    for number in 1..5 {
        let mut log = LogBuilder::new(number);
        log.prompt("Is the working tree clean?");
        log.answer("Yes.");
        home.add("/home/ada/api", &log);
    }
    let both = TwoLibraries::new(home);
    let options = || LsOptions::new().check(true);
    let before = text(&both.indexed.ls(&options()));
    for path in logs_under(both.home.path()) {
        let file = File::options().write(true).open(&path).expect("opened");
        let stat = file.metadata().expect("a file");
        fs::write(&path, " ".repeat(stat.len() as usize)).expect("written");
        file.set_modified(stat.modified().expect("a time")).expect("changed");
    }
    assert_same_text(&before, &text(&both.indexed.ls(&options())), "unchanged");
    assert_same_text(&before, &text(&both.indexed.ls(&options().limit(100))), "with a limit");
    assert!(both.plain.ls(&options()).sessions.is_empty());
}
