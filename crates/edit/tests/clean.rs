//! Tests of cleaning and redaction on whole logs.

use rethread_edit::{Level, RedactOptions, Redaction, RedactionCounts, Rule, RuleSet};
use rethread_log::unescape;
use rethread_testkit::bulky_session::bulky_session;
use rethread_testkit::clean_laws::{check_clean, clean};
use rethread_testkit::credentials::{
    FILES, PLACES, PlantedCredential, base64, entry, file, percent, planted_credentials,
};
use rethread_testkit::hostile;

fn secrets() -> RedactOptions {
    RedactOptions { secrets: true, ..RedactOptions::default() }
}

/// Returns a log and its text after one to four rounds of unescaping.
fn unescaped_readings(log: &[u8]) -> Vec<String> {
    let mut all = vec![String::from_utf8_lossy(log).into_owned()];
    for _ in 0..4 {
        let last = all.last().expect("one").clone();
        all.push(unescape(last.as_bytes()).into_owned());
    }
    all
}

/// Returns the parts of a secret that must not be left, plain and percent-encoded: each line and its last five bytes.
fn secret_parts(one: &PlantedCredential) -> Vec<String> {
    let lines = one.secret.lines().filter(|line| !line.starts_with("-----"));
    let parts = lines.flat_map(|line| [line, &line[line.len() - 5..]]);
    parts.flat_map(|part| [part.to_owned(), percent(part)]).collect()
}

/// Returns whether any part of a secret is left in a text or in the base64 in it.
fn is_secret_left(text: &[u8], one: &PlantedCredential, encoded: &str) -> bool {
    let parts = secret_parts(one);
    let readings = unescaped_readings(text);
    readings.iter().any(|text| parts.iter().any(|part| text.contains(part)))
        || encoded.get(..24).is_some_and(|start| readings[0].contains(start))
}

#[test]
fn no_planted_secret_survives_anywhere() {
    let (mut survivors, mut unsteady) = (Vec::new(), Vec::new());
    let (mut n_kinds, mut n) = (0, 0);
    for seed in 0..3 {
        let kinds = planted_credentials(seed);
        n_kinds = kinds.len();
        for one in &kinds {
            for place in PLACES {
                // Each one alone: the rules must find it without a value recognised elsewhere.
                let line = entry(place, &one.text, 0);
                let (out, _) = clean(line.as_bytes(), RuleSet::default(), &secrets());
                let encoded = match place {
                    "base64" | "base64 lines" => base64(&format!("before {} after", one.text), usize::MAX),
                    _ => String::new(),
                };
                n += 1;
                if is_secret_left(&out, one, &encoded) {
                    let text: String = one.text.chars().take(80).collect();
                    survivors.push(format!("{seed} {} in {place}: {text}", one.kind));
                }
                let (twice, again) = clean(&out, RuleSet::default(), &secrets());
                if twice != out || !again.redactions.0.is_empty() {
                    let (twice, out) = (String::from_utf8_lossy(&twice), String::from_utf8_lossy(&out));
                    unsteady.push(format!("{seed} {} in {place}: {out}became {twice}", one.kind));
                }
            }
        }
    }
    assert!(n_kinds >= 250 && PLACES.len() >= 20, "{n_kinds} kinds in {} places", PLACES.len());
    assert!(survivors.is_empty(), "{} of {n} survive:\n{}", survivors.len(), survivors.join("\n"));
    assert!(unsteady.is_empty(), "redacting again changes more:\n{}", unsteady.join("\n"));
}

#[test]
fn no_planted_secret_survives_in_sidecar_files() {
    let redaction = Redaction::new(secrets());
    let mut survivors = Vec::new();
    for one in planted_credentials(7) {
        for kind in FILES {
            let bytes = file(kind, &one.text);
            let mut counts = RedactionCounts::default();
            let out = redaction.rewrite_file(&bytes, &mut counts).expect("file is text").unwrap_or(bytes);
            let text: Vec<u8> = if kind.starts_with("UTF-") {
                out.iter().copied().filter(|b| *b != 0).collect()
            } else {
                out.clone()
            };
            if is_secret_left(&text, &one, "") || counts.0.is_empty() {
                survivors.push(format!("{} in {kind}: {}", one.kind, one.text));
            }
            let again = redaction.rewrite_file(&out, &mut RedactionCounts::default());
            if !matches!(again, Ok(None)) {
                survivors.push(format!("{} in {kind} changes again", one.kind));
            }
        }
    }
    assert!(survivors.is_empty(), "{} survive:\n{}", survivors.len(), survivors.join("\n"));
    assert!(redaction.rewrite_file(b"\x80\xff\x00", &mut RedactionCounts::default()).is_err());
}

