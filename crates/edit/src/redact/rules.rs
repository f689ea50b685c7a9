//! What credentials look like.
//!
//! A rule is a pattern with words of which one must be near; a text without any of the words is not
//! looked at again. What a rule takes out is its first group, or everything that it matches. Rules that
//! know a prefix stand first, those that go by a name before the value last: of two that overlap the
//! first names what was found.

/// What one kind of credential looks like.
pub(super) struct Rule {
    pub(super) name: &'static str,
    /// Words of which the text holds one, in lower case; case does not matter.
    pub(super) words: &'static [&'static str],
    pub(super) pattern: &'static str,
    /// How much disorder the value has, at least, in bits for each byte.
    pub(super) entropy: f32,
    /// The value must not look like code or an example, and not like an id.
    pub(super) careful: bool,
}

const fn rule(name: &'static str, words: &'static [&'static str], pattern: &'static str) -> Rule {
    Rule { name, words, pattern, entropy: 0.0, careful: false }
}

const fn dense(
    name: &'static str,
    words: &'static [&'static str],
    pattern: &'static str,
    entropy: f32,
) -> Rule {
    Rule { name, words, pattern, entropy, careful: false }
}

const fn careful(
    name: &'static str,
    words: &'static [&'static str],
    pattern: &'static str,
    entropy: f32,
) -> Rule {
    Rule { name, words, pattern, entropy, careful: true }
}

/// What stands between a name and its value: quotes, also escaped ones, and a sign.
macro_rules! is {
    () => {
        r#"["'`\\\]]{0,6}\s{0,3}(?:=>|:=|==?|:)\s{0,3}["'`\\]{0,6}"#
    };
}

