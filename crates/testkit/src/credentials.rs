//! Fake credentials in the formats of real services, and a session that contains them in every place where text can
//! occur.

use serde_json::{Value, json};

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

/// A random generator that repeats the same sequence for a seed.
struct CredentialRng(u64);

const DIGITS: &str = "0123456789";
const HEX: &str = "0123456789abcdef";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const MIXED: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const WORD: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const SIGNS: &str = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789!#$%&()*+-.=?@^_~";

impl CredentialRng {
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

/// The formats of credentials: a kind, a text around it and a form. In a form, `<m36>` is 36 letters and digits, `<h…>`
/// hexadecimal digits, `<u…>` upper-case and `<l…>` lower-case letters with digits, `<d…>` digits, `<w…>` URL-safe
/// base64, `<b…>` base64, `<p…>` characters of passwords, `<uuid>` a UUID.
const FORMS: &[(&str, &str, &str)] = &[
    // AI models and tools.
    ("anthropic", "key {}", "sk-ant-api03-<w93>AA"),
    ("anthropic oauth", "{}", "sk-ant-oat01-<w90>"),
    ("anthropic admin", "{}", "sk-ant-admin01-<w93>AA"),
    ("anthropic session", "{}", "sk-ant-sid01-<w80>"),
    ("openai", "OPENAI_API_KEY={}", "sk-proj-<m120>"),
    ("openai service account", "{}", "sk-svcacct-<w60>"),
    ("openai admin", "{}", "sk-admin-<w60>"),
    ("openai old", "{}", "sk-<m20>T3BlbkFJ<m20>"),
    ("sk key", "key: {}", "sk-<m48>"),
    ("openrouter", "{}", "sk-or-v1-<h64>"),
    ("deepseek", "{}", "sk-<h32>"),
    ("langfuse", "{}", "sk-lf-<uuid>"),
    ("langfuse public", "{}", "pk-lf-<uuid>"),
    ("helicone", "{}", "sk-helicone-<l7>-<l7>-<l7>-<l7>"),
    ("huggingface", "login --token {}", "hf_<m34>"),
    ("huggingface org", "{}", "api_org_<m34>"),
    ("groq", "{}", "gsk_<m52>"),
    ("cerebras", "{}", "csk-<l48>"),
    ("perplexity", "{}", "pplx-<m48>"),
    ("xai", "{}", "xai-<m80>"),
    ("replicate", "{}", "r8_<m37>"),
    ("pinecone", "{}", "pcsk_<m6>_<m62>"),
    ("langsmith", "{}", "lsv2_pt_<h32>_<h10>"),
    ("langsmith old", "{}", "ls__<h32>"),
    ("nvidia", "{}", "nvapi-<w64>"),
    ("together", "{}", "tgp_v1_<w43>"),
    ("fireworks", "{}", "fw_<m24>"),
    ("tavily", "{}", "tvly-dev-<m32>"),
    ("tavily old", "{}", "tvly-<m32>"),
    ("e2b", "{}", "e2b_<h40>"),
    ("jina", "{}", "jina_<h32><w28>"),
    ("firecrawl", "{}", "fc-<h32>"),
    ("voyage", "{}", "pa-<w43>"),
    ("runpod", "{}", "rpa_<u42>"),
    ("apify", "{}", "apify_api_<m36>"),
    ("browserbase", "{}", "bb_live_<w27>"),
    ("brave", "{}", "BSA<m28>"),
    ("wandb", "WANDB_API_KEY={}", "<h40>"),
    ("elevenlabs", "{}", "sk_<h48>"),
    ("mistral", "MISTRAL_API_KEY={}", "<m32>"),
    ("cohere", "CO_API_KEY={}", "<m40>"),
    ("deepgram", "DEEPGRAM_API_KEY={}", "<h40>"),
    ("context7", "{}", "ctx7sk-<uuid>"),
    ("cursor", "{}", "crsr_<h64>"),
    ("mem0", "{}", "m0-<m40>"),
    ("dify", "{}", "app-<m24>"),
    ("private ai", "private_ai_token = '{}'", "<l32>"),
    // Code hosting and package registries.
    ("github", "https://x-access-token:{}@github.com/a/b", "ghp_<m36>"),
    ("github oauth", "{}", "gho_<m36>"),
    ("github user", "{}", "ghu_<m36>"),
    ("github server", "{}", "ghs_<m36>"),
    ("github refresh", "{}", "ghr_<m76>"),
    ("github fine", "{}", "github_pat_<m22>_<m59>"),
    ("gitlab", "PRIVATE-TOKEN: {}", "glpat-<m20>"),
    ("gitlab routable", "{}", "glpat-<w27>.01.<l9>"),
    ("gitlab deploy", "{}", "gldt-<m20>"),
    ("gitlab trigger", "{}", "glptt-<h40>"),
    ("gitlab runner", "{}", "glrt-<m20>"),
    ("gitlab runner registration", "{}", "GR1348941<m20>"),
    ("gitlab job", "{}", "glcbt-<m5>_<m20>"),
    ("gitlab feed", "{}", "glft-<m20>"),
    ("gitlab mail", "{}", "glimt-<m25>"),
    ("gitlab agent", "{}", "glagent-<m50>"),
    ("gitlab oauth", "{}", "gloas-<h64>"),
    ("gitlab scim", "{}", "glsoat-<m20>"),
    ("gitlab flags", "{}", "glffct-<m20>"),
    ("gitlab session", "Cookie: _gitlab_session={}", "<h32>"),
    ("bitbucket", "{}", "ATBB<m32>"),
    ("bitbucket server", "{}", "BBDC-<m44>"),
    ("bitbucket client", "bitbucket_client_secret={}", "<l64>"),
    ("atlassian", "{}", "ATATT3<w186>"),
    ("atlassian old", "jira_api_token: {}", "<l20><h4>"),
    ("trello", "{}", "ATTA<h72>"),
    ("sourcegraph", "{}", "sgp_<h16>_<h40>"),
    ("npm", "//registry.npmjs.org/:_authToken={}", "npm_<m36>"),
    ("npm uuid", "//registry.npmjs.org/:_authToken={}", "<uuid>"),
    ("npm auth", "_auth={}", "<m30>=="),
    ("pypi", "password = {}", "pypi-AgEIcHlwaS5vcmc<w80>"),
    ("rubygems", "{}", "rubygems_<h48>"),
    ("nuget", "{}", "oy2<l43>"),
    ("nuget config", "<add key=\"ClearTextPassword\" value=\"{}\" />", "<p14>x9"),
    ("crates.io", "{}", "cio<m32>"),
    ("clojars", "{}", "CLOJARS_<l60>"),
    ("docker hub", "docker login -p {}", "dckr_pat_<w27>"),
    ("docker org", "{}", "dckr_oat_<w32>"),
    ("docker config", "{\"auths\":{\"r.io\":{\"auth\": \"{}\"}}}", "<m38>=="),
    ("artifactory", "{}", "AKCp<m69>"),
    ("artifactory reference", "{}", "cmVmd<m59>"),
    ("jfrog", "jfrog_api_key={}", "<m73>"),
    ("postman", "{}", "PMAK-<h24>-<h34>"),
    ("readme", "{}", "rdme_<l70>"),
    ("sonar", "{}", "sqp_<h40>"),
    ("sonar old", "sonar.login={}", "<h40>"),
    ("codecov", "CODECOV_TOKEN={}", "<uuid>"),
    ("snyk", "SNYK_TOKEN={}", "<uuid>"),
    ("travis", "travis_token = \"{}\"", "<m22>"),
    ("drone", "DRONECI_TOKEN={}", "<m32>"),
    // Cloud providers.
    ("aws id", "aws_access_key_id = {}", "AKIA<k16>"),
    ("aws session id", "{}", "ASIA<k16>"),
    ("aws secret", "aws_secret_access_key = {}", "<b40>"),
    ("aws secret json", "{\"SecretAccessKey\": \"{}\"}", "<b40>"),
    ("aws session", "AWS_SESSION_TOKEN={}", "IQoJb3JpZ2luX2VjE<b300>"),
    ("aws configure", "aws configure set aws_secret_access_key {}", "<b40>"),
    ("aws console", "Access key ID,Secret access key\nAKIAQX3JZ5TK7WNLM2PR,{}", "<b40>"),
    (
        "aws console password",
        "User name,Password,Console sign-in URL\nbob,{},https://1.signin.aws",
        "<p15>x9",
    ),
    ("aws bedrock", "{}", "ABSK<b128>"),
    ("aws bedrock short", "{}", "bedrock-api-key-<b100>"),
    ("google api", "?key={}", "AIza<w35>"),
    ("google oauth", "client_secret: {}", "GOCSPX-<w28>"),
    ("google token", "{}", "ya29.<w100>"),
    ("google refresh", "{}", "1//0<w60>"),
    ("azure storage", "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={};", "<b86>=="),
    (
        "azure shared",
        "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=a;SharedAccessKey={}",
        "<b43>=",
    ),
    ("azure client", "{}", "<m3>8Q~<m34>"),
    ("azure sas", "https://x.blob.core.windows.net/a?sv=2022&sig={}", "<m43>%3D"),
    ("azure openai", "AZURE_OPENAI_API_KEY={}", "<h32>"),
    ("alibaba", "{}", "LTAI<m20>"),
    ("alibaba secret", "alibaba_secret_key = {}", "<l30>"),
    ("tencent", "{}", "AKID<m32>"),
    ("yandex", "{}", "AQVN<w36>"),
    ("yandex oauth", "{}", "y0_<w55>"),
    ("yandex iam", "{}", "t1.<w40>.<w86>"),
    ("yandex aws", "yandex_key: {}", "YC<w38>"),
    ("ibm cloud", "ibm_cloud_api_key={}", "<w44>"),
    ("ibm cos", "cos_hmac_secret_access_key={}", "<h48>"),
    ("softlayer", "https://api.softlayer.com/soap/v3/{}", "<l64>"),
    ("cloudant", "https://acct:{}@acct.cloudant.com", "<h64>"),
    ("digitalocean", "{}", "dop_v1_<h64>"),
    ("digitalocean oauth", "{}", "doo_v1_<h64>"),
    ("digitalocean refresh", "{}", "dor_v1_<h64>"),
    ("heroku", "HEROKU_API_KEY={}", "<uuid>"),
    ("heroku new", "{}", "HRKU-AA<w58>"),
    ("cloudflare", "CLOUDFLARE_API_TOKEN={}", "<m40>"),
    ("cloudflare global", "cloudflare_api_key: {}", "<h37>"),
    ("cloudflare origin", "{}", "v1.0-<h24>-<h146>"),
    ("fly.io", "FLY_API_TOKEN=\"{}\"", "fm2_<m120>"),
    ("fly.io old", "{}", "fo1_<w43>"),
    ("netlify", "{}", "nfp_<m36>"),
    ("netlify old", "NETLIFY_AUTH_TOKEN={}", "<w43>"),
    ("vercel", "{}", "vcp_<m56>"),
    ("render", "{}", "rnd_<m32>"),
    ("railway", "RAILWAY_TOKEN={}", "<uuid>"),
    ("supabase", "{}", "sbp_<h40>"),
    ("supabase secret", "{}", "sb_secret_<w31>"),
    ("planetscale", "{}", "pscale_tkn_<m43>"),
    ("planetscale password", "{}", "pscale_pw_<m43>"),
    ("planetscale oauth", "{}", "pscale_oauth_<m43>"),
    ("neon", "{}", "napi_<l64>"),
    ("neon password", "postgresql://u:{}@ep.neon.tech/db", "npg_<m12>"),
    ("mongodb atlas", "{}", "mdb_sa_sk_<w40>"),
    ("openshift", "{}", "sha256~<w43>"),
    ("scalingo", "{}", "tk-us-<w48>"),
    ("scaleway", "{}", "SCW<u17>"),
    ("tailscale", "{}", "tskey-auth-<m12>-<m32>"),
    ("clickhouse", "{}", "4b1d<m38>"),
    ("meraki", "MERAKI_API_KEY={}", "<h40>"),
    ("fastly", "FASTLY_API_TOKEN={}", "<w32>"),
    ("algolia", "algolia_api_key={}", "<h32>"),
    ("confluent", "confluent_secret={}", "<m64>"),
    ("launchdarkly", "{}", "sdk-<uuid>"),
    ("maxmind", "{}", "<m6>_<m29>_mmk"),
    // Secret managers and CI.
    ("vault", "VAULT_TOKEN={}", "hvs.<w90>"),
    ("vault batch", "{}", "hvb.<w140>"),
    ("terraform", "{}", "<m14>.atlasv1.<w67>"),
    ("terraform password", "administrator_login_password = \"{}\"", "<p14>x9"),
    ("doppler", "{}", "dp.pt.<m43>"),
    ("doppler service", "{}", "dp.st.dev.<m43>"),
    ("onepassword", "{}", "ops_eyJ<b260>"),
    ("onepassword key", "{}", "A3-<k6>-<k6>-<k5>-<k5>-<k5>-<k5>"),
    ("infisical", "{}", "st.<h24>.<h32>.<h32>"),
    ("pulumi", "{}", "pul-<h40>"),
    ("prefect", "{}", "pnu_<m36>"),
    ("databricks", "{}", "dapi<h32>"),
    ("buildkite", "{}", "bkua_<h40>"),
    ("circleci", "{}", "CCIPAT_<m22>_<h40>"),
    ("infracost", "{}", "ico-<m32>"),
    ("harness", "{}", "pat.<w22>.<m24>.<m20>"),
    ("octopus", "{}", "API-<u26>"),
    ("authress", "{}", "sc_<l12>.<l5>.acc-<l12>.<m60>"),
    ("sidekiq", "BUNDLE_ENTERPRISE__CONTRIBSYS__COM={}", "<h8>:<h8>"),
    ("sidekiq url", "https://{}@gems.contribsys.com/", "<h8>:<h8>"),
    ("trigger.dev", "{}", "tr_prod_<m24>"),
    ("inngest", "{}", "signkey-prod-<h64>"),
    ("age", "{}", "AGE-SECRET-KEY-1<k58>"),
    ("looker", "looker_client_secret={}", "<m24>"),
    // Monitoring.
    ("datadog", "DD_API_KEY: {}", "<h32>"),
    ("datadog token", "datadog_token={}", "<l40>"),
    ("grafana", "{}", "glsa_<m32>_<h8>"),
    ("grafana cloud", "{}", "glc_<m60>"),
    ("grafana old", "{}", "eyJrIjoi<m80>"),
    ("new relic", "{}", "NRAK-<u27>"),
    ("new relic browser", "{}", "NRJS-<h19>"),
    ("new relic insert", "{}", "NRII-<w32>"),
    ("sentry", "{}", "sntryu_<h64>"),
    ("sentry org", "{}", "sntrys_eyJ<b120>_<b43>"),
    ("sentry old", "sentry_auth: {}", "<h64>"),
    ("dynatrace", "{}", "dt0c01.<u24>.<u64>"),
    ("honeycomb", "{}", "hcaik_<l58>"),
    ("axiom", "{}", "xaat-<uuid>"),
    ("posthog", "{}", "phx_<m43>"),
    ("sumologic", "sumo_access_key: {}", "<m64>"),
    ("splunk", "SPLUNK_HEC_TOKEN={}", "<uuid>"),
    // Collaboration.
    ("slack bot", "{}", "xoxb-<d12>-<d12>-<m24>"),
    ("slack user", "{}", "xoxp-<d12>-<d12>-<d12>-<h32>"),
    ("slack app", "{}", "xapp-1-A<u10>-<d13>-<h64>"),
    ("slack config", "{}", "xoxe.xoxp-1-<m164>"),
    ("slack refresh", "{}", "xoxe-1-<m146>"),
    ("slack legacy", "{}", "xoxs-<d10>-<d10>-<d10>-<h10>"),
    ("slack workspace", "{}", "xoxa-2-<m40>"),
    ("slack cookie", "{}", "xoxd-<m100>"),
    ("slack hook", "https://hooks.slack.com/services/{}", "T<u8>/B<u10>/<m24>"),
    ("discord hook", "https://discord.com/api/webhooks/123456789012345678/{}", "<m68>"),
    ("discord bot", "token {}", "M<m25>.<m6>.<m38>"),
    ("discord client", "DISCORD_CLIENT_SECRET={}", "<m32>"),
    ("discord key", "discord_public: {}", "<h64>"),
    ("teams hook", "https://x.webhook.office.com/webhookb2/{}", "<uuid>@<uuid>/IncomingWebhook/<h32>/<uuid>"),
    ("telegram", "bot{}/getMe", "<n10>:AA<w33>"),
    ("telegram token", "TELEGRAM_BOT_TOKEN={}", "<n9>:A<w34>"),
    ("mattermost", "mattermost_token={}", "<l26>"),
    ("linear", "{}", "lin_api_<m40>"),
    ("linear client", "linear_client_secret={}", "<h32>"),
    ("notion", "{}", "ntn_<m46>"),
    ("notion old", "{}", "secret_<m43>"),
    ("airtable", "{}", "pat<m14>.<h64>"),
    ("airtable old", "airtable_api_key={}", "key<m14>"),
    ("figma", "{}", "figd_<w43>"),
    ("asana", "{}", "1/<d16>:<h32>"),
    ("asana client", "asana_client_secret={}", "<l32>"),
    ("clickup", "{}", "pk_<n8>_<u32>"),
    ("contentful", "{}", "CFPAT-<w43>"),
    ("contentful delivery", "contentful_token={}", "<w43>"),
    ("hubspot", "{}", "pat-na1-<uuid>"),
    ("hubspot old", "hubspot_api_key={}", "<uuid>"),
    ("intercom", "INTERCOM_TOKEN={}", "<m60>"),
    ("zendesk", "zendesk_secret: {}", "<m40>"),
    ("typeform", "{}", "tfp_<w59>"),
    ("adobe", "{}", "p8e-<m32>"),
    ("adobe client", "adobe_client_id={}", "<h32>"),
    ("adafruit", "adafruit_io_key={}", "<m32>"),
    ("adafruit new", "{}", "aio_<m28>"),
    ("beamer", "beamer_api_token={}", "b_<w44>"),
    ("dropbox", "{}", "sl.<w140>"),
    ("dropbox long", "dropbox_token={}", "<m11>AAAAAAAAAA<w43>"),
    ("mapbox", "{}", "sk.eyJ<m60>.<m22>"),
    ("frame.io", "{}", "fio-u-<w64>"),
    ("settlemint", "{}", "sm_pat_<m16>"),
    ("intra42", "{}", "s-s4t2ud-<h64>"),
    ("okta", "OKTA_API_TOKEN={}", "00<w40>"),
    ("flickr", "flickr_api_key={}", "<h32>"),
    ("gitter", "gitter_token={}", "<h40>"),
    ("nytimes", "nytimes_api_key={}", "<m32>"),
    ("rapidapi", "X-RapidAPI-Key: {}", "<h18>msh<h15>p<h6>jsn<h12>"),
    ("squarespace", "squarespace_api_key={}", "<uuid>"),
    ("sendbird", "sendbird_token={}", "<h40>"),
    ("twitch", "twitch_client_secret={}", "<l30>"),
    ("linkedin", "linkedin_client_secret={}", "<m16>"),
    ("finicity", "finicity_app_secret={}", "<l20>"),
    ("finnhub", "finnhub_token={}", "<l20>"),
    ("freshbooks", "freshbooks_secret={}", "<h64>"),
    // Mail, messaging, payments, shops.
    ("sendgrid", "{}", "SG.<w22>.<w43>"),
    ("mailgun", "api:{}", "key-<h32>"),
    ("mailgun signing", "mailgun_signing_key={}", "<h32>-<h8>-<h8>"),
    ("mailchimp", "{}", "<h32>-us12"),
    ("mailersend", "{}", "mlsn.<h64>"),
    ("brevo", "{}", "xkeysib-<h64>-<m16>"),
    ("resend", "{}", "re_<m8>_<m24>"),
    ("postmark", "X-Postmark-Server-Token: {}", "<uuid>"),
    ("twilio", "TWILIO_AUTH_TOKEN={}", "<h32>"),
    ("twilio key", "{}", "SK<h32>"),
    ("messagebird", "messagebird_key={}", "<m25>"),
    ("vonage", "VONAGE_API_SECRET={}", "<m16>"),
    ("stripe", "{}", "sk_live_<m24>"),
    ("stripe restricted", "{}", "rk_live_<m24>"),
    ("stripe hook", "{}", "whsec_<m32>"),
    ("square", "{}", "sq0atp-<w22>"),
    ("square secret", "{}", "sq0csp-<w43>"),
    ("paddle", "{}", "pdl_live_apikey_<m26>_<m22>_<m3>"),
    ("polar", "{}", "polar_oat_<m43>"),
    ("shopify", "{}", "shpat_<h32>"),
    ("shopify shared", "{}", "shpss_<h32>"),
    ("shippo", "{}", "shippo_live_<h40>"),
    ("easypost", "{}", "EZAK<m54>"),
    ("duffel", "{}", "duffel_live_<w43>"),
    ("flutterwave", "{}", "FLWSECK_TEST-<h32>-X"),
    ("razorpay", "{}", "rzp_live_<m14>"),
    ("gocardless", "gocardless_token={}", "live_<w40>"),
    ("lob", "LOB_API_KEY={}", "live_<h35>"),
    ("lob public", "{}", "live_pub_<h31>"),
    ("plaid", "{}", "access-production-<uuid>"),
    ("plaid secret", "plaid_secret={}", "<h30>"),
    ("paypal", "{}", "access_token$production$<l16>$<h32>"),
    ("coinbase", "coinbase_token={}", "<m64>"),
    ("kraken", "kraken_secret={}", "<b86>"),
    ("kucoin", "kucoin_secret={}", "<uuid>"),
    ("bittrex", "bittrex_key={}", "<h32>"),
    ("etsy", "etsy_token: {}", "<l24>"),
    ("facebook", "{}", "EAAC<m120>"),
    ("facebook app", "facebook_token={}", "<d16>|<m27>"),
    ("facebook secret", "facebook_secret={}", "<h32>"),
    ("twitter bearer", "{}", "AAAAAAAAAAAAAAAAAAAAAA<m90>"),
    ("twitter secret", "twitter_api_secret={}", "<m50>"),
    ("twitter token", "twitter_access_token={}", "<d18>-<m35>"),
    ("defined", "{}", "dnkey-<w26>-<w52>"),
    // Wallets.
    ("hex private key", "PRIVATE_KEY=0x{}", "<h64>"),
    ("hex private key in code", "const privateKey = \"{}\";", "0x<h64>"),
    ("extended key", "{}", "xprv<m107>"),
    ("infura", "https://mainnet.infura.io/v3/{}", "<h32>"),
    ("alchemy", "https://eth-mainnet.g.alchemy.com/v2/{}", "<w32>"),
    ("quicknode", "https://a-b-c.quiknode.pro/{}/", "<h40>"),
    // Recognised by their context.
    ("jwt", "{}", "eyJhbGciOiJIUzI1NiJ9.eyJ<w60>.<w43>"),
    ("bearer", "Authorization: Bearer {}", "<m40>"),
    ("basic", "Authorization: Basic {}", "<m30>=="),
    ("api key header", "X-Api-Key: {}", "<m32>"),
    ("curl header", "curl -H 'X-Auth-Token: {}' https://host.internal", "<m24>"),
    ("cookie", "Cookie: {}", "session=<m32>; theme=dark"),
    ("url", "postgres://app:{}@db.internal:5432/app", "<m14>!x"),
    ("url with signs", "postgres://app:{}@db.internal:5432/app", "<m8>@<m4>/<m4>#x9"),
    ("redis url", "redis://:{}@cache.internal:6379/0", "<m20>"),
    ("password", "DB_PASSWORD={}", "<m12>#9"),
    ("password with signs", "DB_PASSWORD={}", "<m4>1$<m5>&<m5>@<m3>"),
    ("password with an end", "DB_PASSWORD={}", "<m8>1=?"),
    ("password with a full stop", "password: {}", "<m4>7x<m6>."),
    ("long password", "DB_PASSWORD={}", "<p1200>"),
    ("long token", "{\"token\": \"{}\"}", "<m1200>"),
    ("quoted password", "password = '{}'", "<p16>x9"),
    ("json password", "{\"password\": \"{}\"}", "<m12>!7"),
    ("yaml password", "spring:\n  datasource:\n    password: {}", "<m10>$7x"),
    ("properties", "spring.datasource.password={}", "<m12>!7"),
    ("connection string", "Server=db;User Id=sa;Password={};Encrypt=true", "<m8>$9x!<m3>"),
    ("query", "https://h/cb?access_token={}&state=1", "<m40>"),
    ("secret", "client_secret = '{}'", "<m32>"),
    ("token", "export MY_TOKEN={}", "<m30>"),
    ("uuid token", "SERVICE_API_TOKEN={}", "<uuid>"),
    ("uuid secret", "client_secret: {}", "<uuid>"),
    ("hex key", "ENCRYPTION_KEY={}", "<h64>"),
    ("laravel", "APP_KEY=base64:{}", "<b43>="),
    ("fernet", "FERNET_KEY={}", "<w43>="),
    ("django", "SECRET_KEY = 'django-insecure-{}'", "<p50>"),
    ("rails", "secret_key_base: {}", "<h128>"),
    ("rails master", "RAILS_MASTER_KEY={}", "<h32>"),
    ("wordpress", "define('AUTH_KEY', '{}');", "<p64>"),
    ("jwt secret", "JWT_SECRET={}", "<m40>"),
    ("kubeconfig", "    client-key-data: {}", "LS0tLS1CRUdJTi<b400>="),
    ("kubeconfig certificate", "    client-certificate-data: {}", "LS0tLS1CRUdJTi<b400>="),
    ("kubernetes", "kind: Secret\nmetadata:\n  name: x\ndata:\n  config: {}\n", "<m22>=="),
    ("kubernetes password", "  password: {}", "<m18>=="),
    ("xml attributes", "<add key=\"ServicePassword\" value=\"{}\"/>", "<m10>!x9"),
    ("xml element", "<password>{}</password>", "<m10>!x9"),
    ("environment list", "- name: DB_PASSWORD\n  value: {}", "<m10>!x9"),
    ("json pair", "{\"name\": \"API_TOKEN\", \"value\": \"{}\"}", "<m32>"),
    ("sql identified", "CREATE USER a IDENTIFIED BY '{}';", "<m10>!x9"),
    ("sql password", "ALTER ROLE a WITH PASSWORD '{}';", "<m10>!x9"),
    ("openssl pass", "openssl enc -pass pass:{} -in x", "<m10>!X9"),
    ("passphrase", "gpg --batch --passphrase {} -d x", "<m12>!x9"),
    ("flag", "deploy --api-key {} --now", "<m32>"),
    ("flag with sign", "deploy --client-secret={} --now", "<m32>"),
    ("sshpass", "sshpass -p {} ssh host", "<m10>x9"),
    ("mysql", "mysql -u root -p{} db", "<m10>x9"),
    ("curl", "curl -u admin:{} https://host.internal/", "<l12>x9"),
    ("netrc", "machine host.internal login me password {}", "<l10>x9"),
    ("pgpass", "db.internal:5432:app:app:{}", "<m12>!x9"),
    ("shadow", "root:{}:19000:0:99999:7:::", "$6$<m16>$<m86>"),
    ("bcrypt", "hash {}", "$2b$12$<m53>"),
    ("argon2", "hash {}", "$argon2id$v=19$m=65536,t=3,p=4$<m22>$<m43>"),
    ("yescrypt", "root:{}:19000::::::", "$y$j9T$<m22>$<m43>"),
    ("call", "os.environ.setdefault(\"DB_PASSWORD\", \"{}\")", "<m10>!x9"),
    ("typed", "const API_KEY: &str = \"{}\";", "<m32>"),
    ("spoken", "The password is {} by the way", "<m10>!x9"),
    // Command arguments.
    ("htpasswd", "htpasswd -b users.txt bob {}", "<m10>!x9"),
    ("htpasswd shown", "htpasswd -nb bob {}", "<m10>!x9"),
    ("openssl key", "openssl enc -aes-256-cbc -k {} -in x", "<m10>!x9"),
    ("openssl key first", "openssl enc -k {} -aes-256-cbc", "<m10>!x9"),
    ("openssl passin", "openssl rsa -passin pass:{} -in x", "<m10>!X9"),
    ("httpie", "http -a bob:{} host.internal", "<m10>!x9"),
    ("user and password flags", "mongosh -u admin -p {} host.internal", "<m10>!x9"),
    ("net user", "net user bob {} /add", "<m10>!x9"),
    ("rabbitmq", "rabbitmqctl add_user bob {}", "<m10>!x9"),
    ("wifi", "nmcli dev wifi connect home password {}", "<m10>!x9"),
    ("ldap", "ldapmodify -x -w {} -D cn=admin", "<m10>!x9"),
    (
        "echoed to docker",
        "echo {} | docker login -u me --password-stdin r.io && docker push r.io/app:latest # and done",
        "<m10>!x9",
    ),
    ("echoed to sudo", "echo '{}' | sudo -S ls", "<m10>!x9"),
    ("chpasswd", "echo 'bob:{}' | sudo chpasswd", "<m10>!x9"),
    ("here string", "gh auth login --with-token <<< {}", "<m40>"),
    ("sqlplus", "sqlplus system/{}@host:1521/x", "<m10>!x9"),
    ("cargo login", "cargo login {}", "<m34>"),
    ("poetry", "poetry config pypi-token.pypi {}", "<m40>"),
    ("kubectl literal", "kubectl create secret generic x --from-literal=conf={}", "<m24>"),
    ("cookie of a command", "curl -b 'sid={}' https://host.internal/", "<m32>"),
    ("set cookie", "Set-Cookie: sid={}; Path=/; HttpOnly", "<m32>"),
    ("second cookie", "Cookie: a=1; sid={}", "<m32>"),
    // In code.
    ("secure string", "ConvertTo-SecureString \"{}\" -AsPlainText -Force", "<m10>!x9"),
    ("credential", "new NetworkCredential(\"bob\", \"{}\")", "<m10>!x9"),
    ("basic call", "requests.get(u, auth=('bob', '{}'))", "<m10>!x9"),
    ("connection call", "DriverManager.getConnection(url, \"bob\", \"{}\")", "<m10>!x9"),
    ("setter", "user.setPassword(\"{}\");", "<m10>!x9"),
    ("form", "await page.fill('#password', '{}')", "<m10>!x9"),
    ("form of a test", "cy.get('#password').type('{}')", "<m10>!x9"),
    ("terraform default", "variable \"db_password\" { default = \"{}\" }", "<m10>!x9"),
    ("discord login", "client.login('{}')", "<m40>"),
    // In prose.
    ("table", "| password | {} |", "<m10>!x9"),
    ("bold", "**Password:** {}", "<m10>!x9"),
    ("bold key", "- **API Key**: `{}`", "<m32>"),
    ("api key of two words", "API key: {}", "<m32>"),
    ("secret key of two words", "secret key: {}", "<m32>"),
    ("hmac key", "hmac key: {}", "<h40>"),
    ("backup code", "backup_code={}", "<m20>"),
    ("credentials", "Credentials: admin / {}", "<m10>!x9"),
    ("setting without a sign", "auth_token {}", "<m32>"),
    ("bindpw", "bindpw {}", "<m10>!x9"),
    ("salt", "salt: {}", "<m32>"),
    ("psk", "wpa_psk={}", "<m10>!x9"),
    ("French", "Mot de passe : {}", "<m10>!x9"),
    ("Spanish", "contraseña: {}", "<m10>!x9"),
    ("Russian", "Пароль: {}", "<m10>!x9"),
    ("Chinese", "密码：{}", "<m10>!x9"),
    ("Japanese", "パスワード: {}", "<m10>!x9"),
    ("address without a scheme", "//bob:{}@host.internal/x", "<m10>!x9"),
    ("signed address", "https://b.s3.amazonaws.com/x?X-Amz-Signature={}", "<h64>"),
    ("key in a query", "https://host.internal/v1?key={}&alt=json", "<m39>"),
    ("odbc", "Driver=x;Server=h;UID=me;PWD={};", "<m10>!x9"),
    ("jdbc", "jdbc:postgresql://h/db?user=me&password={}", "<m10>!x9"),
    ("oracle", "jdbc:oracle:thin:me/{}@host:1521/x", "<m10>!x9"),
    ("mongodb", "mongodb+srv://me:{}@c0.mongodb.net/x", "<m10>!x9"),
    ("amqp", "amqp://me:{}@rabbit:5672/", "<m10>!x9"),
    ("maven", "<server><id>x</id><password>{}</password></server>", "<m10>!x9"),
    ("anvil", "(0) {}", "0x<h64>"),
    ("bare key", "{}", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj<b400>"),
    ("bare ed25519 key", "{}", "MC4CAQAwBQYDK2VwBCIEI<b43>"),
    // Newer services.
    ("llamacloud", "{}", "llx-<m48>"),
    ("daytona", "{}", "dtn_<h64>"),
    ("browser use", "{}", "bu_<w43>"),
    ("scrapegraph", "{}", "sgai-<uuid>"),
    ("ory", "{}", "ory_pat_<m32>"),
    ("deno", "{}", "ddp_<m36>"),
    ("ntfy", "{}", "tk_<l29>"),
    ("amazon mws", "{}", "amzn.mws.<uuid>"),
    ("amazon client", "{}", "amzn1.oa2-cs.v1.<h64>"),
    ("paseto", "{}", "v4.local.<w120>"),
    ("astra", "{}", "AstraCS:<m24>:<h64>"),
    ("rancher", "{}", "token-<l5>:<l54>"),
    ("proxmox", "Authorization: PVEAPIToken=root@pam!ci={}", "<uuid>"),
];

impl CredentialRng {
    /// Fills in a form.
    fn form(&mut self, form: &str) -> String {
        let mut out = String::new();
        let mut rest = form;
        while let Some(open) = rest.find('<') {
            out.push_str(&rest[..open]);
            let close = open + rest[open..].find('>').expect("form closes its placeholder");
            let (of, n) = rest[open + 1..close].split_at(1);
            let of = match of {
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
                Ok(n) => self.mixed(of, n),
                Err(_) => self.uuid(),
            });
            rest = &rest[close + 1..];
        }
        out + rest
    }

    /// Returns characters with both letters and digits if there are enough of them, and with a letter or digit at both
    /// ends; a secret of one repeated letter would not be recognised.
    fn mixed(&mut self, of: &str, n: usize) -> String {
        loop {
            let text = self.some(of, n);
            let ends = [text.bytes().next(), text.bytes().last()];
            let solid = ends.iter().flatten().all(u8::is_ascii_alphanumeric);
            let letters = text.bytes().filter(u8::is_ascii_alphabetic).count();
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            let both = letters * 8 > n && digits * 12 > n;
            if n < 8 || solid && (both || of == DIGITS || of == "123456789") {
                return text;
            }
        }
    }
}

/// Returns one credential of each kind.
pub fn planted_credentials(seed: u64) -> Vec<PlantedCredential> {
    let mut dice = CredentialRng(seed.wrapping_mul(2).wrapping_add(1));
    let d = &mut dice;
    let mut all = Vec::new();
    let mut add = |kind: &'static str, text: &str, secret: String| {
        all.push(PlantedCredential { kind, text: text.replace("{}", &secret), secret });
    };
    add("token with a blank behind it", "API_TOKEN='{} x'", format!("a7B{}", d.some(MIXED, 27)));
    add("password with a blank before it", "DB_PASSWORD=\" {}\"", format!("Zk8{}", d.some(MIXED, 12)));
    add(
        "password behind a mark",
        "DB_PASSWORD=\"[REDACTED:assignment] {}\"",
        format!("Zk8{}", d.some(MIXED, 12)),
    );
    for (kind, text, form) in FORMS {
        add(kind, text, d.form(form));
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
        let lines: Vec<String> = (0..12).map(|_| d.some(MIXED, 64)).collect();
        add(kind, "{}", format!("-----BEGIN {name}-----\n{}\n-----END {name}-----", lines.join("\n")));
    }
    let bytes: Vec<String> = (0..64).map(|_| (d.next() % 256).to_string()).collect();
    add("solana key", "{}", format!("[{}]", bytes.join(",")));
    const SEED: [&str; 16] = [
        "abandon", "ability", "cradle", "dolphin", "eager", "fabric", "garlic", "hazard", "icon", "jungle",
        "kidney", "ladder", "magnet", "napkin", "ocean", "paddle",
    ];
    let words: Vec<&str> = (0..12).map(|_| SEED[usize::try_from(d.next() % 16).unwrap_or(0)]).collect();
    add("mnemonic", "mnemonic: {}\nkeep it well, where nobody ever looks", words.join(" "));
    all
}