#[test]
fn secret_recognised_once_is_redacted_everywhere() {
    let secret = "Zk3vQ8rT1xW5yB7nM2pL4sD6fG9hJ0aC1eR3tY5u";
    let mut log = entry("user text", &format!("aws_secret_access_key = {secret}"), 0);
    log += &entry("assistant text", &format!("I use {secret} now"), 1);
    let (out, cleaned) = clean(log.as_bytes(), RuleSet::default(), &secrets());
    assert!(!String::from_utf8_lossy(&out).contains(secret));
    assert_eq!(cleaned.redactions.0.get("aws-secret-key"), Some(&2));
}

#[test]
fn ids_hashes_and_data_are_kept() {
    let harmless = [
        "commit 3f786850e387550fdab836ed7e6dc881de23001b by somebody",
        "the session 5f2b8a34-9c1d-4e7f-8a2b-1c3d5e7f9a0b and toolu_01A2b3C4d5E6f7G8h9J0k1L2",
        "const token = process.env.API_TOKEN; let password = getPassword(user);",
        "token: string, maxTokens: 4096, tokenCount = tokens.length",
        "password: your_password_here",
        "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        "see https://user@host/path and https://example.com:8080/a@b",
        "\"integrity\": \"sha512-oiGKkQmFkEbmGGJJbUvYJ9yXhvYzT4mQb7qE0bY4lJZfCkEwT7mVJ8fUqk3h2p5dQ1xW9zA0sB6nR2cD4eF8gA==\"",
        "checksum = \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"",
        "name = \"tokio\"\nversion = \"1.0\"\nsource = \"git+https://host/tokio#3f786850e387550fdab836ed7e6dc881de23001b\"",
        "index 3f78685..e387550 100644\n--- a/src/password.rs\n+++ b/src/token_store.rs",
        "blob_sha: 3f786850e387550fdab836ed7e6dc881de23001b, tree_id = 3f786850e387550fdab836ed7e6dc881de23001b",
        "--- PASS: TestTokenStore_Rotate2 (0.00s)\nok 12 passed, 3 skipped, pass: 12",
        "!function(e,t){var n=t.token||e.getToken(),r=e.secretKey?e.secretKey():null;return n.password=r}(a,b);",
        "if password == other.password2 && token != self.tokens[0] { return Err(PasswordMismatch) }",
        "token: 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed, tx 0x88df016429689c079f3b2f6ad39fa052532c56795b733da78a91ebe5a713944b",
        "PWD=/tmp/tmp.Xa8Sd9Kq2L OLDPWD=/home/me/projects/x1y2 primary_key=user_id2 cache_key: v2-Linux-3f786850e3",
        "password: ${DB_PASSWORD:?missing} token=\"$(cat /run/secrets/token1)\" secret: {{ .Values.secret1 }}",
        "API_KEY=your-api-key-1234 and SECRET=<your secret 1> and TOKEN=xxxxxxxx1234",
        "model claude-sonnet-4-5-20250929, session_id=2026-01-23-staging-test, request req_011CSHoEeqs5C35K2UUqR7Fy",
        "the fields `password_reset`, `login_2fa` and (\"tokens\", \"secret2\")",
        "nextPageToken: CAUQAA1b2C3d4, token_count=1234, tokenizer: cl100k_base, max_tokens: 8192",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
        "[0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]",
        "aGVsbG8gd29ybGQsIHRoaXMgaXMganVzdCBzb21lIHRleHQgaW4gYmFzZTY0",
        "eyJuYW1lIjoid29ybGQifQ and %48%65%6C%6C%6F%20%77%6F%72%6C%64",
        "class=\"mt-4 token-list\" data-key=\"row-12\" href=\"/users/12/tokens?page=2&token=\"",
        "docker run -u 1000:1000 -p 8080:80 x && mkdir -p build2/out && git push -u origin v2 -p",
        "curl -b cookies.txt https://host/x?key=user_name2&code=404 and git checkout -b feature2=x",
        "| token | string | required |\n| password2 | the second one, see v2 |\n| `OWM_API_KEY` | OpenWeatherMap API key |\n| `APPLE_ID_PASSWORD` | App-specific password |",
        "**Password:** required, at least 12 characters\n\npassword:\n  secretKeyRef2: x\ntoken:\n  - name: a1",
        "setToken(token2); user.password(); getPassword(\"user1\"); $('#password2').val(); fill('#name', 'bob1')",
        "variable \"db_password\" {\n  type = string\n  default = \"\"\n}",
        "// TODO: see docs@2 and //host:8080/@scope/pkg1 and //cdn.host/a:b@2.0.1",
        "salt: 10, saltRounds = 12, pepper: true, clave primaria, enclave: v2, the API key `api_key_2`",
        "echo build2 | tee log && echo $TOKEN | docker login --password-stdin && cargo login --help",
        "auth = ('user', 'admin'), login(\"user2\", \"name\"), (0) 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "secret_name my-app-2 auth_token is_valid2 api_key required_field_1",
        "fn password(&self) -> &str; pub token: Option<String>, secret: Vec<u8>, api_key: impl Into<String>",
    ];
    let mut changed = Vec::new();
    for text in harmless {
        let line = entry("tool result", text, 0);
        let (out, _) = clean(line.as_bytes(), RuleSet::default(), &secrets());
        if out != line.as_bytes() {
            changed.push(String::from_utf8_lossy(&out).into_owned());
        }
    }
    assert!(changed.is_empty(), "{}", changed.concat());
}

