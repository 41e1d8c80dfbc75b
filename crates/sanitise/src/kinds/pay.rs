//! Payments, mail and messages.

use super::Part::{Any, Assign, Lit, Run, Start};
use super::checks::{both_cases, mixed};
use super::{Kind, Part, custom, kind};
use crate::class::{ALNUM, BASE64_ANY, DASHED, DIGIT, HEX, LOWER, UPPER, UUID};

const STRIPE: &[Part] = &[Run(ALNUM, 16, 247)];
const SHOPIFY: &[Part] = &[Run(HEX, 32, 32)];
const MAILCHIMP: &[Part] = &[Run(DIGIT, 0, 1)];
const TWILIO: &[Part] = &[Run(HEX, 31, 31)];
const SLACK: &[Part] = &[Run(DASHED, 10, 255)];

/// A Mailchimp key ends with its data centre.
const fn mailchimp(literal: &'static str) -> Kind {
    kind("mailchimp-key", literal, MAILCHIMP).before(HEX, 32)
}

const fn twilio(literal: &'static str) -> Kind {
    kind("twilio-key", literal, TWILIO).edge().check(mixed)
}

pub(super) const KINDS: &[Kind] = &[
    kind("stripe-key", "sk_live_", STRIPE),
    kind("stripe-key", "rk_live_", STRIPE),
    kind(
        "stripe-webhook-secret",
        "whsec_",
        &[Run(BASE64_ANY, 32, 128)],
    )
    .edge()
    .check(mixed),
    kind("square-token", "EAAA", &[Run(DASHED, 60, 60)])
        .edge()
        .check(both_cases),
    kind("square-secret", "sq0csp-", &[Run(DASHED, 43, 43)]),
    kind("square-token", "sq0atp-", &[Run(DASHED, 22, 22)]),
    kind(
        "braintree-token",
        "access_token$production$",
        &[Run(LOWER, 16, 16), Lit("$"), Run(HEX, 32, 32)],
    ),
    kind("shopify-token", "shpat_", SHOPIFY),
    kind("shopify-token", "shpca_", SHOPIFY),
    kind("shopify-token", "shppa_", SHOPIFY),
    kind("shopify-secret", "shpss_", SHOPIFY),
    kind("plaid-token", "access-production-", &[Run(UUID, 36, 36)]),
    kind(
        "flutterwave-key",
        "FLWSECK-",
        &[Run(LOWER, 32, 36), Lit("-X")],
    ),
    kind("easypost-key", "EZAK", &[Run(ALNUM, 54, 54)])
        .edge()
        .check(both_cases),
    kind("shippo-token", "shippo_live_", &[Run(HEX, 40, 40)]),
    kind("duffel-token", "duffel_live_", &[Run(DASHED, 43, 43)]),
    kind(
        "sendgrid-key",
        "SG.",
        &[Run(DASHED, 16, 64), Lit("."), Run(DASHED, 16, 128)],
    )
    .edge()
    .check(both_cases),
    kind(
        "brevo-key",
        "xkeysib-",
        &[Run(HEX, 64, 64), Lit("-"), Run(ALNUM, 16, 16)],
    ),
    kind(
        "brevo-key",
        "xsmtpsib-",
        &[Run(HEX, 64, 64), Lit("-"), Run(ALNUM, 16, 16)],
    ),
    kind(
        "mailgun-key",
        "mailgun_api_key",
        &[Assign, Start, Run(DASHED, 32, 80)],
    )
    .folded()
    .check(mixed),
    mailchimp("-us1"),
    mailchimp("-us2"),
    mailchimp("-us3"),
    mailchimp("-us4"),
    mailchimp("-us5"),
    mailchimp("-us6"),
    mailchimp("-us7"),
    mailchimp("-us8"),
    mailchimp("-us9"),
    kind(
        "resend-key",
        "re_",
        &[Run(ALNUM, 8, 8), Lit("_"), Run(ALNUM, 24, 24)],
    )
    .edge()
    .check(both_cases),
    twilio("SK0"),
    twilio("SK1"),
    twilio("SK2"),
    twilio("SK3"),
    twilio("SK4"),
    twilio("SK5"),
    twilio("SK6"),
    twilio("SK7"),
    twilio("SK8"),
    twilio("SK9"),
    twilio("SKa"),
    twilio("SKb"),
    twilio("SKc"),
    twilio("SKd"),
    twilio("SKe"),
    twilio("SKf"),
    kind("slack-token", "xoxa-", SLACK),
    kind("slack-token", "xoxb-", SLACK),
    kind("slack-token", "xoxc-", SLACK),
    kind("slack-token", "xoxd-", SLACK),
    kind("slack-token", "xoxe-", SLACK),
    kind(
        "slack-token",
        "xoxe.xox",
        &[Any(&["b-", "p-"]), Run(DASHED, 10, 255)],
    ),
    kind("slack-token", "xoxo-", SLACK),
    kind("slack-token", "xoxp-", SLACK),
    kind("slack-token", "xoxr-", SLACK),
    kind("slack-token", "xoxs-", SLACK),
    kind(
        "slack-app-token",
        "xapp-",
        &[
            Run(DIGIT, 1, 2),
            Lit("-"),
            Run(UPPER, 8, 16),
            Lit("-"),
            Run(DIGIT, 8, 16),
            Lit("-"),
            Run(HEX, 32, 128),
        ],
    ),
    kind(
        "slack-webhook",
        "hooks.slack.com/",
        &[
            Any(&["services/", "workflows/", "triggers/"]),
            Start,
            Run(ALNUM, 8, 16),
            Lit("/"),
            Run(ALNUM, 8, 24),
            Lit("/"),
            Run(ALNUM, 18, 64),
        ],
    ),
    kind(
        "discord-webhook",
        "/api/webhooks/",
        &[Start, Run(DIGIT, 17, 20), Lit("/"), Run(DASHED, 60, 80)],
    ),
    kind(
        "teams-webhook",
        ".webhook.office.com/webhookb2/",
        &[
            Start,
            Run(UUID, 36, 36),
            Lit("@"),
            Run(UUID, 36, 36),
            Lit("/IncomingWebhook/"),
            Run(HEX, 32, 32),
            Lit("/"),
            Run(UUID, 36, 36),
        ],
    ),
    custom("telegram-token", ":AA", super::custom::telegram).reaching(10),
    kind("twitch-token", "oauth:", &[Run(LOWER, 30, 30)])
        .edge()
        .check(mixed),
];
