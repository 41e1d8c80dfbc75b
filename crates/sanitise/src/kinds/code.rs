//! Hosts of code, registries of packages, builds.

use super::Part::{Any, Assign, Lit, Run, Start};
use super::checks::{both_cases, checksummed, mixed};
use super::{Kind, Part, kind};
use crate::class::{ALNUM, BASE64, BASE64_ANY, DASHED, HEX, LOWER, UPPER, WORD};

const GITHUB: &[Part] = &[Run(ALNUM, 36, 255)];
const GITLAB: &[Part] = &[Run(DASHED, 20, 64), Any(&[".01.", ""]), Run(LOWER, 0, 16)];
const SONAR: &[Part] = &[Run(HEX, 40, 40)];
const NPMRC: &[Part] = &[Assign, Start, Run(BASE64_ANY, 16, 512)];

pub(super) const KINDS: &[Kind] = &[
    kind("github-token", "ghp_", GITHUB).check(checksummed),
    kind("github-token", "gho_", GITHUB).check(checksummed),
    kind("github-token", "ghu_", GITHUB).check(checksummed),
    kind("github-token", "ghs_", GITHUB).check(checksummed),
    kind("github-token", "ghr_", GITHUB).check(checksummed),
    kind("github-token", "github_pat_", &[Run(WORD, 22, 255)]),
    kind("gitlab-token", "glpat-", GITLAB),
    kind("gitlab-deploy-token", "gldt-", GITLAB),
    kind("gitlab-feed-token", "glft-", GITLAB),
    kind("gitlab-runner-token", "glrt-", GITLAB),
    kind("gitlab-runner-token", "GR1348941", &[Run(DASHED, 20, 20)]),
    kind("gitlab-job-token", "glcbt-", GITLAB),
    kind("gitlab-trigger-token", "glptt-", GITLAB),
    kind("gitlab-agent-token", "glagent-", GITLAB),
    kind("gitlab-oauth-secret", "gloas-", GITLAB),
    kind("gitlab-scim-token", "glsoat-", GITLAB),
    kind("gitlab-mail-token", "glimt-", GITLAB),
    kind("bitbucket-token", "ATBB", &[Run(ALNUM, 32, 32)])
        .edge()
        .check(mixed),
    kind("atlassian-token", "ATATT3", &[Run(BASE64_ANY, 100, 250)]).edge(),
    kind("atlassian-token", "ATCTT3", &[Run(BASE64_ANY, 100, 250)]).edge(),
    kind("npm-token", "npm_", &[Run(ALNUM, 36, 36)]).check(checksummed),
    kind("npmrc-credential", "_authToken", NPMRC).check(mixed),
    kind("npmrc-credential", "_password", NPMRC).check(mixed),
    kind("npmrc-credential", ":_auth", NPMRC).check(mixed),
    kind("pypi-token", "pypi-", &[Run(DASHED, 50, 512)]),
    kind("rubygems-key", "rubygems_", &[Run(HEX, 48, 48)]),
    kind("crates-token", "cio", &[Run(ALNUM, 32, 32)])
        .edge()
        .check(both_cases),
    kind("nuget-key", "oy2", &[Run(LOWER, 43, 43)])
        .edge()
        .check(mixed),
    kind("clojars-token", "CLOJARS_", &[Run(LOWER, 60, 60)]),
    kind("docker-token", "dckr_pat_", &[Run(DASHED, 27, 27)]),
    kind("docker-token", "dckr_oat_", &[Run(DASHED, 32, 32)]),
    kind("binary-registry-key", "AKCp", &[Run(ALNUM, 69, 69)]).edge(),
    kind("binary-registry-key", "cmVmdGtu", &[Run(ALNUM, 56, 56)]).edge(),
    kind(
        "packagist-token",
        "packagist_",
        &[
            Any(&["out_", "ort_", "uut_", "urt_", "rut_"]),
            Run(HEX, 68, 68),
        ],
    ),
    kind("buildkite-token", "bkua_", &[Run(HEX, 40, 40)]),
    kind(
        "circleci-token",
        "CCIPAT_",
        &[Run(ALNUM, 22, 22), Lit("_"), Run(HEX, 40, 40)],
    ),
    kind("sonar-token", "sqp_", SONAR),
    kind("sonar-token", "sqa_", SONAR),
    kind("sonar-token", "squ_", SONAR),
    kind("octopus-key", "API-", &[Run(UPPER, 26, 30)])
        .edge()
        .check(mixed),
    kind(
        "sourcegraph-token",
        "sgp_",
        &[
            Any(&["local_", ""]),
            Run(HEX, 16, 40),
            Any(&["_", ""]),
            Run(HEX, 0, 40),
        ],
    )
    .edge(),
    kind(
        "docker-login",
        "\"auth\"",
        &[Assign, Start, Run(BASE64, 16, 512), Any(&["==", "=", ""])],
    )
    .check(super::custom::decodes_to_login),
];