#[test]
fn forged_redaction_mark_protects_nothing() {
    for text in [
        "[REDACTED:ghp_a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4e5F6]",
        "[REDACTED: DB_PASSWORD=a1B2c3D4e5F6!",
        "DB_PASSWORD=[REDACTED:password]a1B2c3D4e5F6!",
        "DB_PASSWORD=[REDACTED:a1B2c3D4e5F6!]",
        "DB_PASSWORD=\"a1B2c3D4e5F6![REDACTED:password]\"",
        "[REDACTED:password]=a1B2c3D4e5F6!",
    ] {
        let (out, _) = clean(entry("user text", text, 0).as_bytes(), RuleSet::default(), &secrets());
        let out = String::from_utf8_lossy(&out).into_owned();
        assert!(!out.contains("a1B2c3D4e5F6"), "{text}: {out}");
        let (twice, _) = clean(out.as_bytes(), RuleSet::default(), &secrets());
        assert_eq!(String::from_utf8_lossy(&twice), out);
    }
}

#[test]
fn extra_and_allowed_patterns_apply() {
    let redact = RedactOptions {
        extra: vec![RedactOptions::pattern("ACME-[0-9]+").expect("valid pattern")],
        allow: vec![RedactOptions::pattern("^ghp_0").expect("valid pattern")],
        ..secrets()
    };
    let line = entry("user text", &format!("ACME-77 ghp_0{}", "a1B".repeat(12)), 0);
    let (out, _) = clean(line.as_bytes(), RuleSet::default(), &redact);
    let text = String::from_utf8_lossy(&out);
    assert!(text.contains("[REDACTED:also] ghp_0a1B"), "{text}");
    assert!(RedactOptions::pattern("(").is_err() && RedactOptions::pattern("a*").is_err());
}

#[test]
fn names_get_stable_pseudonyms() {
    let people = RedactOptions { people: true, ..RedactOptions::default() };
    let log = r#"{"type":"mode","cwd":"/home/marianne/app","keys":{"/home/bob/x":1,"bob@corp.io":2}}"#
        .to_owned()
        + "\n"
        + &entry("user text", "in /home/marianne/app I am marianne@laptop: see marianne.x@corp.io", 0)
        + &entry("tool result", "-home-marianne-app and C:\\Users\\marianne\\x by Marianne", 1);
    let (out, _) = clean(log.as_bytes(), RuleSet::default(), &people);
    let text = String::from_utf8_lossy(&out);
    assert!(
        !text.to_lowercase().contains("marianne") && !text.contains("corp.io") && !text.contains("laptop"),
        "{text}"
    );
    assert!(!text.contains("bob"), "{text}");
    let (twice, _) = clean(&out, RuleSet::default(), &people);
    assert_eq!(String::from_utf8_lossy(&twice), text);
    // A URL route is not a home directory, and words that clients define are kept.
    let harmless = entry("user text", "GET /users/text and router(/home) by user", 0);
    let (out, _) = clean(harmless.as_bytes(), RuleSet::default(), &people);
    assert_eq!(String::from_utf8_lossy(&out), harmless);
}

