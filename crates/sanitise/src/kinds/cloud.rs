//! Clouds, platforms, stores of secrets.

use super::Part::{Any, Assign, Lit, Run, Start};
use super::checks::{both_cases, mixed};
use super::{Kind, Part, kind};
use crate::class::{
    ALNUM, ANYHEX, BASE32, BASE64, BASE64_ANY, DASHED, DOTTED, HEX, SIGNATURE, UPPER, UUID, WORD,
};

const AWS_ID: &[Part] = &[Run(BASE32, 16, 16)];
const AWS_SECRET: &[Part] = &[Assign, Start, Run(BASE64, 40, 40)];
const AWS_SESSION: &[Part] = &[Assign, Start, Run(BASE64_ANY, 100, 2_000)];
const DIGITALOCEAN: &[Part] = &[Run(HEX, 64, 64)];
const AZURE_SECRET: &[Part] = &[Run(DOTTED, 31, 34)];
const DOPPLER: &[Part] = &[Run(ALNUM, 40, 44)];
const VAULT: &[Part] = &[Run(DASHED, 24, 300)];
const MACAROON: &[Part] = &[Run(BASE64_ANY, 100, 4_000)];

/// An Azure client secret: three characters, a digit, `Q~`, the rest.
const fn azure(literal: &'static str) -> Kind {
    kind("azure-client-secret", literal, AZURE_SECRET).before(DOTTED, 3)
}