/// Places of a log where text can occur.
pub const PLACES: [&str; 30] = [
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
    "thinking",
    "summary",
    "system note",
    "request blob",
    "subagent",
    "environment file",
    "indented file",
    "escaped twice",
    "base64",
    "base64 lines",
    "percent signs",
];

/// Kinds of sidecar files.
pub const FILES: [&str; 8] = [
    "text",
    "carriage returns",
    "JSON",
    "JSON lines",
    "UTF-16",
    "UTF-16, big end first",
    "UTF-32",
    "UTF-32, big end first",
];

/// Returns the bytes of a sidecar file that contains a text.
pub fn file(kind: &str, text: &str) -> Vec<u8> {
    let content = format!("first line\n{text}\nlast line\n");
    match kind {
        "text" => content.into_bytes(),
        "carriage returns" => content.replace('\n', "\r\n").into_bytes(),
        "JSON" => json!({ "items": [{ "text": content }] }).to_string().into_bytes(),
        "JSON lines" => format!("{}\n{}\n", json!({ "n": 1 }), json!({ "log": content })).into_bytes(),
        "UTF-16" => "\u{feff}"
            .chars()
            .chain(content.chars())
            .collect::<String>()
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect(),
        "UTF-32" => {
            "\u{feff}".chars().chain(content.chars()).flat_map(|c| u32::from(c).to_le_bytes()).collect()
        }
        "UTF-32, big end first" => content.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
        _ => content.encode_utf16().flat_map(u16::to_be_bytes).collect(),
    }
}

