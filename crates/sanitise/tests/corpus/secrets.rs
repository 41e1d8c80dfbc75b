//! Secrets of every kind, made up on the spot: none is committed, none was ever valid.
//!
//! Written from what the services document, apart from the tables under test. `<an36>` stands for
//! 36 random letters and digits; what stands between « and » is the secret where its line is part
//! of what it is known by.

use crate::rng::Rng;

/// The kind as the placeholder names it, and what its secrets look like.
pub(crate) const FORMS: &[(&str, &str)] = &[
    ("github-token", "ghp_<crc>"),
    ("github-token", "gho_<crc>"),
    ("github-token", "ghu_<crc>"),
    ("github-token", "ghs_<crc>"),
    ("github-token", "ghr_<crc>"),
    ("github-token", "github_pat_<an22>_<an59>"),
    ("gitlab-token", "glpat-<ds20>"),
    ("gitlab-deploy-token", "gldt-<ds20>"),
    ("gitlab-feed-token", "glft-<ds20>"),
    ("gitlab-runner-token", "glrt-<ds20>"),
    ("gitlab-runner-token", "GR1348941<ds20>"),
    ("gitlab-job-token", "glcbt-<ds25>"),
    ("gitlab-trigger-token", "glptt-<hx40>"),
    ("gitlab-agent-token", "glagent-<ds50>"),
    ("gitlab-oauth-secret", "gloas-<ds64>"),
    ("gitlab-scim-token", "glsoat-<ds20>"),
    ("gitlab-mail-token", "glimt-<ds25>"),
    ("bitbucket-token", "ATBB<an32>"),
    ("atlassian-token", "ATATT3<ds180>"),
    ("npm-token", "npm_<crc>"),
    (
        "npmrc-credential",
        "//registry.npmjs.org/:_authToken=«<uuid>»",
    ),
    (
        "npmrc-credential",
        "//npm.corp.example/:_password=\"«<b24>»\"",
    ),
    ("npmrc-credential", "//npm.corp.example/:_auth=«<b40>»"),
    ("pypi-token", "pypi-AgEIcHlwaS5vcmc<ds150>"),
    ("rubygems-key", "rubygems_<hx48>"),
    ("crates-token", "cio<an32>"),
    ("nuget-key", "oy2<lo43>"),
    ("clojars-token", "CLOJARS_<lo60>"),
    ("docker-token", "dckr_pat_<ds27>"),
    ("docker-token", "dckr_oat_<ds32>"),
    ("docker-login", "      \"auth\": \"«<login>»\""),
    ("binary-registry-key", "AKCp<an69>"),
    ("packagist-token", "packagist_uut_<hx68>"),
    ("buildkite-token", "bkua_<hx40>"),
    ("circleci-token", "CCIPAT_<an22>_<hx40>"),
    ("sonar-token", "sqp_<hx40>"),
    ("sonar-token", "squ_<hx40>"),
    ("octopus-key", "API-<up26>"),
    ("sourcegraph-token", "sgp_<hx16>_<hx40>"),
    ("aws-access-key", "AKIA<bt16>"),
    ("aws-access-key", "ASIA<bt16>"),
    ("aws-secret-key", "aws_secret_access_key = «<b40>»"),
    ("aws-secret-key", "export AWS_SECRET_ACCESS_KEY=\"«<b40>»\""),
    ("aws-secret-key", "\"SecretAccessKey\": \"«<b40>»\","),
    ("aws-session-token", "aws_session_token = «<b356>»"),
    ("aws-bedrock-key", "ABSK<b128>"),
    ("google-api-key", "AIza<ds35>"),
    ("google-oauth-secret", "GOCSPX-<ds28>"),
    ("google-access-token", "ya29.<ds120>"),
    ("google-refresh-token", "1//0<ds60>"),
    (
        "azure-storage-key",
        "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=«<b86>==»;EndpointSuffix=core.windows.net",
    ),
    (
        "azure-shared-key",
        "Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=root;SharedAccessKey=«<b43>=»",
    ),
    (
        "azure-sas-signature",
        "https://acme.blob.core.windows.net/c/b?sv=2022-11-02&sr=b&sig=«<an43>%3D»&se=2030-01-01",
    ),
    ("azure-client-secret", "<an3>8Q~<ds34>"),
    ("digitalocean-token", "dop_v1_<hx64>"),
    ("cloudflare-origin-key", "v1.0-<hx24>-<hx146>"),
    ("alibaba-access-key", "LTAI<an20>"),
    ("tencent-secret-id", "AKID<an32>"),
    ("yandex-key", "AQVN<ds36>"),
    ("heroku-key", "HRKU-AA<ds58>"),
    ("fly-token", "fm2_<b300>"),
    ("fly-token", "fo1_<ds43>"),
    ("render-key", "rnd_<an32>"),
    ("netlify-token", "nfp_<an36>"),
    ("scalingo-token", "tk-us-<ds48>"),
    ("pulumi-token", "pul-<hx40>"),
    ("terraform-token", "<an14>.atlasv1.<ds64>"),
    ("vault-token", "hvs.<ds95>"),
    ("vault-token", "hvb.<ds138>"),
    ("doppler-token", "dp.pt.<an43>"),
    ("doppler-token", "dp.st.prd.<an43>"),
    ("onepassword-token", "ops_eyJ<b300>"),
    ("onepassword-key", "A3-<up6>-<up6>-<up5>-<up5>-<up5>"),
    ("supabase-token", "sbp_<hx40>"),
    ("supabase-key", "sb_secret_<ds31>"),
    ("planetscale-token", "pscale_tkn_<ds43>"),
    ("planetscale-password", "pscale_pw_<ds43>"),
    ("databricks-token", "dapi<hx32>"),
    ("openshift-token", "sha256~<ds43>"),
    ("tailscale-key", "tskey-auth-<an12>CNTRL-<an32>"),
    ("launchdarkly-key", "sdk-<uuid>"),
    ("anthropic-key", "sk-ant-api03-<ds93>AA"),
    ("openrouter-key", "sk-or-v1-<hx64>"),
    ("openai-key", "sk-<an20>T3BlbkFJ<an20>"),
    ("openai-key", "sk-proj-<ds74>T3BlbkFJ<ds74>"),
    ("huggingface-token", "hf_<le34>"),
    ("replicate-token", "r8_<an37>"),
    ("groq-key", "gsk_<an52>"),
    ("perplexity-key", "pplx-<an48>"),
    ("xai-key", "xai-<an80>"),
    ("together-key", "tgp_v1_<ds43>"),
    ("fireworks-key", "fw_<an22>"),
    ("nvidia-key", "nvapi-<ds64>"),
    ("langsmith-key", "lsv2_pt_<hx32>_<hx10>"),
    ("elevenlabs-key", "sk_<hx48>"),
    ("pinecone-key", "pcsk_<an6>_<an63>"),
    ("cerebras-key", "csk-<lo48>"),
    ("tavily-key", "tvly-dev-<an32>"),
    ("jina-key", "jina_<lo32><an28>"),
    (
        "jwt",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ<ds90>.<ds43>",
    ),
    ("stripe-key", "sk_live_<an24>"),
    ("stripe-key", "rk_live_<an99>"),
    ("stripe-webhook-secret", "whsec_<an32>"),
    ("square-token", "EAAA<ds60>"),
    ("square-secret", "sq0csp-<ds43>"),
    ("braintree-token", "access_token$production$<lo16>$<hx32>"),
    ("shopify-token", "shpat_<hx32>"),
    ("shopify-secret", "shpss_<hx32>"),
    ("plaid-token", "access-production-<uuid>"),
    ("flutterwave-key", "FLWSECK-<hx32>-X"),
    ("easypost-key", "EZAK<an54>"),
    ("shippo-token", "shippo_live_<hx40>"),
    ("duffel-token", "duffel_live_<ds43>"),
    ("sendgrid-key", "SG.<ds22>.<ds43>"),
    ("brevo-key", "xkeysib-<hx64>-<an16>"),
    ("mailgun-key", "MAILGUN_API_KEY=«<hx32>-<hx8>-<hx8>»"),
    ("mailchimp-key", "<hx32>-us<dg2>"),
    ("resend-key", "re_<an8>_<an24>"),
    ("twilio-key", "SK<hx32>"),
    ("slack-token", "xoxb-<dg12>-<dg13>-<an24>"),
    ("slack-token", "xoxp-<dg12>-<dg12>-<dg13>-<hx32>"),
    ("slack-app-token", "xapp-1-A<up10>-<dg13>-<hx64>"),
    (
        "slack-webhook",
        "https://hooks.slack.com/services/«T<up10>/B<up10>/<an24>»",
    ),
    (
        "discord-webhook",
        "https://discord.com/api/webhooks/«<dg18>/<ds68>»",
    ),
    (
        "teams-webhook",
        "https://acme.webhook.office.com/webhookb2/«<uuid>@<uuid>/IncomingWebhook/<hx32>/<uuid>»",
    ),
    ("telegram-token", "<dg9>:AA<ds33>"),
    ("twitch-token", "oauth:<lo30>"),
    ("newrelic-key", "NRAK-<up27>"),
    ("datadog-key", "DD_API_KEY=«<hx32>»"),
    ("datadog-key", "dd_app_key: «<hx40>»"),
    ("sentry-token", "sntrys_eyJ<b120>_<b43>"),
    ("sentry-token", "sntryu_<hx64>"),
    ("grafana-token", "glsa_<an32>_<hx8>"),
    ("grafana-token", "glc_<b120>"),
    ("dynatrace-token", "dt0c01.<up24>.<up64>"),
    ("honeycomb-key", "hcaik_<lo58>"),
    ("posthog-key", "phx_<an43>"),
    ("elastic-key", "essu_<b64>"),
    ("prefect-key", "pnu_<lo36>"),
    ("airtable-token", "pat<an14>.<hx64>"),
    ("linear-key", "lin_api_<an40>"),
    ("notion-key", "ntn_<an46>"),
    ("notion-key", "secret_<an43>"),
    ("figma-token", "figd_<ds40>"),
    ("dropbox-token", "sl.<ds135>"),
    ("hubspot-token", "pat-na1-<uuid>"),
    ("salesforce-token", "00D<an15>!<an96>"),
    ("contentful-token", "CFPAT-<ds43>"),
    ("readme-key", "rdme_<lo70>"),
    ("postman-key", "PMAK-<hx24>-<hx34>"),
    ("mapbox-secret", "sk.eyJ<ds80>.<ds22>"),
    ("meta-token", "EAAC<an180>"),
    ("typeform-token", "tfp_<ds44>"),
    ("adobe-secret", "p8e-<ds32>"),
    ("adafruit-key", "aio_<an28>"),
    ("frameio-token", "fio-u-<ds64>"),
    ("age-key", "AGE-SECRET-KEY-1<up58>"),
    ("wireguard-key", "PrivateKey = «<b43>=»"),
    ("basic-auth", "Authorization: Basic «<login>»"),
    ("bearer-token", "Authorization: Bearer «<an40>»"),
    ("clickhouse-key", "4b1d<an38>"),
    ("asana-token", "ASANA_ACCESS_TOKEN=«1/<dg16>:<hx32>»"),
    (
        "private-key",
        "«-----BEGIN RSA PRIVATE KEY-----\n<pem>\n-----END RSA PRIVATE KEY-----»",
    ),
    (
        "private-key",
        "«-----BEGIN PRIVATE KEY-----\n<pem>\n-----END PRIVATE KEY-----»",
    ),
    (
        "private-key",
        "«-----BEGIN EC PRIVATE KEY-----\n<pem>\n-----END EC PRIVATE KEY-----»",
    ),
    (
        "private-key",
        "«-----BEGIN OPENSSH PRIVATE KEY-----\n<pem>\n-----END OPENSSH PRIVATE KEY-----»",
    ),
    (
        "private-key",
        "«-----BEGIN ENCRYPTED PRIVATE KEY-----\n<pem>\n-----END ENCRYPTED PRIVATE KEY-----»",
    ),
    (
        "private-key",
        "«-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n<pem>\n=<b4>\n-----END PGP PRIVATE KEY BLOCK-----»",
    ),
    (
        "private-key",
        "PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 4\n«<pem>»\nPrivate-MAC: <hx64>",
    ),
    (
        "netrc-password",
        "machine api.example.com login deploy password «<an16>»",
    ),
    (
        "login-password",
        "[pypi]\nusername = deploy\npassword = «<an14>7x»",
    ),
    (
        "connection-password",
        "Server=db.example.com;Database=app;User Id=app;Password=«<an14>»;Encrypt=true",
    ),
    (
        "connection-password",
        "jdbc:postgresql://db.example.com/app?user=app&password=«<an14>»&ssl=true",
    ),
    (
        "url-password",
        "postgres://app:«<an16>»@db.example.com:5432/app",
    ),
    (
        "url-password",
        "mongodb+srv://app:«<an16>»@cluster0.example.mongodb.net/app",
    ),
    ("url-password", "redis://:«<an20>»@cache.example.com:6379/0"),
    ("url-password", "amqp://app:«<an16>»@mq.example.com/vhost"),
    (
        "url-password",
        "https://deploy:«<an24>»@git.example.com/acme/app.git",
    ),
];

