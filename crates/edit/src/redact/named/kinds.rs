//! The kinds of secrets that names announce.

use std::sync::OnceLock;

use aho_corasick::AhoCorasick;

/// The kind of secret that a name announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redact) enum SecretKind {
    /// A password: short, of any characters.
    Password,
    /// A secret or token.
    Secret,
    /// A key, which may also be the key of a map or table.
    Key,
    /// A value of a service whose keys have no recognisable form.
    Service,
    /// Base64 of a key or certificate.
    Data,
}

impl SecretKind {
    pub(in crate::redact) fn rule(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Secret => "assignment",
            Self::Key => "key",
            Self::Service => "service-key",
            Self::Data => "key-data",
        }
    }
}

/// Words that occur in names of secrets.
pub(in crate::redact) const WORDS: &[&str] = &[
    "pass",
    "pwd",
    "pw",
    "kennwort",
    "contrase",
    "contraseña",
    "senha",
    "secret",
    "token",
    "credential",
    "creds",
    "_key",
    "-key",
    ".key",
    "apikey",
    "accesskey",
    "authkey",
    "privatekey",
    "privkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "licensekey",
    "sharedkey",
    "storagekey",
    "accountkey",
    "servicekey",
    "clientkey",
    "appkey",
    "key-data",
    "certificate-data",
    "authority-data",
    "salt",
    "pepper",
    "webhook_url",
    "_auth",
    "masterauth",
    "psk",
    "verifier",
    // Names of several words.
    "api key",
    "secret key",
    "access key",
    "hmac key",
    "signing key",
    "encryption key",
    "master key",
    "subscription key",
    "license key",
    "otp seed",
    "otp_seed",
    "backup code",
    "backup_code",
    "recovery code",
    "recovery_code",
    // Passwords in other languages.
    "parola",
    "clave",
    "heslo",
    "haslo",
    "hasło",
    "lösenord",
    "wachtwoord",
    "пароль",
    "Пароль",
    "ПАРОЛЬ",
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "비밀번호",
];

/// Words for passwords with non-ASCII letters.
const FOREIGN: [&str; 10] =
    ["hasło", "lösenord", "пароль", "Пароль", "ПАРОЛЬ", "密码", "密碼", "口令", "パスワード", "비밀번호"];

/// Services whose keys have no recognisable form.
pub(in crate::redact) const SERVICES: &[&str] = &[
    "adafruit",
    "adobe",
    "airtable",
    "algolia",
    "alibaba",
    "amplitude",
    "artifactory",
    "asana",
    "atlassian",
    "auth0",
    "beamer",
    "bintray",
    "bitbucket",
    "bittrex",
    "cloudant",
    "cloudflare",
    "codecov",
    "cohere",
    "coinbase",
    "confluence",
    "confluent",
    "contentful",
    "datadog",
    "dd_api",
    "dd_app",
    "deepgram",
    "deepseek",
    "discord",
    "droneci",
    "dropbox",
    "elevenlabs",
    "etsy",
    "facebook",
    "fastly",
    "finicity",
    "finnhub",
    "firebase",
    "flickr",
    "freshbooks",
    "gitter",
    "gocardless",
    "heroku",
    "hubspot",
    "ibm_",
    "intercom",
    "jenkins",
    "jfrog",
    "jira",
    "kraken",
    "kucoin",
    "launchdarkly",
    "linear_",
    "linkedin",
    "linked_in",
    "lob_",
    "looker",
    "mailchimp",
    "mailgun",
    "mattermost",
    "meraki",
    "messagebird",
    "message_bird",
    "mistral",
    "netlify",
    "new_relic",
    "new-relic",
    "newrelic",
    "nytimes",
    "okta",
    "pagerduty",
    "plaid",
    "private_ai",
    "privateai",
    "pusher",
    "rapidapi",
    "sendbird",
    "sentry",
    "snyk",
    "softlayer",
    "sonar",
    "sourcegraph",
    "splunk",
    "spotify",
    "squarespace",
    "sumo",
    "tavily",
    "telegram",
    "travis",
    "trello",
    "twilio",
    "twitch",
    "twitter",
    "vonage",
    "weatherapi",
    "yandex",
    "zendesk",
];

/// Ends of names whose values are base64 of a key or certificate.
const DATA_ENDINGS: [&str; 3] = ["key-data", "certificate-data", "authority-data"];

/// Words that mark a name as that of a password, without separators.
const PASSWORD_WORDS: [&str; 8] =
    ["passw", "passphrase", "passcode", "kennwort", "contrase", "pwd", "senha", "wachtwoord"];

/// Words that mark a name as that of a password only if they are separate.
const SEPARATE_PASSWORD_WORDS: [&str; 9] =
    ["pass", "pw", "psk", "passe", "parola", "clave", "heslo", "haslo", "masterauth"];

/// Words that mark a name as that of a secret or token, without separators.
const SECRET_WORDS: [&str; 32] = [
    "hmackey",
    "subscriptionkey",
    "otpseed",
    "backupcode",
    "recoverycode",
    "codeverifier",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "authkey",
    "privatekey",
    "privkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "servicekey",
    "webhookkey",
    "accountkey",
    "licensekey",
    "clientkey",
    "sharedkey",
    "storagekey",
    "credential",
    "creds",
    "dbkey",
    "databasekey",
    "adminkey",
    "fernetkey",
    "jwtkey",
    "sessionkey",
    "appkey",
];

