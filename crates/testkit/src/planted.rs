//! Credentials that mean nothing, made as the services make theirs, and a session that holds them in
//! every place where something can stand.

use serde_json::{Value, json};

/// A credential and the words around it.
#[derive(Debug, Clone)]
pub struct Planted {
    /// What kind it is.
    pub kind: &'static str,
    /// How it stands in a text.
    pub text: String,
    /// What must not be left of it.
    pub secret: String,
}

/// Makes the same characters again and again.
struct Dice(u64);

const DIGITS: &str = "0123456789";
const HEX: &str = "0123456789abcdef";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const MIXED: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn some(&mut self, of: &str, n: usize) -> String {
        let of: Vec<char> = of.chars().collect();
        let text: String = (0..n).map(|_| of[usize::try_from(self.next()).unwrap_or(0) % of.len()]).collect();
        text
    }

    fn uuid(&mut self) -> String {
        let (a, b, c, d, e) =
            (self.some(HEX, 8), self.some(HEX, 4), self.some(HEX, 3), self.some(HEX, 3), self.some(HEX, 12));
        format!("{a}-{b}-4{c}-8{d}-{e}")
    }
}

/// One credential of each kind.
pub fn planted(seed: u64) -> Vec<Planted> {
    let mut dice = Dice(seed.wrapping_mul(2).wrapping_add(1));
    let mut all = Vec::new();
    let mut add = |kind: &'static str, text: &str, secret: String| {
        all.push(Planted { kind, text: text.replace("{}", &secret), secret });
    };
    let d = &mut dice;
    add("anthropic", "key {}", format!("sk-ant-api03-{}AA", d.some(MIXED, 93)));
    add("anthropic oauth", "{}", format!("sk-ant-oat01-{}", d.some(MIXED, 90)));
    add("openai", "OPENAI_API_KEY={}", format!("sk-proj-{}", d.some(MIXED, 120)));
    add("openai old", "{}", format!("sk-{}T3BlbkFJ{}", d.some(MIXED, 20), d.some(MIXED, 20)));
    add("huggingface", "login --token {}", format!("hf_{}", d.some(MIXED, 34)));
    add("groq", "{}", format!("gsk_{}", d.some(MIXED, 52)));
    add("github", "https://x-access-token:{}@github.com/a/b", format!("ghp_{}", d.some(MIXED, 36)));
    add("github server", "{}", format!("ghs_{}", d.some(MIXED, 36)));
    add("github fine", "{}", format!("github_pat_{}_{}", d.some(MIXED, 22), d.some(MIXED, 59)));
    add("gitlab", "PRIVATE-TOKEN: {}", format!("glpat-{}", d.some(MIXED, 20)));
    add("npm", "//registry.npmjs.org/:_authToken={}", format!("npm_{}", d.some(MIXED, 36)));
    add("pypi", "password = {}", format!("pypi-AgEIcHlwaS5vcmc{}", d.some(MIXED, 80)));
    add("docker hub", "docker login -p {}", format!("dckr_pat_{}", d.some(MIXED, 27)));
    add("rubygems", "{}", format!("rubygems_{}", d.some(HEX, 48)));
    add(
        "aws id",
        "aws_access_key_id = {}",
        format!("AKIA{}", d.some("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)),
    );
    add("aws secret", "aws_secret_access_key = {}", d.some(MIXED, 40));
    add("google api", "?key={}", format!("AIza{}", d.some(MIXED, 35)));
    add("google oauth", "client_secret: {}", format!("GOCSPX-{}", d.some(MIXED, 28)));
    add("google token", "{}", format!("ya29.{}", d.some(MIXED, 100)));
    add(
        "azure storage",
        "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={};",
        format!("{}==", d.some(MIXED, 86)),
    );
    add("azure client", "{}", format!("{}8Q~{}", d.some("abcXYZ", 3), d.some(MIXED, 34)));
    add("digitalocean", "{}", format!("dop_v1_{}", d.some(HEX, 64)));
    add("heroku", "HEROKU_API_KEY={}", d.uuid());
    add("cloudflare", "CLOUDFLARE_API_TOKEN={}", d.some(MIXED, 40));
    add("fly.io", "FLY_API_TOKEN=\"{}\"", format!("fm2_{}", d.some(MIXED, 120)));
    add("netlify", "{}", format!("nfp_{}", d.some(MIXED, 36)));
    add("supabase", "{}", format!("sbp_{}", d.some(HEX, 40)));
    add("vault", "VAULT_TOKEN={}", format!("hvs.{}", d.some(MIXED, 90)));
    add("terraform", "{}", format!("{}.atlasv1.{}", d.some(MIXED, 14), d.some(MIXED, 67)));
    add("doppler", "{}", format!("dp.pt.{}", d.some(MIXED, 43)));
    add("databricks", "{}", format!("dapi{}", d.some(HEX, 32)));
    add("datadog", "DD_API_KEY: {}", d.some(HEX, 32));
    add("grafana", "{}", format!("glsa_{}_{}", d.some(MIXED, 32), d.some(HEX, 8)));
    add("new relic", "{}", format!("NRAK-{}", d.some(UPPER, 27)));
    add("sentry", "{}", format!("sntryu_{}", d.some(HEX, 64)));
    add(
        "slack bot",
        "{}",
        format!("xoxb-{}-{}-{}", d.some(DIGITS, 12), d.some(DIGITS, 12), d.some(MIXED, 24)),
    );
    add(
        "slack hook",
        "https://hooks.slack.com/services/{}",
        format!("T{}/B{}/{}", d.some(UPPER, 8), d.some(UPPER, 10), d.some(MIXED, 24)),
    );
    add("discord hook", "https://discord.com/api/webhooks/123456789012345678/{}", d.some(MIXED, 68));
    add(
        "discord bot",
        "token {}",
        format!("M{}.{}.{}", d.some(MIXED, 25), d.some(MIXED, 6), d.some(MIXED, 38)),
    );
    add("telegram", "bot{}/getMe", format!("{}:AA{}", d.some("123456789", 10), d.some(MIXED, 33)));
    add("linear", "{}", format!("lin_api_{}", d.some(MIXED, 40)));
    add("notion", "{}", format!("ntn_{}", d.some(MIXED, 46)));
    add("airtable", "{}", format!("pat{}.{}", d.some(MIXED, 14), d.some(HEX, 64)));
    add("figma", "{}", format!("figd_{}", d.some(MIXED, 43)));
    add("stripe", "{}", format!("sk_live_{}", d.some(MIXED, 24)));
    add("stripe hook", "{}", format!("whsec_{}", d.some(MIXED, 32)));
    add("twilio", "TWILIO_AUTH_TOKEN={}", d.some(HEX, 32));
    add("sendgrid", "{}", format!("SG.{}.{}", d.some(MIXED, 22), d.some(MIXED, 43)));
    add("mailgun", "api:{}", format!("key-{}", d.some(HEX, 32)));
    add("mailchimp", "{}", format!("{}-us12", d.some(HEX, 32)));
    add("shopify", "{}", format!("shpat_{}", d.some(HEX, 32)));
    add("square", "{}", format!("sq0atp-{}", d.some(MIXED, 22)));
    add("postman", "{}", format!("PMAK-{}-{}", d.some(HEX, 24), d.some(HEX, 34)));
    add("age", "{}", format!("AGE-SECRET-KEY-1{}", d.some(UPPER, 58)));
    add("jwt", "{}", format!("eyJhbGciOiJIUzI1NiJ9.eyJ{}.{}", d.some(MIXED, 60), d.some(MIXED, 43)));
    add("bearer", "Authorization: Bearer {}", d.some(MIXED, 40));
    add("basic", "Authorization: Basic {}", format!("{}==", d.some(MIXED, 30)));
    add("cookie", "Cookie: {}", format!("session={}; theme=dark", d.some(MIXED, 32)));
    add("url", "postgres://app:{}@db.internal:5432/app", format!("{}!x", d.some(MIXED, 14)));
    add("password", "DB_PASSWORD={}", format!("{}#9", d.some(MIXED, 12)));
    add("json password", "{\"password\": \"{}\"}", format!("{}!7", d.some(MIXED, 12)));
    add("secret", "client_secret = '{}'", d.some(MIXED, 32));
    add("token", "export MY_TOKEN={}", d.some(MIXED, 30));
    add("curl", "curl -u admin:{} https://host.internal/", format!("{}x9", d.some(LOWER, 12)));
    add("netrc", "machine host.internal login me password {}", format!("{}x9", d.some(LOWER, 10)));
    for (kind, name) in [
        ("rsa key", "RSA PRIVATE KEY"),
        ("openssh key", "OPENSSH PRIVATE KEY"),
        ("key", "PRIVATE KEY"),
        ("pgp key", "PGP PRIVATE KEY BLOCK"),
    ] {
        let lines: Vec<String> = (0..12).map(|_| d.some(MIXED, 64)).collect();
        add(kind, "{}", format!("-----BEGIN {name}-----\n{}\n-----END {name}-----", lines.join("\n")));
    }
    all
}

/// Where something can stand.
pub const PLACES: [&str; 19] = [
    "user text",
    "user string",
    "assistant text",
    "tool input",
    "tool result",
    "result copy",
    "edit lines",
    "request",
    "queue",
    "snapshot",
    "title",
    "last prompt",
    "attachment",
    "progress",
    "escaped",
    "torn line",
    "nested lines",
    "coloured",
    "named value",
];

/// An entry that holds a text in a place; the last line of a log if the place is a torn line.
pub fn entry(place: &str, text: &str, n: usize) -> String {
    let uuid = format!("00000000-0000-4000-8000-{n:012}");
    let parent = (n > 0).then(|| format!("00000000-0000-4000-8000-{:012}", n - 1));
    let row = |kind: &str, more: Value| {
        let mut row = json!({
            "parentUuid": parent, "isSidechain": false, "type": kind, "uuid": uuid, "sessionId": "s",
            "timestamp": format!("2026-01-01T00:{:02}:{:02}.000Z", n / 60 % 60, n % 60), "version": "2.1.112",
        });
        if let (Some(row), Some(more)) = (row.as_object_mut(), more.as_object()) {
            row.extend(more.clone());
        }
        row
    };
    let user = |content: Value, more: Value| {
        let mut row = row("user", json!({"message": {"role": "user", "content": content}}));
        if let (Some(row), Some(more)) = (row.as_object_mut(), more.as_object()) {
            row.extend(more.clone());
        }
        row
    };
    let said = format!("before {text} after");
    let result = |content: &str| json!([{"type": "tool_result", "tool_use_id": format!("toolu_{n}"), "content": content}]);
    let value = match place {
        "user text" => user(json!([{"type": "text", "text": said}]), json!({})),
        "user string" => user(json!(said), json!({})),
        "assistant text" => row(
            "assistant",
            json!({"message": {"role": "assistant", "id": format!("msg_{n}"), "model": "claude-opus-5", "content": [{"type": "text", "text": said}]}}),
        ),
        "tool input" => row(
            "assistant",
            json!({"message": {"role": "assistant", "id": format!("msg_{n}"), "model": "claude-opus-5", "content": [{"type": "tool_use", "id": format!("toolu_{n}"), "name": "Bash", "input": {"command": said}}]}}),
        ),
        "tool result" => user(result(&said), json!({})),
        "result copy" => user(
            result("ok"),
            json!({"toolUseResult": {"stdout": json!({"log": said}).to_string(), "stderr": ""}}),
        ),
        "nested lines" => {
            let inner = json!({ "log": json!({ "text": format!("x\n{text}\ny") }).to_string() }).to_string();
            user(result(&inner), json!({}))
        }
        "coloured" => user(result(&format!("\u{1b}[32m{text}\u{1b}[0m")), json!({})),
        "named value" => user(result("ok"), json!({ "toolUseResult": { "env": { "A": text } } })),
        "edit lines" => user(
            result("ok"),
            json!({"toolUseResult": {"structuredPatch": [{"lines": said.lines().map(|line| format!("+{line}")).collect::<Vec<_>>()}]}}),
        ),
        "request" => {
            json!({"type": "api-request", "sessionId": "s", "body": {"messages": [{"role": "user", "content": said}]}})
        }
        "queue" => {
            json!({"type": "queue-operation", "operation": "enqueue", "sessionId": "s", "content": said})
        }
        "snapshot" => {
            json!({"type": "file-history-snapshot", "messageId": uuid, "snapshot": {"trackedFileBackups": {said: {"version": 1}}}})
        }
        "title" => json!({"type": "custom-title", "customTitle": said, "sessionId": "s"}),
        "last prompt" => json!({"type": "last-prompt", "lastPrompt": said, "sessionId": "s"}),
        "attachment" => row(
            "attachment",
            json!({"attachment": {"type": "edited_text_file", "filename": "/a", "snippet": said}}),
        ),
        "progress" => row("progress", json!({"data": {"type": "bash_progress", "output": said}})),
        "escaped" => {
            let escaped: String = said.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
            let line = user(json!("MARK"), json!({})).to_string();
            return line.replace("\"MARK\"", &format!("\"{escaped}\"")) + "\n";
        }
        _ => {
            let line = user(json!(said), json!({})).to_string();
            return line[..line.len() - 40].to_owned();
        }
    };
    value.to_string() + "\n"
}