/// The forms that a name alone tells, as a structure has them: the kind, the name, the value.
pub(crate) const NAMED: &[(&str, &str, &str)] = &[
    (
        "npmrc-credential",
        "//registry.npmjs.org/:_authToken",
        "<uuid>",
    ),
    ("npmrc-credential", "//npm.corp.example/:_password", "<b24>"),
    ("npmrc-credential", "//npm.corp.example/:_auth", "<b40>"),
    ("docker-login", "auth", "<login>"),
    ("aws-secret-key", "aws_secret_access_key", "<b40>"),
    ("aws-secret-key", "AWS_SECRET_ACCESS_KEY", "<b40>"),
    ("aws-secret-key", "SecretAccessKey", "<b40>"),
    ("aws-session-token", "aws_session_token", "<b356>"),
    ("aws-session-token", "SessionToken", "<b356>"),
    ("azure-storage-key", "AccountKey", "<b86>=="),
    ("azure-shared-key", "SharedAccessKey", "<b43>="),
    ("mailgun-key", "MAILGUN_API_KEY", "<hx32>-<hx8>-<hx8>"),
    ("datadog-key", "DD_API_KEY", "<hx32>"),
    ("datadog-key", "dd_app_key", "<hx40>"),
    ("wireguard-key", "PrivateKey", "<b43>="),
    ("basic-auth", "Authorization", "Basic «<login>»"),
    ("bearer-token", "authorization", "Bearer «<an40>»"),
    ("asana-token", "ASANA_ACCESS_TOKEN", "1/<dg16>:<hx32>"),
];

