//! A session that is mostly images and files stored twice.
//!
//! The proportions are those of a measured library of 423 MB: 56 % base64 of images and PDFs, the whole file with
//! every edit, and every file that was read stored both in the result and in the client's copy of it.

use serde_json::json;

use crate::LogBuilder;
use crate::rng::TestRng;

/// Returns the text of a file.
fn file(rng: &mut TestRng, lines: usize) -> String {
    (0..lines).map(|_| rng.chars("abcdefghij klmnop qrstuvwxyz_();{}", 40) + "\n").collect()
}

/// Builds such a session with a number of turns of about 450 kB each.
pub fn bulky_session(number: u32, turns: u32) -> LogBuilder {
    const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut rng = TestRng(u64::from(number) + 1);
    let mut log = LogBuilder::new(number);
    for turn in 0..turns {
        let picture = rng.chars(BASE64, 85_000);
        log.entry(
            "user",
            json!({ "message": { "role": "user", "content": [
                { "type": "text", "text": format!("{turn}: what is wrong on this page? {}", file(&mut rng, 4)) },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": picture } },
            ] } }),
        );
        log.message(&[
            json!({ "type": "thinking", "thinking": file(&mut rng, 10), "signature": rng.chars(BASE64, 2000) }),
            json!({ "type": "text", "text": file(&mut rng, 20) }),
        ]);
        let name = format!("/home/user/app/src/{turn}.rs");
        let text = file(&mut rng, 300);
        let read = log.call("Read", &json!({ "file_path": name }));
        let numbered: String =
            text.lines().enumerate().map(|(n, line)| format!("{:>6}→{line}\n", n + 1)).collect();
        let copy = json!({ "type": "text", "file": { "filePath": name, "content": text.trim_end(), "numLines": 300 } });
        log.result_with(&read, &json!(numbered.trim_end()), &copy);
        for n in 0..4 {
            let (old, new) = (file(&mut rng, 8), file(&mut rng, 9));
            let edit = log.call("Edit", &json!({ "file_path": name, "old_string": old, "new_string": new }));
            let patch: Vec<String> = new.lines().map(|line| format!("+{line}")).collect();
            log.entry(
                "progress",
                json!({ "data": { "type": "hook_progress", "output": file(&mut rng, 20) } }),
            );
            let copy = json!({
                "filePath": name, "oldString": old, "newString": new, "originalFile": file(&mut rng, 800),
                "structuredPatch": [{ "oldStart": n, "newStart": n, "lines": patch }], "userModified": false,
            });
            log.result_with(&edit, &json!("The file has been updated."), &copy);
        }
        let page = log.call("Screenshot", &json!({ "url": "http://localhost" }));
        let picture = rng.chars(BASE64, 85_000);
        let content = json!([{ "type": "image", "source": { "type": "base64", "media_type": "image/jpeg", "data": picture } }]);
        log.result_with(&page, &content, &content);
        log.answer(&file(&mut rng, 10));
        log.raw(&json!({ "type": "file-history-snapshot", "messageId": "m", "snapshot": { "trackedFileBackups": { name: {} } } }).to_string());
    }
    log
}
