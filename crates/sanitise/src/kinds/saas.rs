//! Observing, design, planning, and keys of people.

use super::Part::{Any, Assign, Lit, Run, Start};
use super::checks::{both_cases, mixed};
use super::{Kind, Part, kind};
use crate::class::{ALNUM, ANYHEX, BASE64, BASE64_ANY, DASHED, DOTTED, HEX, LOWER, UPPER, UUID};

const NEWRELIC: &[Part] = &[Run(UPPER, 27, 27)];
const DATADOG: &[Part] = &[Assign, Start, Run(HEX, 32, 40)];
const HUBSPOT: &[Part] = &[Run(UUID, 36, 36)];

pub(super) const KINDS: &[Kind] = &[
    kind("newrelic-key", "NRAK-", NEWRELIC).edge(),
    kind("newrelic-key", "NRII-", &[Run(DASHED, 32, 32)]).edge(),
    kind("datadog-key", "dd_api_key", DATADOG)
        .folded()
        .check(mixed),
    kind("datadog-key", "dd_app_key", DATADOG)
        .folded()
        .check(mixed),
    kind("datadog-key", "datadog_api_key", DATADOG)
        .folded()
        .check(mixed),
    kind("sentry-token", "sntrys_eyJ", &[Run(BASE64_ANY, 60, 600)]),
    kind("sentry-token", "sntryu_", &[Run(HEX, 64, 64)]),
    kind(
        "grafana-token",
        "glc_",
        &[Run(BASE64, 32, 400), Any(&["==", "=", ""])],
    )
    .edge()
    .check(both_cases),
    kind(
        "grafana-token",
        "glsa_",
        &[Run(ALNUM, 32, 32), Lit("_"), Run(ANYHEX, 8, 8)],
    ),
    kind(
        "grafana-token",
        "eyJrIjoi",
        &[Run(BASE64, 60, 400), Any(&["==", "=", ""])],
    )
    .edge(),
    kind(
        "dynatrace-token",
        "dt0c01.",
        &[Run(UPPER, 24, 24), Lit("."), Run(UPPER, 64, 64)],
    ),
    kind("honeycomb-key", "hcaik_", &[Run(LOWER, 58, 58)]),
    kind("posthog-key", "phx_", &[Run(ALNUM, 43, 48)])
        .edge()
        .check(both_cases),
    kind(
        "elastic-key",
        "essu_",
        &[Run(BASE64, 40, 256), Any(&["==", "=", ""])],
    )
    .edge()
    .check(both_cases),
    kind("prefect-key", "pnu_", &[Run(LOWER, 36, 36)])
        .edge()
        .check(mixed),
    kind(
        "airtable-token",
        "pat",
        &[Run(ALNUM, 14, 14), Lit("."), Run(HEX, 64, 64)],
    )
    .edge(),
    kind("linear-key", "lin_api_", &[Run(ALNUM, 40, 40)]),
    kind("linear-key", "lin_oauth_", &[Run(ALNUM, 40, 64)]),
    kind("notion-key", "ntn_", &[Run(ALNUM, 46, 46)])
        .edge()
        .check(both_cases),
    kind("notion-key", "secret_", &[Run(ALNUM, 43, 43)])
        .edge()
        .check(both_cases),
    kind("figma-token", "figd_", &[Run(DASHED, 40, 60)]).edge(),
    kind(
        "dropbox-token",
        "sl.",
        &[Any(&["u.", ""]), Run(DASHED, 130, 2_000)],
    )
    .edge(),
    kind("hubspot-token", "pat-na1-", HUBSPOT),
    kind("hubspot-token", "pat-eu1-", HUBSPOT),
    kind(
        "salesforce-token",
        "00D",
        &[Run(ALNUM, 12, 15), Lit("!"), Run(DOTTED, 80, 140)],
    )
    .edge(),
    kind("contentful-token", "CFPAT-", &[Run(DASHED, 43, 43)]).edge(),
    kind("readme-key", "rdme_", &[Run(LOWER, 70, 70)]).edge(),
    kind(
        "postman-key",
        "PMAK-",
        &[Run(HEX, 24, 24), Lit("-"), Run(HEX, 34, 34)],
    )
    .edge(),
    kind(
        "mapbox-secret",
        "sk.eyJ",
        &[Run(DASHED, 40, 400), Lit("."), Run(DASHED, 20, 40)],
    )
    .edge(),
    kind("meta-token", "EAAC", &[Run(ALNUM, 100, 400)])
        .edge()
        .check(both_cases),
    kind("typeform-token", "tfp_", &[Run(DOTTED, 40, 64)])
        .edge()
        .check(mixed),
    kind("adobe-secret", "p8e-", &[Run(DASHED, 32, 32)])
        .edge()
        .check(mixed),
    kind("adafruit-key", "aio_", &[Run(ALNUM, 28, 28)])
        .edge()
        .check(mixed),
    kind("frameio-token", "fio-u-", &[Run(DASHED, 64, 64)]).edge(),
    kind("age-key", "AGE-SECRET-KEY-1", &[Run(UPPER, 58, 58)]),
    kind(
        "wireguard-key",
        "PrivateKey",
        &[Assign, Start, Run(BASE64, 43, 43), Lit("=")],
    )
    .check(both_cases),
    kind(
        "basic-auth",
        "authorization: basic ",
        &[Start, Run(BASE64, 8, 512), Any(&["==", "=", ""])],
    )
    .folded()
    .called("authorization")
    .check(super::custom::decodes_to_login),
    kind(
        "bearer-token",
        "authorization: bearer ",
        &[Start, Run(BASE64_ANY_DOT, 20, 2_000)],
    )
    .folded()
    .called("authorization")
    .check(mixed),
    kind("clickhouse-key", "4b1d", &[Run(ALNUM, 38, 38)])
        .edge()
        .check(both_cases),
    kind(
        "asana-token",
        "asana_access_token",
        &[Assign, Start, Run(WORD_SLASH, 24, 80)],
    )
    .folded()
    .check(mixed),
];

const BASE64_ANY_DOT: crate::class::Class = {
    static TABLE: [bool; 256] = crate::class::table("A-Za-z0-9+/=_.~-");
    crate::class::Class::new(&TABLE)
};
const WORD_SLASH: crate::class::Class = {
    static TABLE: [bool; 256] = crate::class::table("A-Za-z0-9/:_");
    crate::class::Class::new(&TABLE)
};