/// A secret with its line, and the secret alone.
pub(crate) struct Made {
    pub(crate) line: String,
    pub(crate) secret: String,
    /// Whether the line belongs to it, so that it stands in a line of its own.
    pub(crate) own_line: bool,
}

pub(crate) fn make(form: &str, rng: &mut Rng) -> Made {
    let mut line = String::new();
    let mut rest = form;
    while let Some(open) = rest.find('<') {
        line.push_str(&rest[..open]);
        let close = open + rest[open..].find('>').unwrap();
        line.push_str(&fill(&rest[open + 1..close], rng));
        rest = &rest[close + 1..];
    }
    line.push_str(rest);
    match (line.find('«'), line.find('»')) {
        (Some(begin), Some(end)) => Made {
            secret: line[begin + '«'.len_utf8()..end].to_owned(),
            line: line.replace(['«', '»'], ""),
            own_line: true,
        },
        _ => Made {
            secret: line.clone(),
            line,
            own_line: false,
        },
    }
}

fn fill(name: &str, rng: &mut Rng) -> String {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let count = || {
        name.trim_start_matches(|c: char| c.is_ascii_alphabetic())
            .parse()
            .unwrap()
    };
    match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "uuid" => rng.uuid(),
        "crc" => checksummed(rng),
        "login" => encode(format!("deploy:{}", rng.text(LETTERS, 20)).as_bytes()),
        "pem" => (0..4)
            .map(|_| rng.base64(64))
            .collect::<Vec<_>>()
            .join("\n"),
        "an" => rng.text(LETTERS, count()),
        "le" => rng.text(LETTERS, count() - 1) + "7",
        "hx" => rng.hex(count()),
        "up" => rng.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", count()),
        "lo" => rng.text("abcdefghijklmnopqrstuvwxyz0123456789", count()),
        "bt" => rng.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", count()),
        "dg" => {
            let first = rng.text("123456789", 1);
            first + &rng.text("0123456789", count() - 1)
        }
        "ds" => {
            // A dash at the end would be cut off by the reader of an address, too.
            let inner: usize = count();
            rng.text(&format!("{LETTERS}-_"), inner - 1) + &rng.text(LETTERS, 1)
        }
        "b" => rng.base64(count()),
        other => panic!("no such alphabet: {other}"),
    }
}