/// Encodes a text as base64, in lines of `columns` characters.
pub fn base64(text: &str, columns: usize) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in text.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let all = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(all >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= three.len() { digit as char } else { '=' });
        }
    }
    let lines: Vec<&[u8]> = out.as_bytes().chunks(columns).collect();
    String::from_utf8_lossy(&lines.join(&b'\n')).into_owned()
}

/// Percent-encodes a text.
pub fn percent(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Returns an entry with a text in a place; for a torn line, the last line of a log.
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
    let content = format!("before {text} after");
    let result = |content: &str| json!([{"type": "tool_result", "tool_use_id": format!("toolu_{n}"), "content": content}]);
    let value = match place {
        "user text" => user(json!([{"type": "text", "text": content}]), json!({})),
        "user string" => user(json!(content), json!({})),
        "assistant text" => row(
            "assistant",
            json!({"message": {"role": "assistant", "id": format!("msg_{n}"), "model": "claude-opus-5", "content": [{"type": "text", "text": content}]}}),
        ),
        "tool input" => row(
            "assistant",
            json!({"message": {"role": "assistant", "id": format!("msg_{n}"), "model": "claude-opus-5", "content": [{"type": "tool_use", "id": format!("toolu_{n}"), "name": "Bash", "input": {"command": content}}]}}),
        ),
        "tool result" => user(result(&content), json!({})),
        "result copy" => user(
            result("ok"),
            json!({"toolUseResult": {"stdout": json!({"log": content}).to_string(), "stderr": ""}}),
        ),
        "nested lines" => {
            let inner = json!({ "log": json!({ "text": format!("x\n{text}\ny") }).to_string() }).to_string();
            user(result(&inner), json!({}))
        }
        "coloured" => user(result(&format!("\u{1b}[32m{text}\u{1b}[0m")), json!({})),
        "named value" => user(result("ok"), json!({ "toolUseResult": { "env": { "A": text } } })),
        "edit lines" => user(
            result("ok"),
            json!({"toolUseResult": {"structuredPatch": [{"lines": content.lines().map(|line| format!("+{line}")).collect::<Vec<_>>()}]}}),
        ),
        "request" => {
            json!({"type": "api-request", "sessionId": "s", "body": {"messages": [{"role": "user", "content": content}]}})
        }
        "queue" => {
            json!({"type": "queue-operation", "operation": "enqueue", "sessionId": "s", "content": content})
        }
        "snapshot" => {
            json!({"type": "file-history-snapshot", "messageId": uuid, "snapshot": {"trackedFileBackups": {content: {"version": 1}}}})
        }
        "title" => json!({"type": "custom-title", "customTitle": content, "sessionId": "s"}),
        "last prompt" => json!({"type": "last-prompt", "lastPrompt": content, "sessionId": "s"}),
        "attachment" => row(
            "attachment",
            json!({"attachment": {"type": "edited_text_file", "filename": "/a", "snippet": content}}),
        ),
        "progress" => row("progress", json!({"data": {"type": "bash_progress", "output": content}})),
        "thinking" => row(
            "assistant",
            json!({"message": {"role": "assistant", "id": format!("msg_{n}"), "model": "claude-opus-5", "content": [{"type": "thinking", "thinking": content, "signature": "c2ln"}, {"type": "text", "text": "ok"}]}}),
        ),
        "summary" => json!({"type": "summary", "summary": content, "leafUuid": uuid}),
        "system note" => {
            row("system", json!({"subtype": "informational", "content": content, "level": "info"}))
        }
        "request blob" => {
            json!({"type": "api-request-blob", "sessionId": "s", "hash": "0", "content": content})
        }
        "subagent" => user(json!(content), json!({"isSidechain": true, "agentId": "a1b2c3d4"})),
        "environment file" => user(result(&format!("# settings\nDEBUG=1\n{text}\nPORT=80\n")), json!({})),
        "indented file" => {
            let lines: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
            user(result(&format!("settings:\n  a: 1\n{}\n  b: 2\n", lines.join("\n"))), json!({}))
        }
        "escaped twice" => {
            let inner =
                json!({ "b": json!({ "c": json!({ "d": content }).to_string() }).to_string() }).to_string();
            user(json!(inner), json!({}))
        }
        "base64" => user(result(&format!("x={} y", base64(&content, usize::MAX))), json!({})),
        "base64 lines" => user(result(&format!("$ base64 x\n{}\n$", base64(&content, 76))), json!({})),
        "percent signs" => {
            user(json!(format!("see https://host.internal/cb?n=1&note={}", percent(&content))), json!({}))
        }
        "escaped" => {
            let escaped: String = content.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
            let line = user(json!("MARK"), json!({})).to_string();
            return line.replace("\"MARK\"", &format!("\"{escaped}\"")) + "\n";
        }
        _ => {
            let line = user(json!(content), json!({})).to_string();
            return line[..line.len() - 40].to_owned();
        }
    };
    value.to_string() + "\n"
}