pub(super) const KINDS: &[Kind] = &[
    kind("aws-access-key", "AKIA", AWS_ID).edge(),
    kind("aws-access-key", "ASIA", AWS_ID).edge(),
    kind("aws-access-key", "ABIA", AWS_ID).edge(),
    kind("aws-access-key", "ACCA", AWS_ID).edge(),
    kind("aws-secret-key", "secret_access_key", AWS_SECRET)
        .folded()
        .check(both_cases),
    kind("aws-secret-key", "secretaccesskey", AWS_SECRET)
        .folded()
        .check(both_cases),
    kind("aws-session-token", "session_token", AWS_SESSION)
        .folded()
        .check(both_cases),
    kind("aws-session-token", "sessiontoken", AWS_SESSION)
        .folded()
        .check(both_cases),
    kind(
        "aws-bedrock-key",
        "ABSK",
        &[Run(BASE64, 109, 269), Any(&["==", "=", ""])],
    )
    .edge(),
    kind("google-api-key", "AIza", &[Run(DASHED, 35, 35)]),
    kind("google-oauth-secret", "GOCSPX-", &[Run(DASHED, 28, 28)]),
    kind("google-access-token", "ya29.", &[Run(DASHED, 20, 1_024)]).edge(),
    kind("google-refresh-token", "1//0", &[Run(DASHED, 38, 200)])
        .edge()
        .check(both_cases),
    kind(
        "azure-storage-key",
        "AccountKey=",
        &[Start, Run(BASE64, 86, 86), Lit("==")],
    )
    .called("AccountKey"),
    kind(
        "azure-shared-key",
        "SharedAccessKey=",
        &[Start, Run(BASE64, 43, 43), Lit("=")],
    )
    .called("SharedAccessKey"),
    kind(
        "azure-sas-signature",
        "sig=",
        &[
            Start,
            Run(SIGNATURE, 43, 80),
            Any(&["=", "&", "\"", "'", " ", "\n", ""]),
        ],
    )
    .edge()
    .check(super::custom::is_sas),
    azure("0Q~"),
    azure("1Q~"),
    azure("2Q~"),
    azure("3Q~"),
    azure("4Q~"),
    azure("5Q~"),
    azure("6Q~"),
    azure("7Q~"),
    azure("8Q~"),
    azure("9Q~"),
    kind("digitalocean-token", "dop_v1_", DIGITALOCEAN),
    kind("digitalocean-token", "doo_v1_", DIGITALOCEAN),
    kind("digitalocean-token", "dor_v1_", DIGITALOCEAN),
    kind(
        "cloudflare-origin-key",
        "v1.0-",
        &[Run(HEX, 24, 24), Lit("-"), Run(HEX, 146, 146)],
    ),
    kind("alibaba-access-key", "LTAI", &[Run(ALNUM, 12, 26)])
        .edge()
        .check(both_cases),
    kind("tencent-secret-id", "AKID", &[Run(ALNUM, 32, 32)])
        .edge()
        .check(both_cases),
    kind("yandex-key", "AQVN", &[Run(DASHED, 35, 38)]).edge(),
    kind("heroku-key", "HRKU-", &[Run(DASHED, 36, 65)]).edge(),
    kind("fly-token", "fm2_", MACAROON).edge(),
    kind("fly-token", "fm1r_", MACAROON).edge(),
    kind("fly-token", "fo1_", &[Run(DASHED, 43, 43)]).edge(),
    kind("render-key", "rnd_", &[Run(ALNUM, 32, 32)])
        .edge()
        .check(mixed),
    kind("netlify-token", "nfp_", &[Run(WORD, 36, 36)])
        .edge()
        .check(mixed),
    kind("scalingo-token", "tk-us-", &[Run(DASHED, 48, 48)]).edge(),
    kind("pulumi-token", "pul-", &[Run(HEX, 40, 40)]).edge(),
    kind("terraform-token", ".atlasv1.", &[Run(DASHED, 60, 70)]).before(ALNUM, 14),
    kind("vault-token", "hvs.", VAULT).edge().check(mixed),
    kind("vault-token", "hvb.", VAULT).edge().check(mixed),
    kind("vault-token", "hvr.", VAULT).edge().check(mixed),
    kind("doppler-token", "dp.pt.", DOPPLER).edge(),
    kind("doppler-token", "dp.ct.", DOPPLER).edge(),
    kind("doppler-token", "dp.sa.", DOPPLER).edge(),
    kind(
        "doppler-token",
        "dp.st.",
        &[Run(DASHED, 0, 35), Any(&[".", ""]), Run(ALNUM, 40, 44)],
    )
    .edge(),
    kind(
        "onepassword-token",
        "ops_eyJ",
        &[Run(BASE64_ANY, 200, 2_000)],
    ),
    kind(
        "onepassword-key",
        "A3-",
        &[
            Run(UPPER, 6, 6),
            Lit("-"),
            Run(UPPER, 6, 11),
            Any(&["-"]),
            Run(UPPER, 5, 5),
            Lit("-"),
            Run(UPPER, 5, 5),
            Lit("-"),
            Run(UPPER, 5, 5),
        ],
    )
    .edge()
    .check(mixed),
    kind("supabase-token", "sbp_", &[Run(HEX, 40, 40)]).edge(),
    kind("supabase-key", "sb_secret_", &[Run(DASHED, 22, 64)]).edge(),
    kind("planetscale-token", "pscale_tkn_", &[Run(DOTTED, 32, 64)]),
    kind("planetscale-token", "pscale_oauth_", &[Run(DOTTED, 32, 64)]),
    kind("planetscale-password", "pscale_pw_", &[Run(DOTTED, 32, 64)]),
    kind(
        "databricks-token",
        "dapi",
        &[Run(HEX, 32, 32), Any(&["-2", "-3", ""])],
    )
    .edge(),
    kind("openshift-token", "sha256~", &[Run(DASHED, 43, 43)]).edge(),
    kind(
        "tailscale-key",
        "tskey-",
        &[
            Any(&["auth-", "api-", "client-", "scim-", "webhook-"]),
            Run(ALNUM, 8, 20),
            Lit("-"),
            Run(ALNUM, 20, 64),
        ],
    ),
    kind(
        "launchdarkly-key",
        "sdk-",
        &[
            Run(ANYHEX, 8, 8),
            Lit("-"),
            Run(ANYHEX, 4, 4),
            Lit("-"),
            Run(UUID, 22, 22),
        ],
    )
    .edge()
    .check(mixed),
];
