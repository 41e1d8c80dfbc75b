//! Providers of models.

use super::Part::{Any, Lit, Run};
use super::checks::{both_cases, mixed};
use super::{Kind, Part, custom, kind};
use crate::class::{ALNUM, DASHED, HEX, LOWER, WORD};

const OPENAI: &[Part] = &[Run(DASHED, 32, 255)];

pub(super) const KINDS: &[Kind] = &[
    kind("anthropic-key", "sk-ant-", &[Run(DASHED, 20, 255)]),
    kind("openrouter-key", "sk-or-v1-", &[Run(HEX, 64, 64)]),
    kind("openai-key", "sk-proj-", OPENAI).check(mixed),
    kind("openai-key", "sk-svcacct-", OPENAI).check(mixed),
    kind("openai-key", "sk-admin-", OPENAI).check(mixed),
    kind("openai-key", "sk-", &[Run(ALNUM, 32, 64)])
        .edge()
        .check(mixed),
    kind("huggingface-token", "hf_", &[Run(ALNUM, 30, 64)])
        .edge()
        .check(both_cases),
    kind("huggingface-token", "api_org_", &[Run(ALNUM, 34, 34)])
        .edge()
        .check(both_cases),
    kind("replicate-token", "r8_", &[Run(ALNUM, 37, 37)])
        .edge()
        .check(both_cases),
    kind("groq-key", "gsk_", &[Run(ALNUM, 52, 52)])
        .edge()
        .check(both_cases),
    kind("perplexity-key", "pplx-", &[Run(ALNUM, 48, 48)])
        .edge()
        .check(mixed),
    kind("xai-key", "xai-", &[Run(ALNUM, 80, 80)])
        .edge()
        .check(both_cases),
    kind("together-key", "tgp_v1_", &[Run(DASHED, 43, 43)]),
    kind("fireworks-key", "fw_", &[Run(ALNUM, 22, 24)])
        .edge()
        .check(both_cases),
    kind("nvidia-key", "nvapi-", &[Run(DASHED, 64, 64)]),
    kind(
        "langsmith-key",
        "lsv2_",
        &[
            Any(&["pt_", "sk_"]),
            Run(HEX, 32, 32),
            Lit("_"),
            Run(HEX, 10, 10),
        ],
    ),
    kind("elevenlabs-key", "sk_", &[Run(HEX, 48, 48)]).edge(),
    kind("pinecone-key", "pcsk_", &[Run(WORD, 50, 80)]).edge(),
    kind("cerebras-key", "csk-", &[Run(LOWER, 48, 48)])
        .edge()
        .check(mixed),
    kind(
        "tavily-key",
        "tvly-",
        &[Any(&["dev-", "prod-", ""]), Run(ALNUM, 32, 32)],
    )
    .edge(),
    kind("jina-key", "jina_", &[Run(DASHED, 60, 60)])
        .edge()
        .check(both_cases),
    custom("jwt", "eyJ", super::custom::jwt).edge(),
];