pub(super) const RULES: &[Rule] = &[
    // Keys that stand on several lines.
    rule(
        "private-key",
        &["private key"],
        r"-----BEGIN[ A-Z0-9_-]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?:[^(){};<-]|-[^-])*-----END[ A-Z0-9_-]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?:(?:\\[nrt]|\s)*[A-Za-z-]+: [^\n\\]{1,80})*(?:(?:\\[nrt]|[^A-Za-z]){0,16}[A-Za-z0-9+/=]{30,})+)",
    ),
    rule("putty-key", &["private-lines"], r"(?i)private-lines:\s*\d+(?:\\n|\s|[A-Za-z0-9+/=])+"),
    rule("age-key", &["age-secret-key-"], r"\bAGE-SECRET-KEY-1[0-9A-Z]{40,70}\b"),
    // Models and what is built on them.
    rule("anthropic-key", &["sk-ant-"], r"\bsk-ant-[a-z0-9]{2,12}-[A-Za-z0-9_-]{20,}"),
    rule(
        "openai-key",
        &["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-none-"],
        r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}",
    ),
    rule("openai-key", &["t3blbkfj"], r"\bsk-[A-Za-z0-9_-]{10,}T3BlbkFJ[A-Za-z0-9_-]{10,}"),
    rule("openrouter-key", &["sk-or-"], r"\bsk-or-(?:v1-)?[A-Za-z0-9]{32,}"),
    dense("sk-key", &["sk-"], r"\bsk-[A-Za-z0-9]{32,64}\b", 3.5),
    rule("huggingface-token", &["hf_", "api_org_"], r"\b(?:hf_|api_org_)[A-Za-z0-9]{30,}\b"),
    rule("groq-key", &["gsk_"], r"\bgsk_[A-Za-z0-9]{40,}\b"),
    rule("perplexity-key", &["pplx-"], r"\bpplx-[A-Za-z0-9]{40,}\b"),
    rule("xai-key", &["xai-"], r"\bxai-[A-Za-z0-9]{60,}\b"),
    rule("replicate-token", &["r8_"], r"\br8_[A-Za-z0-9]{37}\b"),
    rule("pinecone-key", &["pcsk_"], r"\bpcsk_[A-Za-z0-9_]{40,}"),
    rule("langsmith-key", &["lsv2_"], r"\blsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}\b"),
    rule("nvidia-key", &["nvapi-"], r"\bnvapi-[A-Za-z0-9_-]{60,}"),
    // Where code lives.
    rule("github-token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b"),
    rule("github-fine-grained-token", &["github_pat_"], r"\bgithub_pat_[A-Za-z0-9_]{36,255}\b"),
    rule(
        "gitlab-token",
        &[
            "glpat-", "gldt-", "glptt-", "glrt-", "glcbt-", "glft-", "glimt-", "glagent-", "gloas-",
            "glsoat-", "glffct-",
        ],
        r"\b(?:glpat|gldt|glptt|glrt|glcbt|glft|glimt|glagent|gloas|glsoat|glffct)-[A-Za-z0-9_.=-]{20,}",
    ),
    rule("gitlab-runner-token", &["gr1348941"], r"\bGR1348941[A-Za-z0-9_-]{20,}"),
    rule("bitbucket-token", &["atbb", "bbdc-"], r"\b(?:ATBB[A-Za-z0-9]{24,}|BBDC-[A-Za-z0-9+/@_-]{20,})"),
    rule("atlassian-token", &["atatt3", "atctt3"], r"\bAT(?:A|C)TT3[A-Za-z0-9_=-]{60,}"),
    rule(
        "sourcegraph-token",
        &["sgp_", "slk_"],
        r"\b(?:sgp_(?:[a-fA-F0-9]{16}_|local_)?[a-fA-F0-9]{40}|slk_[a-f0-9]{64})\b",
    ),
    rule("npm-token", &["npm_"], r"\bnpm_[A-Za-z0-9]{36}\b"),
    rule("pypi-token", &["pypi-ageichl", "pypi-agenchlwa", "pypi-"], r"\bpypi-[A-Za-z0-9_-]{50,}"),
    rule("rubygems-key", &["rubygems_"], r"\brubygems_[a-f0-9]{48}\b"),
    rule("nuget-key", &["oy2"], r"\boy2[a-z0-9]{43}\b"),
    rule("crates-io-token", &["cio"], r"\bcio[A-Za-z0-9]{32}\b"),
    rule("clojars-token", &["clojars_"], r"(?i)\bCLOJARS_[a-z0-9]{60}\b"),
    rule("docker-token", &["dckr_pat_", "dckr_oat_"], r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{24,}"),
    rule("artifactory-token", &["akc", "cmvmd"], r"\b(?:AKCp[A-Za-z0-9]{60,}|cmVmd[A-Za-z0-9]{59,})\b"),
    rule("postman-key", &["pmak-"], r"\bPMAK-[A-Fa-f0-9]{24}-[A-Fa-f0-9]{34}\b"),
    rule("readme-key", &["rdme_"], r"\brdme_[a-z0-9]{70}\b"),
    rule("sonar-token", &["sqp_", "squ_", "sqa_"], r"\bsq[pua]_[a-f0-9]{40}\b"),
    // Clouds.
    rule(
        "aws-access-key",
        &["akia", "asia", "abia", "acca", "agpa", "aida", "aroa", "a3t"],
        r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AROA)[A-Z0-9]{16}\b",
    ),
    rule(
        "aws-bedrock-key",
        &["absk", "bedrock-api-key-"],
        r"\b(?:ABSK[A-Za-z0-9+/]{100,}={0,2}|bedrock-api-key-[A-Za-z0-9+/=_.-]{20,})",
    ),
    dense(
        "aws-secret-key",
        &["aws", "secret"],
        concat!(
            r"(?i)(?:aws[\w .-]{0,30}(?:secret|key)|secret[_-]?access[_-]?key|secretkey)[\w .-]{0,20}",
            is!(),
            r"([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)"
        ),
        3.5,
    ),
    dense(
        "aws-session-token",
        &["session"],
        concat!(r"(?i)(?:aws[\w.-]{0,10})?session[_-]?token", is!(), r"([A-Za-z0-9/+=]{100,})"),
        3.5,
    ),
    rule("google-api-key", &["aiza"], r"\bAIza[A-Za-z0-9_-]{35}"),
    rule("google-oauth-secret", &["gocspx-"], r"\bGOCSPX-[A-Za-z0-9_-]{24,}"),
    rule("google-oauth-token", &["ya29."], r"\bya29\.[A-Za-z0-9_-]{20,}"),
    rule("google-refresh-token", &["1//0"], r"\b1//0[A-Za-z0-9_-]{30,}"),
    rule("azure-storage-key", &["accountkey"], r"(?i)AccountKey\s{0,2}=\s{0,2}([A-Za-z0-9+/]{80,}={0,2})"),
    rule(
        "azure-shared-key",
        &["sharedaccesskey"],
        r"(?i)SharedAccessKey\s{0,2}=\s{0,2}([A-Za-z0-9+/]{40,}={0,2})",
    ),
    rule("azure-client-secret", &["q~"], r"\b[A-Za-z0-9_~.]{3}[78]Q~[A-Za-z0-9_~.-]{31,34}"),
    dense("azure-sas", &["sig="], r"(?i)[?&]sig=([A-Za-z0-9%+/=]{40,})", 3.5),
    rule("alibaba-access-key", &["ltai"], r"\bLTAI[A-Za-z0-9]{16,24}\b"),
    rule("tencent-secret-id", &["akid"], r"\bAKID[A-Za-z0-9]{32}\b"),
    rule(
        "yandex-key",
        &["aqvn", "y0_", "t1."],
        r"\b(?:AQVN[A-Za-z0-9_-]{35,38}|y0_[A-Za-z0-9_-]{50,}|t1\.[A-Z0-9a-z_-]{20,}={0,2}\.[A-Z0-9a-z_-]{80,}={0,2})",
    ),
    rule("digitalocean-token", &["dop_v1_", "doo_v1_", "dor_v1_"], r"\bdo[por]_v1_[a-f0-9]{64}\b"),
    rule("heroku-key", &["hrku-"], r"\bHRKU-[A-Za-z0-9_-]{36,}"),
    rule(
        "flyio-token",
        &["fo1_", "fm1r_", "fm1a_", "fm2_"],
        r"\b(?:fo1_[\w-]{43}|fm1[ar]_[A-Za-z0-9+/]{80,}={0,3}|fm2_[A-Za-z0-9+/]{80,}={0,3})",
    ),
    rule("netlify-token", &["nfp_", "nfc_", "nfo_", "nfu_"], r"\bnf[pcou]_[A-Za-z0-9]{36}\b"),
    rule("vercel-token", &["vcp_", "vci_", "vca_", "vcr_", "vck_"], r"\bvc[piark]_[A-Za-z0-9]{24,}\b"),
    rule("render-key", &["rnd_"], r"\brnd_[A-Za-z0-9]{28,}\b"),
    rule("supabase-key", &["sbp_", "sb_secret_"], r"\b(?:sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,})"),
    rule("cloudflare-key", &["v1.0-"], r"\bv1\.0-[a-f0-9]{24}-[a-f0-9]{146}\b"),
    rule("openshift-token", &["sha256~"], r"\bsha256~[A-Za-z0-9_-]{43}"),
    rule("scalingo-token", &["tk-us-"], r"\btk-us-[A-Za-z0-9_-]{48}"),
    rule("planetscale-token", &["pscale_"], r"\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9=._-]{32,64}"),
    rule("neon-key", &["napi_"], r"\bnapi_[a-z0-9]{50,}\b"),
    rule("turso-token", &["turso_"], r"\bturso_[A-Za-z0-9_-]{30,}"),
    // Secrets' own keepers, and what builds.
    rule("vault-token", &["hvs.", "hvb.", "hvr."], r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    rule("terraform-token", &[".atlasv1."], r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}"),
    rule(
        "doppler-token",
        &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."],
        r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}\b",
    ),
    rule("onepassword-token", &["ops_eyj"], r"\bops_eyJ[A-Za-z0-9+/_-]{100,}={0,3}"),
    rule(
        "onepassword-key",
        &["a3-"],
        r"\bA3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}\b",
    ),
    rule("infisical-token", &["st."], r"\bst\.[a-f0-9]{24}\.[a-f0-9]{32}\.[a-f0-9]{32}\b"),
    rule("pulumi-token", &["pul-"], r"\bpul-[a-f0-9]{40}\b"),
    rule("prefect-key", &["pnu_", "pnb_"], r"\bpn[ub]_[A-Za-z0-9]{36}\b"),
    rule("databricks-token", &["dapi"], r"\bdapi[a-f0-9]{32}(?:-\d)?\b"),
    rule("buildkite-token", &["bkua_", "bkaj_"], r"\bbk(?:ua|aj)_[a-z0-9]{40}\b"),
    rule("circleci-token", &["ccipat_", "cciprj_"], r"\bcci(?:pat|prj)_[A-Za-z0-9]{22}_[a-f0-9]{40}\b"),
    rule("infracost-key", &["ico-"], r"\bico-[A-Za-z0-9]{32}\b"),
    rule(
        "harness-key",
        &["pat.", "sat."],
        r"\b(?:pat|sat)\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}\b",
    ),
    // Watching.
    rule(
        "grafana-token",
        &["glc_", "glsa_", "eyjrijoi"],
        r"\b(?:glc_[A-Za-z0-9+/]{32,}={0,3}|glsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8}|eyJrIjoi[A-Za-z0-9]{60,}={0,3})",
    ),
    rule(
        "newrelic-key",
        &["nrak-", "nrjs-", "nrii-", "nrra-", "nraa-"],
        r"\bNR(?:AK|JS|II|RA|AA)-[A-Za-z0-9-]{19,40}",
    ),
    rule("sentry-token", &["sntrys_", "sntryu_"], r"\bsntry(?:s_eyJ[A-Za-z0-9+/=_]{60,}|u_[a-f0-9]{64})"),
    rule("dynatrace-token", &["dt0c01.", "dt0s01."], r"\bdt0[cs]01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}\b"),
    rule("honeycomb-key", &["hcaik_", "hcaic_", "hcxik_"], r"\bhc[abx]i[ck]_[a-z0-9]{50,}\b"),
    rule(
        "launchdarkly-key",
        &["sdk-", "api-", "mob-"],
        r"\b(?:sdk|api|mob)-[a-f0-9]{8}-[a-f0-9]{4}-4[a-f0-9]{3}-[a-f0-9]{4}-[a-f0-9]{12}\b",
    ),
    rule("posthog-key", &["phx_", "phs_"], r"\bph[xs]_[A-Za-z0-9]{40,}\b"),
    // People at work.
    rule(
        "slack-token",
        &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxo-", "xoxs-", "xoxe", "xapp-"],
        r"\b(?:xox[baprso]-[A-Za-z0-9-]{10,}|xoxe(?:\.xox[bp])?-\d-[A-Za-z0-9-]{20,}|xapp-\d-[A-Za-z0-9-]{20,})",
    ),
    rule("slack-cookie", &["xoxd-"], r"\bxoxd-[A-Za-z0-9%+/=_-]{20,}"),
    rule(
        "slack-webhook",
        &["hooks.slack.com"],
        r"hooks\.slack\.com(?:\\?/)(?:services|workflows|triggers)(?:\\?/)([A-Za-z0-9+/\\_-]{20,})",
    ),
    rule(
        "discord-webhook",
        &["/webhooks/", r"\/webhooks\/"],
        r"discord(?:app)?\.com(?:\\?/)api(?:\\?/)(?:v\d+(?:\\?/))?webhooks(?:\\?/)\d{15,21}(?:\\?/)([A-Za-z0-9_-]{50,})",
    ),
    rule(
        "teams-webhook",
        &["webhook.office.com"],
        r"webhook\.office\.com(?:\\?/)webhookb2(?:\\?/)([A-Za-z0-9@/\\_-]{40,})",
    ),
    dense(
        "discord-token",
        &["discord", "bot ", "token"],
        r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",
        3.5,
    ),
    dense("telegram-token", &[":aa"], r"\b(?:bot)?(\d{8,10}:AA[A-Za-z0-9_-]{32,35})", 3.5),
    rule("linear-key", &["lin_api_", "lin_oauth_"], r"\blin_(?:api|oauth)_[A-Za-z0-9]{40,}\b"),
    rule("notion-token", &["ntn_", "secret_"], r"\b(?:ntn_[A-Za-z0-9]{43,50}|secret_[A-Za-z0-9]{43})\b"),
    rule("airtable-token", &["pat"], r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b"),
    rule("figma-token", &["figd_", "figu_"], r"\bfig[du]_[A-Za-z0-9_-]{40,}"),
    rule("contentful-token", &["cfpat-"], r"\bCFPAT-[A-Za-z0-9_-]{43}"),
    rule(
        "hubspot-token",
        &["pat-na", "pat-eu"],
        r"\bpat-(?:na|eu)\d-[a-f0-9]{8}-(?:[a-f0-9]{4}-){3}[a-f0-9]{12}\b",
    ),
    rule("firebase-key", &[":apa91b"], r"\bAAAA[A-Za-z0-9_-]{7}:APA91b[A-Za-z0-9_-]{100,}"),
    rule("typeform-token", &["tfp_"], r"\btfp_[A-Za-z0-9_.=-]{59}"),
    rule("adobe-secret", &["p8e-", "p8-"], r"\bp8e?-[A-Za-z0-9_-]{30,}"),
    rule("adafruit-key", &["aio_"], r"\baio_[A-Za-z0-9]{28}\b"),
    rule("asana-token", &["0/", "1/", "2/"], r"\b[0-2]/\d{15,17}(?:/\d{15,17})?:[a-f0-9]{32}\b"),
    rule(
        "mapbox-token",
        &["sk.eyj", "pk.eyj", "tk.eyj"],
        r"\b[sptk]k\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{15,}",
    ),
    rule("dropbox-token", &["sl."], r"\bsl\.(?:u\.)?[A-Za-z0-9_-]{130,}"),
    // Mail, messages, money, shops.
    rule("sendgrid-key", &["sg."], r"\bSG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}"),
    rule("mailgun-key", &["key-", "pubkey-"], r"\b(?:pub)?key-[a-f0-9]{32}\b"),
    rule("mailchimp-key", &["-us"], r"\b[a-f0-9]{32}-us\d{1,2}\b"),
    rule("brevo-key", &["xkeysib-", "xsmtpsib-"], r"\bx(?:key|smtp)sib-[a-f0-9]{64}-[A-Za-z0-9]{16}\b"),
    rule("resend-key", &["re_"], r"\bre_[A-Za-z0-9]{8,}_[A-Za-z0-9]{20,}\b"),
    rule(
        "postmark-token",
        &["x-postmark-"],
        concat!(r"(?i)x-postmark-(?:server|account)-token", is!(), r"([a-f0-9-]{36})"),
    ),
    dense("twilio-key", &["sk", "ac"], r"\b(?:SK|AC)[a-f0-9]{32}\b", 3.0),
    rule(
        "stripe-key",
        &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_"],
        r"\b[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,99}\b",
    ),
    rule("stripe-webhook-secret", &["whsec_"], r"\bwhsec_[A-Za-z0-9+/=]{24,}"),
    rule(
        "square-token",
        &["sq0atp-", "sq0csp-", "eaaa"],
        r"\b(?:sq0(?:atp|csp)-[A-Za-z0-9_-]{22,43}|EAAA[A-Za-z0-9_-]{60})\b",
    ),
    rule(
        "paypal-token",
        &["access_token$"],
        r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}",
    ),
    rule(
        "plaid-token",
        &["access-sandbox-", "access-development-", "access-production-"],
        r"\baccess-(?:sandbox|development|production)-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}\b",
    ),
    rule(
        "shopify-token",
        &["shpat_", "shpca_", "shppa_", "shpss_"],
        r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b",
    ),
    rule("shippo-token", &["shippo_"], r"\bshippo_(?:live|test)_[a-fA-F0-9]{40}\b"),
    rule("easypost-key", &["ezak", "eztk"], r"\bEZ[AT]K[A-Za-z0-9]{54}\b"),
    rule("duffel-token", &["duffel_"], r"\bduffel_(?:test|live)_[A-Za-z0-9_=-]{43}"),
    rule(
        "flutterwave-key",
        &["flwseck", "flwpubk"],
        r"\bFLW(?:SECK|PUBK)(?:_TEST)?-[a-h0-9A-Z]{12,40}(?:-X)?\b",
    ),
    rule("lob-key", &["live_", "test_"], r"\b(?:live|test)_(?:pub_)?[a-f0-9]{31,35}\b"),
    rule("frameio-token", &["fio-u-"], r"\bfio-u-[A-Za-z0-9_=-]{64}"),
    rule("facebook-token", &["eaa"], r"\bEAA(?:MC|CEd|[A-Z])[A-Za-z0-9]{80,}\b"),
    rule("twitter-bearer", &["aaaaaaaaaaaaaaaaaaaaa"], r"\bA{21,22}[A-Za-z0-9%]{60,}"),
    rule("defined-token", &["dnkey-"], r"\bdnkey-[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}"),
    // Anywhere.
    rule(
        "jwt",
        &["eyj"],
        r"\beyJ[A-Za-z0-9_-]{8,}\.(?:eyJ[A-Za-z0-9_-]{8,}|[A-Za-z0-9_-]{20,})\.[A-Za-z0-9_-]{8,}",
    ),
    careful(
        "url-password",
        &["://", r":\/\/"],
        r"(?i)\b[a-z][a-z0-9+.-]{1,20}:(?:\\{0,2}/){2}[^\s:@/\x22'`\\<>()]{0,80}:([^\s@/\x22'`\\<>]{3,200})@[\w\[.-]",
        1.5,
    ),
    careful(
        "authorization",
        &["authorization", "bearer", "x-api-key", "basic "],
        r#"(?i)(?:authorization["'\\]{0,4}\s{0,2}[:=]\s{0,2}["'\\]{0,4}(?:bearer|basic|token|digest|apikey|bot)?|bearer|x-(?:api-key|auth-token)["'\\]{0,4}\s{0,2}[:=]["'\\]{0,4})(?:\s{1,3}|%20|\+)["'\\]{0,4}([A-Za-z0-9._~+/=:-]{12,})"#,
        2.8,
    ),
    careful(
        "cookie",
        &["cookie"],
        r#"(?i)\b(?:set-)?cookie["'\\]{0,4}\s{0,2}[:=]\s{0,2}["'\\]{0,4}([\w.-]{1,64}=[^\s"'\\<>(){}]{12,}(?:; ?[\w.-]{1,64}=[^\s"'\\;<>(){}]+)*)"#,
        3.0,
    ),
    careful(
        "npmrc-auth",
        &["_auth", "_password"],
        r#"(?i)(?:[^\w]|^)_(?:authToken|auth|password)\s{0,2}=\s{0,2}["'\\]{0,3}([^\s"'\\$]{8,})"#,
        2.8,
    ),
    careful(
        "docker-auth",
        &["auth"],
        r#""auth\\{0,3}"\s{0,3}:\s{0,3}\\{0,3}"([A-Za-z0-9+/]{16,}={0,2})"#,
        3.0,
    ),
    careful("netrc-password", &["machine"], r"(?i)\bmachine\s+\S+\s+login\s+\S+\s+password\s+(\S{4,})", 1.5),
    careful(
        "command-password",
        &["curl", "wget", "-u"],
        r#"(?i)\s(?:-u|--user|--proxy-user)[\s=]{0,2}["'\\]{0,3}[^\s:"'\\]{1,64}:([^\s"'\\$][^\s"'\\]{3,})"#,
        2.0,
    ),
    careful(
        "command-password",
        &[
            "--pass",
            "--token",
            "--api-key",
            "--apikey",
            "--secret",
            "--auth",
            "sshpass",
            "docker",
            "redis-cli",
        ],
        r#"(?i)(?:--(?:pass(?:word|wd)?|token|api-?key|secret|auth-?token|access-?key|client-?secret)[= ]|sshpass\s+-p\s?|docker\s+login[^\n|;]{0,120}?\s-p\s|redis-cli[^\n|;]{0,120}?\s-a\s)["'\\]{0,3}([^\s"'\\$<{(-][^\s"'\\]{5,})"#,
        2.5,
    ),
    careful(
        "mysql-password",
        &["mysql"],
        r#"(?i)\bmysql(?:dump|admin)?\b[^\n|;]{0,80}?\s-p["'\\]{0,3}([^\s"'\\-][^\s"'\\]{4,})"#,
        2.0,
    ),
    // By the name of a service, or of the thing.
    careful(
        "service-key",
        &[
            "algolia",
            "amplitude",
            "asana",
            "auth0",
            "bitbucket",
            "bittrex",
            "cloudflare",
            "codecov",
            "coinbase",
            "confluent",
            "datadog",
            "dd_api",
            "dd_app",
            "deepgram",
            "deepseek",
            "dropbox",
            "elevenlabs",
            "etsy",
            "facebook",
            "fastly",
            "finnhub",
            "firebase",
            "flickr",
            "freshbooks",
            "gitter",
            "heroku",
            "hubspot",
            "intercom",
            "jenkins",
            "jfrog",
            "kraken",
            "kucoin",
            "linkedin",
            "mailgun",
            "mattermost",
            "messagebird",
            "mistral",
            "new_relic",
            "newrelic",
            "okta",
            "pagerduty",
            "pusher",
            "rapidapi",
            "sendbird",
            "snyk",
            "splunk",
            "spotify",
            "squarespace",
            "sumologic",
            "tavily",
            "telegram",
            "travis",
            "trello",
            "twilio",
            "twitch",
            "twitter",
            "vonage",
            "weatherapi",
            "zendesk",
            "cohere",
        ],
        concat!(
            r"(?i)\b(?:algolia|amplitude|asana|auth0|bitbucket|bittrex|cloudflare|codecov|coinbase|confluent|datadog|dd_a(?:pi|pp)|deepgram|deepseek|dropbox|elevenlabs|etsy|facebook|fastly|finnhub|firebase|flickr|freshbooks|gitter|heroku|hubspot|intercom|jenkins|jfrog|kraken|kucoin|linkedin|mailgun|mattermost|messagebird|mistral|new_?relic|okta|pagerduty|pusher|rapidapi|sendbird|snyk|splunk|spotify|squarespace|sumologic|tavily|telegram|travis|trello|twilio|twitch|twitter|vonage|weatherapi|zendesk|cohere)",
            r"[\w .-]{0,20}(?:key|token|secret|auth|sid|password|dsn)[\w.-]{0,12}",
            is!(),
            r"([A-Za-z0-9_=./+-]{16,200})"
        ),
        3.0,
    ),
    careful(
        "password",
        &["passw", "pwd", "passphrase", "passcode", "_pass"],
        concat!(
            r"(?i)(?:passw(?:or)?[dt]|pwd|passphrase|passcode|_pass)[\w.-]{0,12}",
            is!(),
            r"([^\s\x22'`\\,;<>(){}\[\]|&$]{6,200})"
        ),
        2.3,
    ),
    careful(
        "password",
        &["passw", "pwd", "passphrase"],
        r#"(?i)(?:passw(?:or)?[dt]|pwd|passphrase)[\w.-]{0,12}["'\\]{0,4}\s{0,3}(?:=>|:=|=|:)\s{0,3}\\{0,2}["'`]([^\s"'`\\\n][^"'`\\\n]{4,80}[^\s"'`\\\n])\\{0,2}["'`]"#,
        2.3,
    ),
    careful(
        "password",
        &["password is", "passwort ist"],
        r#"(?i)passwor(?:d is|t ist):?\s{1,3}["'`\\]{0,3}([^\s"'`\\]{6,80})"#,
        2.5,
    ),
    careful(
        "password",
        &["</password", "</secret", "</token", "</apikey"],
        r"(?i)<(?:password|secret|token|api-?key)>([^<\s]{6,200})</",
        2.0,
    ),
    careful(
        "assignment",
        &["\"value"],
        r#"(?i)"(?:name|key)\\{0,3}"\s{0,3}:\s{0,3}\\{0,3}"[^"]{0,60}(?:secret|token|passw|api_?key)[^"]{0,40}"\s{0,3},\s{0,6}\\{0,3}"value\\{0,3}"\s{0,3}:\s{0,3}\\{0,3}"([^"\\\s]{8,300})"#,
        2.8,
    ),
    rule(
        "mnemonic",
        &["mnemonic", "seed phrase", "recovery phrase"],
        r#"(?i)(?:mnemonic|seed phrase|recovery phrase)["'\\:=\s]{1,8}((?:[a-z]{3,8}\s+){11,23}[a-z]{3,8})"#,
    ),
    careful(
        "assignment",
        &[
            "secret",
            "token",
            "api_key",
            "apikey",
            "api-key",
            "access_key",
            "accesskey",
            "access-key",
            "auth_key",
            "private_key",
            "privatekey",
            "signing_key",
            "encryption_key",
            "credential",
            "master_key",
            "service_key",
            "secret_key",
            "webhook_key",
            "account_key",
            "license_key",
        ],
        concat!(
            r"(?i)(?:secret|token|api[_-]?key|access[_-]?key|auth[_-]?key|private[_-]?key|signing[_-]?key|encryption[_-]?key|master[_-]?key|service[_-]?key|webhook[_-]?key|account[_-]?key|license[_-]?key|credentials?)[\w.-]{0,20}",
            is!(),
            r"([A-Za-z0-9_=./+~!@#%^*:-]{10,300})"
        ),
        3.2,
    ),
];