#[test]
fn owner_of_a_session_outside_home_directories_is_replaced_everywhere() {
    let people = RedactOptions { people: true, ..RedactOptions::default() };
    let cleaned = |cwd: &str| {
        let log = serde_json::json!({ "type": "mode", "cwd": cwd }).to_string()
            + "\n"
            + &entry("user text", "hello winona there: C:\\Users\\winona\\x", 0)
            + &entry("tool result", "-rw-r--r-- 1 winona 197609 see /home/bob/x, said bob", 1);
        let (out, _) = clean(log.as_bytes(), RuleSet::default(), &people);
        String::from_utf8(out).expect("text")
    };
    let outside = cleaned("D:\\code\\app");
    assert!(!outside.contains("winona") && !outside.contains("bob"), "{outside}");
    // An owner who is known is not one of the others.
    let inside = cleaned("C:\\Users\\winona\\app");
    assert!(
        !inside.contains("winona") && !inside.contains("/bob") && inside.contains("said bob"),
        "{inside}"
    );
}

#[test]
fn names_in_windows_paths_are_replaced_at_any_depth_of_escaping() {
    let people = RedactOptions { people: true, ..RedactOptions::default() };
    for users in ["Users", "users"] {
        let mut text = format!("run C:\\{users}\\winona\\app.exe");
        for depth in 0..5 {
            let log = entry("tool result", &text, 0);
            assert!(log.contains("winona"));
            let (out, _) = clean(log.as_bytes(), RuleSet::default(), &people);
            assert!(!String::from_utf8_lossy(&out).contains("winona"), "{users} at depth {depth}");
            text = serde_json::to_string(&text).expect("JSON");
        }
    }
}

#[test]
fn text_that_resembles_data_is_scanned() {
    let env: String = (0..20)
        .map(|n| format!("SETTING_{n}=0123456789012345678901234567890123456789012345678901234567890123\n"))
        .collect();
    let secret = format!("ghp_{}", "a1B".repeat(12));
    let (out, _) = clean(
        entry("tool result", &format!("{env}T={secret}"), 0).as_bytes(),
        RuleSet::of(Level::Light),
        &secrets(),
    );
    let text = String::from_utf8_lossy(&out);
    assert!(!text.contains(&secret) && text.contains("SETTING_19="), "{text}");
    let hashes = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n".repeat(12);
    let line = entry("user text", &hashes, 0);
    let (out, _) = clean(line.as_bytes(), RuleSet::of(Level::Light), &RedactOptions::default());
    assert_eq!(String::from_utf8_lossy(&out), line);
}

