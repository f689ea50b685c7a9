//! Generates logs for benchmarks from a seed, the same on every machine.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use serde_json::json;

/// A small random generator; the quality of its randomness does not matter here.
pub(crate) struct TextRng(pub(crate) u64);

impl TextRng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn text(&mut self, words: u64) -> String {
        const WORDS: [&str; 16] = [
            "the",
            "kettle",
            "reads",
            "a",
            "sensor",
            "and\n",
            "writes",
            "\"quoted\"",
            "path/to/file.rs",
            "fn",
            "{",
            "}",
            "error:",
            "\tindented",
            "naïve",
            "done.",
        ];
        (0..words).map(|_| WORDS[self.below(16) as usize]).collect::<Vec<_>>().join(" ")
    }
}

/// Writes a session of about `bytes` bytes: prompts, thinking, calls with results stored twice.
pub(crate) fn session(path: &Path, bytes: u64, seed: u64) -> Result<()> {
    let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut out = BufWriter::new(fs::File::create(path)?);
    let mut rng = TextRng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut written, mut n, mut parent) = (0u64, 0u64, None::<String>);
    let mut entry = |kind: &str,
                     message: serde_json::Value,
                     copy: Option<serde_json::Value>|
     -> Result<u64> {
        n += 1;
        let uuid = format!("{:08x}-0000-4000-8000-{n:012x}", seed as u32);
        let (h, m, s) = (n / 3600 % 24, n / 60 % 60, n % 60);
        let mut line = json!({ "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": "/home/user/app",
            "sessionId": id, "version": "2.1.50", "gitBranch": "main", "type": kind, "message": message });
        if let Some(copy) = copy {
            line["toolUseResult"] = copy;
        }
        line["uuid"] = json!(uuid);
        line["timestamp"] = json!(format!("2026-02-{:02}T{h:02}:{m:02}:{s:02}.000Z", 1 + n / 86_400 % 28));
        parent = Some(uuid);
        let line = line.to_string();
        out.write_all(line.as_bytes())?;
        out.write_all(b"\n")?;
        Ok(line.len() as u64 + 1)
    };
    let mut turn = 0u64;
    while written < bytes {
        turn += 1;
        written += entry("user", json!({ "role": "user", "content": rng.text(30) }), None)?;
        for call in 0..rng.below(8) {
            let message = |content| {
                json!({ "model": "claude-opus-5", "id": format!("msg_{seed}_{turn}_{call}"), "type": "message", "role": "assistant",
                    "content": [content], "stop_reason": null, "usage": { "input_tokens": 5, "output_tokens": 70,
                    "cache_creation_input_tokens": 900, "cache_read_input_tokens": 12_000 } })
            };
            let thinking =
                json!({ "type": "thinking", "thinking": rng.text(40), "signature": "x".repeat(300) });
            written += entry("assistant", message(thinking), None)?;
            let tool = format!("toolu_{seed}_{turn}_{call}");
            let input = json!({ "type": "tool_use", "id": tool, "name": "Bash", "input": { "command": rng.text(12) } });
            written += entry("assistant", message(input), None)?;
            let words = if rng.below(20) == 0 { 4000 } else { 150 };
            let output = rng.text(words);
            let result = json!({ "type": "tool_result", "tool_use_id": tool, "content": output });
            written += entry(
                "user",
                json!({ "role": "user", "content": [result] }),
                Some(json!({ "stdout": output, "stderr": "" })),
            )?;
        }
        let answer = json!({ "model": "claude-opus-5", "id": format!("msg_{seed}_{turn}_end"), "type": "message", "role": "assistant",
            "content": [{ "type": "text", "text": rng.text(120) }], "stop_reason": "end_turn",
            "usage": { "input_tokens": 5, "output_tokens": 170 } });
        written += entry("assistant", answer, None)?;
    }
    out.flush()?;
    Ok(())
}
