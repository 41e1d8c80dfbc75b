//! What the built-in rules hold against a policy that allows everything, and against every
//! spelling an agent might try.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use Verdict::{Allow, Deny, RequireReview};
use airlock_core::{Effect, EffectSet, Mode, Request};
use airlock_policy::{
    BuiltIns, DEFAULT_POLICY, Engine, ExtensionHost, Opinion, Policy, Protected, Verdict,
    built_in_rules,
};
use serde_json::json;
use support::{NOW, ROOT, allow, on, policy, request};

const STATE: &str = "/home/ann/.local/state/airlock";

/// An engine whose policy allows every request.
fn open() -> Engine {
    let protected = Protected::new(ROOT, [STATE, "/usr/local/bin/airlock"]).unwrap();
    Engine::new(
        policy(&[allow("everything", on("*"))]),
        BuiltIns::standard(protected),
        ExtensionHost::default(),
    )
}

fn verdict(request: &Request) -> Verdict {
    open().decide(request, None, NOW).verdict
}

#[test]
fn there_are_at_most_ten_and_only_the_owner_s_allows() {
    let rules = built_in_rules();
    assert!(rules.len() <= 10);
    for rule in rules {
        assert!(rule.name.starts_with("built-in/"), "{}", rule.name);
        let owner = rule.name == "built-in/owner-at-the-command-line";
        assert_eq!(rule.opinion == Opinion::Allow, owner, "{}", rule.name);
        assert_ne!(rule.opinion, Opinion::Pass, "{}", rule.name);
    }
}

#[test]
fn protected_paths_in_every_spelling_are_held() {
    for (path, want) in [
        (".airlock/policy.yaml", Deny),
        (".AIRLOCK/policy.yaml", Deny),
        (".airlock/POLICY.YAML", Deny),
        (".airlock/./policy.yaml", Deny),
        ("src/../.airlock//policy.yaml", Deny),
        ("/work/.airlock/policy.yaml", Deny),
        ("/other/project/.airlock/policy.yaml", Deny),
        (".airlock/policy.yaml.", Deny),
        (".airlock /policy.yaml", Deny),
        (".airlock/policy.yaml::$DATA", Deny),
        (".air\u{200d}lock/policy.yaml", Deny),
        (".airloc\u{212a}/policy.yaml", Deny),
        ("AIRLOC~1/POLICY~1.YAM", Deny),
        (".airlock", Deny),
        (".airlock/config.yaml", RequireReview),
        (".Airlock/plugins/x/manifest.yaml", RequireReview),
        (".git/hooks/pre-commit", RequireReview),
        (".Git/HOOKS/pre-commit", RequireReview),
        (".git/config", RequireReview),
        (".git/modules/lib/config", RequireReview),
        (".git/worktrees/w/config.worktree", RequireReview),
        (".git/commondir", RequireReview),
        (".git", RequireReview),
        ("GIT~1/hooks/x", RequireReview),
        ("/home/ann/.gitconfig", RequireReview),
        (".config/git/config", RequireReview),
        ("/home/ann/.Config/git/hooks/pre-commit", RequireReview),
        (".config/git", RequireReview),
        ("bare.git/hooks/pre-commit", RequireReview),
        ("vendor/Bare.GIT/config", RequireReview),
        ("bare.git./config", RequireReview),
        (".bashrc", RequireReview),
        ("/home/ann/.ZSHRC", RequireReview),
        ("/home/ann/.config/fish/config.fish", RequireReview),
        (".envrc", RequireReview),
        (".mcp.json", RequireReview),
        (".claude/settings.json", RequireReview),
        (".cursor/rules/x.mdc", RequireReview),
        ("AGENTS.md", RequireReview),
        ("packages/a/CLAUDE.md", RequireReview),
        (".vscode/tasks.json", RequireReview),
        (".github/copilot-instructions.md", RequireReview),
        ("/home/ann/.local/state/airlock/w1/audit.db", Deny),
        ("/home/ann/.LOCAL/state/airlock", Deny),
        ("/home/ann/.local", Deny),
        ("/usr/local/bin/airlock", Deny),
        ("/usr/local/bin/../bin/airlock", Deny),
        ("../home/ann/.local/state/airlock/keys/a", Deny),
        // What merely looks alike.
        ("airlock/policy.yaml", Allow),
        ("policy.yaml", Allow),
        (".airlock2/policy.yaml", Allow),
        (".gitignore", Allow),
        (".git/index", Allow),
        ("hooks/config", Allow),
        ("bare.git/description", Allow),
        ("git/config", Allow),
        ("x.gitx/config", Allow),
        (".config/gitui/x", Allow),
        (".github/workflows/ci.yml", Allow),
        ("src/bashrc", Allow),
        ("docs/agents.md.txt", Allow),
        ("/usr/local/bin/airlock-helper", Allow),
    ] {
        for syscall in [
            "fs.write",
            "fs.patch",
            "fs.delete",
            "fs.move",
            "merge.apply",
            "merge.undo",
        ] {
            // A person looks at every merge.
            let merges = syscall.starts_with("merge.");
            let want = if merges && want == Allow {
                RequireReview
            } else {
                want
            };
            assert_eq!(
                verdict(&request(syscall, &[path])),
                want,
                "{syscall} {path:?}"
            );
        }
        assert_eq!(
            verdict(&request("fs.read", &[path])),
            Allow,
            "reading {path:?}"
        );
    }
}