#[test]
fn ids_are_not_redacted_even_under_secret_names() {
    let log = entry("tool input", "x", 0)
        + &entry(
            "tool result",
            "authToken: toolu_0 and heroku_session_key: 00000000-0000-4000-8000-000000000000",
            1,
        );
    let (out, _) = clean(log.as_bytes(), RuleSet::default(), &secrets());
    let text = String::from_utf8_lossy(&out);
    assert!(
        text.contains(r#""id":"toolu_0""#)
            && text.contains(r#""uuid":"00000000-0000-4000-8000-000000000000""#),
        "{text}"
    );
}

#[test]
fn escaped_names_and_repeated_prefixes_are_handled() {
    let odd = r#"{"we\"ird":1,"type":"user","uuid":"a","message":{"role":"user","x\"y":2,"content":"hello"},"z":3}"#;
    let (out, _) =
        clean(format!("{odd}\n").as_bytes(), RuleSet::of(Level::Strong), &RedactOptions::default());
    assert_eq!(
        String::from_utf8_lossy(&out),
        "{\"type\":\"user\",\"uuid\":\"a\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n"
    );
    for many in [
        "-----BEGIN PRIVATE KEY-----\n",
        "sk-",
        "eyJ-",
        "token=",
        "(password=)",
        "a://",
        "kind: secret\n",
        "[REDACTED:",
        "authorization: ",
        "%41",
        "\\\"secret\\\":\\\"",
        "ICAgICAg",
    ] {
        let many = many.repeat(30_000);
        clean(entry("user text", &many, 0).as_bytes(), RuleSet::default(), &secrets());
    }
}

#[test]
fn thinking_with_a_secret_is_removed_whole() {
    let thinking = r#"{"parentUuid":null,"type":"assistant","uuid":"a","message":{"role":"assistant","id":"m","content":[{"type":"thinking","thinking":"use ghp_012345678901234567890123456789abcdef","signature":"s"},{"type":"text","text":"hello"}]}}"#;
    let (out, _) = clean(format!("{thinking}\n").as_bytes(), RuleSet::default(), &secrets());
    let text = String::from_utf8_lossy(&out);
    assert!(text.contains(r#""content":[{"type":"text","text":"hello"}]"#), "{text}");
}

#[test]
fn clean_laws_hold_for_hostile_logs() {
    for log in [hostile::hostile(1), hostile::varied(2), hostile::long(3, 20), hostile::redone(4)] {
        for level in Level::ALL {
            if let Err(wrong) = check_clean(&log.bytes(), level) {
                panic!("at {}: {wrong}", level.name());
            }
        }
    }
}

#[test]
fn child_written_before_its_removed_parent_is_reparented() {
    let progress = r#"{"parentUuid":"a","type":"progress","uuid":"p","data":{}}"#;
    let child = r#"{"parentUuid":"p","type":"assistant","uuid":"b","message":{"role":"assistant","id":"m","content":[{"type":"text","text":"x"}]}}"#;
    let first = r#"{"parentUuid":null,"type":"user","uuid":"a","message":{"role":"user","content":"hello"}}"#;
    let log = format!("{first}\n{child}\n{progress}\n");
    let (out, _) = clean(log.as_bytes(), RuleSet::of(Level::Standard), &RedactOptions::default());
    assert!(String::from_utf8_lossy(&out).contains(r#"{"parentUuid":"a","type":"assistant""#));
}

/// 2.0.36 makes the thinking block the parent of the next entry if the text after it has the same timestamp.
#[test]
fn text_after_removed_thinking_stays_on_path() {
    let mut log = rethread_testkit::LogBuilder::new(1);
    log.prompt("First");
    let words = serde_json::json!({ "type": "text", "text": "Said after a thought" });
    let thought = serde_json::json!({ "type": "thinking", "thinking": "A thought", "signature": "c2ln" });
    let message = log.message(&[thought, words]);
    log.back_to(&message[0]);
    log.prompt("Second");
    log.answer("Done");
    let rules = RuleSet::from_iter([Rule::Thinking]);
    let lines = String::from_utf8(log.bytes()).expect("UTF-8");
    let mut lines: Vec<&str> = lines.lines().collect();
    // The order of the text and the next prompt in the file does not matter.
    for _ in 0..2 {
        let (out, _) = clean((lines.join("\n") + "\n").as_bytes(), rules, &RedactOptions::default());
        let text = String::from_utf8(out.clone()).expect("UTF-8");
        let row = |words: &str| -> serde_json::Value {
            let line = text.lines().find(|line| line.contains(words)).expect("entry is kept");
            serde_json::from_str(line).expect("JSON")
        };
        assert_eq!(row("Second")["parentUuid"], row("Said after")["uuid"], "{text}");
        assert_eq!(row("Said after")["parentUuid"], row("First")["uuid"], "{text}");
        assert_eq!(clean(&out, rules, &RedactOptions::default()).0, out);
        lines.swap(2, 3);
    }
}

/// A scaled-down model of a measured library of 423 MB: 56 % base64, and files that are stored twice.
#[test]
fn standard_level_shrinks_a_bulky_session() {
    let log = bulky_session(7, 8).bytes();
    let (_, cleaned) = clean(&log, RuleSet::of(Level::Standard), &RedactOptions::default());
    let share = |n: u64| n as f64 / cleaned.bytes_before as f64;
    let base64 = 1.0 - share(cleaned.without_base64());
    assert!((0.5..0.62).contains(&base64), "{base64}");
    assert!(
        share(cleaned.bytes_after) <= 0.10,
        "{} is left: {:?}",
        share(cleaned.bytes_after),
        cleaned.by_rule
    );
    for level in Level::ALL {
        check_clean(&log, level).unwrap_or_else(|wrong| panic!("{}: {wrong}", level.name()));
    }
}

#[test]
fn rule_names_are_unique() {
    for rule in Rule::ALL {
        assert_eq!(Rule::from_name(rule.name()), Some(rule));
    }
}
