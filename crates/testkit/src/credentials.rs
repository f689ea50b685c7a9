//! Fake credentials in the formats of real services, and entries that contain them in every place where text can
//! occur.

mod forms;
mod places;

use forms::FORMS;
pub use places::{FILES, PLACES, base64, entry, file, percent};

use crate::rng::TestRng;

/// A credential and the text around it.
#[derive(Debug, Clone)]
pub struct PlantedCredential {
    /// The kind of credential.
    pub kind: &'static str,
    /// The text that contains the credential.
    pub text: String,
    /// The part that must not be left.
    pub secret: String,
}

const DIGITS: &str = "0123456789";
const HEX: &str = "0123456789abcdef";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const MIXED: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const WORD: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const SIGNS: &str = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789!#$%&()*+-.=?@^_~";

/// Generates the parts of credentials.
impl TestRng {
    fn uuid(&mut self) -> String {
        let (a, b, c, d, e) = (
            self.chars(HEX, 8),
            self.chars(HEX, 4),
            self.chars(HEX, 3),
            self.chars(HEX, 3),
            self.chars(HEX, 12),
        );
        format!("{a}-{b}-4{c}-8{d}-{e}")
    }

    /// Fills in a form.
    fn form(&mut self, form: &str) -> String {
        let mut out = String::new();
        let mut rest = form;
        while let Some(open) = rest.find('<') {
            out.push_str(&rest[..open]);
            let close = open + rest[open..].find('>').expect("form closes its placeholder");
            let (letter, n) = rest[open + 1..close].split_at(1);
            let alphabet = match letter {
                "m" => MIXED,
                "h" => HEX,
                "u" => UPPER,
                "k" => BASE32,
                "l" => LOWER,
                "d" => DIGITS,
                "n" => "123456789",
                "w" => WORD,
                "b" => BASE64,
                _ => SIGNS,
            };
            out.push_str(&match n.parse() {
                Ok(n) => self.mixed_chars(alphabet, n),
                Err(_) => self.uuid(),
            });
            rest = &rest[close + 1..];
        }
        out + rest
    }

    /// Returns characters with both letters and digits if there are enough of them, and with a letter or digit at both
    /// ends; a secret of one repeated letter would not be recognised.
    fn mixed_chars(&mut self, alphabet: &str, n: usize) -> String {
        loop {
            let text = self.chars(alphabet, n);
            let ends = [text.bytes().next(), text.bytes().last()];
            let plain_ends = ends.iter().flatten().all(u8::is_ascii_alphanumeric);
            let letters = text.bytes().filter(u8::is_ascii_alphabetic).count();
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            let both = letters * 8 > n && digits * 12 > n;
            if n < 8 || plain_ends && (both || alphabet == DIGITS || alphabet == "123456789") {
                return text;
            }
        }
    }
}

/// Returns one credential of each kind.
pub fn planted_credentials(seed: u64) -> Vec<PlantedCredential> {
    let mut rng = TestRng(seed.wrapping_mul(2).wrapping_add(1));
    let mut all = Vec::new();
    let mut add = |kind: &'static str, text: &str, secret: String| {
        all.push(PlantedCredential { kind, text: text.replace("{}", &secret), secret });
    };
    add("token with a blank behind it", "API_TOKEN='{} x'", format!("a7B{}", rng.chars(MIXED, 27)));
    add("password with a blank before it", "DB_PASSWORD=\" {}\"", format!("Zk8{}", rng.chars(MIXED, 12)));
    add(
        "password behind a mark",
        "DB_PASSWORD=\"[REDACTED:assignment] {}\"",
        format!("Zk8{}", rng.chars(MIXED, 12)),
    );
    for (kind, text, form) in FORMS {
        add(kind, text, rng.form(form));
    }
    for (kind, name) in [
        ("rsa key", "RSA PRIVATE KEY"),
        ("ec key", "EC PRIVATE KEY"),
        ("dsa key", "DSA PRIVATE KEY"),
        ("openssh key", "OPENSSH PRIVATE KEY"),
        ("key", "PRIVATE KEY"),
        ("encrypted key", "ENCRYPTED PRIVATE KEY"),
        ("pgp key", "PGP PRIVATE KEY BLOCK"),
    ] {
        let lines: Vec<String> = (0..12).map(|_| rng.chars(MIXED, 64)).collect();
        add(kind, "{}", format!("-----BEGIN {name}-----\n{}\n-----END {name}-----", lines.join("\n")));
    }
    let bytes: Vec<String> = (0..64).map(|_| (rng.next() % 256).to_string()).collect();
    add("solana key", "{}", format!("[{}]", bytes.join(",")));
    const SEED: [&str; 16] = [
        "abandon", "ability", "cradle", "dolphin", "eager", "fabric", "garlic", "hazard", "icon", "jungle",
        "kidney", "ladder", "magnet", "napkin", "ocean", "paddle",
    ];
    let words: Vec<&str> = (0..12).map(|_| SEED[usize::try_from(rng.next() % 16).unwrap_or(0)]).collect();
    add("mnemonic", "mnemonic: {}\nkeep it well, where nobody ever looks", words.join(" "));
    all
}