/// Thirty random characters and their checksum, as GitHub and npm have it.
fn checksummed(rng: &mut Rng) -> String {
    const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let random = rng.text(std::str::from_utf8(DIGITS).unwrap(), 30);
    let mut sum = u32::MAX;
    for byte in random.bytes() {
        sum ^= u32::from(byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 {
                (sum >> 1) ^ 0xedb8_8320
            } else {
                sum >> 1
            };
        }
    }
    sum = !sum;
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(sum % 62) as usize];
        sum /= 62;
    }
    random + std::str::from_utf8(&digits).unwrap()
}

fn encode(bytes: &[u8]) -> String {
    let alphabet = crate::rng::BASE64.as_bytes();
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| {
            (bits << 8) | usize::from(*group.get(at).unwrap_or(&0))
        });
        for at in 0..4 {
            let index = (bits >> (18 - 6 * at)) & 63;
            out.push(if at <= group.len() {
                alphabet[index] as char
            } else {
                '='
            });
        }
    }
    out
}

/// Where a secret stands: a name, and the text around `¤`.
pub(crate) const CONTEXTS: &[(&str, &str)] = &[
    (
        "environment file",
        "# production\nAPI_TOKEN=¤\nDEBUG=false\n",
    ),
    (
        "YAML",
        "services:\n  web:\n    environment:\n      - TOKEN: \"¤\"\n    image: web:1\n",
    ),
    (
        "code",
        "const client = new Client({ token: '¤', retries: 3 });\n",
    ),
    (
        "log",
        "2030-01-02T03:04:05Z INFO auth: using token ¤ for user 7\n",
    ),
    (
        "JSON",
        "{\"id\": 7, \"token\": \"¤\", \"scopes\": [\"read\"]}\n",
    ),
    (
        "address",
        "GET https://api.example.com/v1/me?access_token=¤&page=2 HTTP/1.1\n",
    ),
    (
        "diff",
        "--- a/config\n+++ b/config\n@@ -1 +1 @@\n-token = \"old\"\n+token = \"¤\"\n",
    ),
];

/// A second set, written apart from the rules. Two kinds were mended after missing in it, so it is no
/// longer unseen.
pub(crate) const HELD_OUT: &[(&str, &str)] = &[
    (
        "escaped JSON",
        "{\"body\":\"{\\\"k\\\":\\\"v\\\"}\\n¤\\n\"}\n",
    ),
    ("XML", "<add key=\"token\" value=\"¤\"/><token>¤</token>\n"),
    ("prose", "My key is ¤, please do not share it (it was ¤).\n"),
    (
        "shell",
        "curl -u x:y --header 'X-Key: ¤' https://api.example.com | jq .\n",
    ),
    ("table", "| name | value |\n| --- | --- |\n| key | ¤ |\n"),
    ("first", "¤\n"),
    ("Markdown", "Run it with `¤` and see.\n"),
];