/// Words that mark a key as not secret.
const NON_SECRET_KEYS: [&str; 18] = [
    "public",
    "primary",
    "foreign",
    "cache",
    "idempot",
    "partition",
    "sort",
    "object",
    "row",
    "unique",
    "known",
    "host",
    "group",
    "route",
    "query",
    "react",
    "dedup",
    "restore",
];

/// Ends of names whose values are not secret.
const HARMLESS_ENDINGS: [&str; 43] = [
    "page",
    "address",
    "mint",
    "hash",
    "name",
    "path",
    "file",
    "url",
    "limit",
    "count",
    "type",
    "label",
    "expir",
    "expiry",
    "cursor",
    "title",
    "length",
    "size",
    "field",
    "param",
    "header",
    "endpoint",
    "uri",
    "policy",
    "arn",
    "alias",
    "regex",
    "pattern",
    "placeholder",
    "usage",
    "budget",
    "index",
    "tokens",
    "prefix",
    "format",
    "symbol",
    "program",
    "version",
    "output",
    "message",
    "description",
    "status",
    "error",
];

/// Words of names whose values are not secret.
const HARMLESS_WORDS: [&str; 7] =
    ["tokeniz", "nextpage", "page_", "cursor", "continuation", "public_token", "publickey"];

/// Returns the kind of secret that a name announces, if any.
pub(in crate::redact) fn kind_of(name: &str) -> Option<SecretKind> {
    let low = name.to_ascii_lowercase();
    let low = low.trim_start_matches(['-', '.']);
    if DATA_ENDINGS.iter().any(|end| low.ends_with(end)) {
        return Some(SecretKind::Data);
    }
    if is_harmless(name, low) {
        return None;
    }
    let squeezed: String = low.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    if is_password_name(low, &squeezed) {
        return Some(SecretKind::Password);
    }
    let secret = SECRET_WORDS.iter().any(|word| squeezed.contains(word));
    if secret || low.ends_with("_auth") && low.len() > 5 {
        return Some(SecretKind::Secret);
    }
    if is_service_name(low) {
        return Some(SecretKind::Service);
    }
    is_key_name(name, low).then_some(SecretKind::Key)
}

/// Iterates over the words of a name.
fn parts(low: &str) -> impl DoubleEndedIterator<Item = &str> {
    low.split(|c: char| !c.is_ascii_alphanumeric())
}

/// Returns whether a name is that of a password; `squeezed` is the name without separators.
fn is_password_name(low: &str, squeezed: &str) -> bool {
    PASSWORD_WORDS.iter().any(|word| squeezed.contains(word))
        || parts(low).any(|part| SEPARATE_PASSWORD_WORDS.contains(&part))
        || FOREIGN.iter().any(|word| low.contains(word))
        || squeezed.ends_with("pw") && squeezed.len() > 2
        || squeezed.ends_with("pass") && !squeezed.ends_with("bypass") && !squeezed.ends_with("compass")
}

/// Returns whether a name is that of a key: `APP_KEY`, `signKey`, `--key`, `salt`.
fn is_key_name(name: &str, low: &str) -> bool {
    let key = parts(low).next_back().is_some_and(|last| matches!(last, "key" | "salt"))
        || name.ends_with("Key") && name.len() > 3;
    let alone = matches!(low, "salt" | "pepper") || low == "key" && name.starts_with("--");
    let named = key && parts(low).count() > 1 || name.ends_with("Key") || alone;
    named && !NON_SECRET_KEYS.iter().any(|word| low.contains(word))
}

fn is_service_name(low: &str) -> bool {
    static FINDER: OnceLock<AhoCorasick> = OnceLock::new();
    let finder = FINDER.get_or_init(|| AhoCorasick::new(SERVICES).expect("few words"));
    let begins = |at: usize| at == 0 || !low.as_bytes()[at - 1].is_ascii_alphanumeric();
    finder.find_overlapping_iter(low).any(|found| begins(found.start()))
}

/// Returns whether a name announces no secret, whatever words it contains.
fn is_harmless(name: &str, low: &str) -> bool {
    let camel_id =
        name.ends_with("Id") || name.ends_with("ID") && name.contains(|c: char| c.is_ascii_lowercase());
    let id = (low.ends_with("_id") || low.ends_with("-id") || camel_id)
        && !low.ends_with("secret_id")
        && !is_service_name(low);
    let ending = HARMLESS_ENDINGS.iter().any(|end| low.ends_with(end)) && !low.ends_with("webhook_url");
    ending || id || HARMLESS_WORDS.iter().any(|word| low.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_determines_kind_of_secret() {
        assert_eq!(kind_of("DB_PASSWORD"), Some(SecretKind::Password));
        assert_eq!(kind_of("clientSecret"), Some(SecretKind::Secret));
        assert_eq!(kind_of("APP_KEY"), Some(SecretKind::Secret));
        assert_eq!(kind_of("THING_KEY"), Some(SecretKind::Key));
        assert_eq!(kind_of("client-key-data"), Some(SecretKind::Data));
        for none in
            ["public_key", "max_tokens", "nextPageToken", "token_count", "tokenAddress", "monkey", "key"]
        {
            assert_eq!(kind_of(none), None, "{none}");
        }
    }
}