#[test]
fn one_protected_path_among_many_holds_the_whole_request() {
    let mut paths = vec!["src/a"; 500];
    paths.push(".airlock/policy.yaml");
    assert_eq!(verdict(&request("merge.apply", &paths)), Deny);
    assert_eq!(
        verdict(&request("fs.move", &["x", ".git/hooks/post-checkout"])),
        RequireReview
    );
    assert_eq!(
        verdict(&request("fs.move", &[".airlock/policy.yaml", "x"])),
        Deny
    );
}

#[test]
fn a_tool_that_declares_writing_is_held_like_a_write() {
    let mut call = request("tool.call", &[".airlock/policy.yaml"]);
    call.tool = Some("p.t".into());
    assert_eq!(verdict(&call), Allow, "it only executes");
    for effect in [Effect::Write, Effect::Delete] {
        call.effects = EffectSet::of(&[Effect::Execute, effect]);
        assert_eq!(verdict(&call), Deny);
    }
}

#[test]
fn state_below_the_workspace_is_protected_too() {
    let protected = Protected::new("/home/ann", [STATE]).unwrap();
    let engine = Engine::new(
        policy(&[allow("everything", on("*"))]),
        BuiltIns::standard(protected),
        ExtensionHost::default(),
    );
    for (path, want) in [
        (".local/state/airlock/audit.db", Deny),
        (".local/state/Airlock/audit.db", Deny),
        (".local/state", Deny),
        (".local/share/x", Allow),
    ] {
        let mut write = request("fs.write", &[]);
        write.paths = vec![airlock_core::RequestPath::parse(path, "/home/ann").unwrap()];
        assert_eq!(engine.decide(&write, None, NOW).verdict, want, "{path}");
    }
    assert!(
        Protected::new("/", ["/a\0b"]).is_err(),
        "what cannot be protected is an error"
    );
}

#[test]
fn steering_airlock_needs_review_and_containers_need_debug_mode() {
    assert_eq!(verdict(&request("policy.update", &[])), RequireReview);
    for (syscall, arguments, want) in [
        (
            "session.set_mode",
            json!({ "mode": "debug" }),
            RequireReview,
        ),
        (
            "session.set_mode",
            json!({ "mode": "Debug" }),
            RequireReview,
        ),
        (
            "session.set_mode",
            json!({ "mode": ["debug"] }),
            RequireReview,
        ),
        ("session.set_mode", json!({}), RequireReview),
        ("session.set_mode", json!(null), RequireReview),
        ("session.set_mode", json!({ "mode": "strict" }), Allow),
        ("session.set_mode", json!({ "mode": "explore" }), Allow),
        ("session.create", json!({ "mode": "debug" }), RequireReview),
        ("session.create", json!({}), Allow),
    ] {
        let mut change = request(syscall, &[]);
        change.arguments = arguments.clone();
        assert_eq!(verdict(&change), want, "{syscall} {arguments}");
    }
    for (mode, want) in [
        (None, Deny),
        (Some(Mode::Strict), Deny),
        (Some(Mode::Explore), Deny),
        (Some(Mode::Debug), Allow),
    ] {
        let mut run = request("container.run", &[]);
        run.caller.mode = mode;
        assert_eq!(verdict(&run), want, "{mode:?}");
    }
}

#[test]
fn the_default_policy_loads_without_a_warning_and_keeps_secrets_unread() {
    let loaded = Policy::load("default", DEFAULT_POLICY.as_bytes()).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let built_ins = BuiltIns::standard(Protected::default());
    let engine = Engine::new(loaded.policy, built_ins, ExtensionHost::default());
    for (request, want) in [
        (request("fs.read", &["src/main.rs"]), Allow),
        (request("fs.read", &["a/.env"]), Deny),
        (request("fs.read", &["/etc/passwd"]), Deny),
        (request("net.connect", &[]), Deny),
    ] {
        assert_eq!(
            engine.decide(&request, None, NOW).verdict,
            want,
            "{request:?}"
        );
    }
}

#[test]
fn hostile_paths_are_decided_quickly_and_never_allowed_by_a_glob() {
    let engine = support::bare(&[allow("src", support::on_paths("fs.write", &["src/**"]))]);
    let deep = "a/".repeat(2_000) + "b";
    let wide = "a".repeat(4_000);
    let odd = ".git~".repeat(300);
    for path in [
        &*deep,
        &wide,
        &odd,
        "/",
        ".",
        "src/../../x",
        "\u{202e}src/a",
        "SRC/a",
        "src\\a",
        "src",
    ] {
        let decision = engine.decide(&request("fs.write", &[path]), None, NOW);
        assert_eq!(decision.verdict, Deny, "{path:?}");
        open().decide(&request("fs.write", &[path]), None, NOW);
    }
}
