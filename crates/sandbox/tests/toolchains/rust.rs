//! Cargo: dependencies of the registry, a build script, a procedural macro, tests of all kinds.

use crate::project::{Project, Step};

const RESULTS: &str = r"(?m)^test .+ \.\.\. \w+";

#[test]
fn cargo_builds_and_tests_a_crate_with_dependencies_of_the_registry() {
    let project = Project::new(
        &["cargo"],
        &[
            (
                "Cargo.toml",
                "[package]\nname = \"counted\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\n\
                 [dependencies]\nitoa = \"1\"\nmemchr = \"2\"\nmarked = { path = \"marked\" }\n\n\
                 [workspace]\nmembers = [\"marked\"]\n",
            ),
            (
                "marked/Cargo.toml",
                "[package]\nname = \"marked\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\n\
                 [lib]\nproc-macro = true\n",
            ),
            (
                "marked/src/lib.rs",
                "#[proc_macro]\npub fn seven(_: proc_macro::TokenStream) -> \
                 proc_macro::TokenStream {\n    \"7\".parse().unwrap()\n}\n",
            ),
            (
                "build.rs",
                "fn main() {\n    let out = std::env::var(\"OUT_DIR\").unwrap();\n    \
                 std::fs::write(format!(\"{out}/made.rs\"), \"pub const MADE: u32 = 11;\")\
                 .unwrap();\n}\n",
            ),
            (
                "src/lib.rs",
                "//! ```\n//! assert_eq!(counted::count(b\"banana\"), \"3\");\n//! ```\n\n\
                 include!(concat!(env!(\"OUT_DIR\"), \"/made.rs\"));\n\n\
                 pub fn count(text: &[u8]) -> String {\n    \
                 let count = memchr::memchr_iter(b'a', text).count();\n    \
                 itoa::Buffer::new().format(count).to_owned()\n}\n\n\
                 #[test]\nfn passes_with_a_macro_and_a_build_script() {\n    \
                 assert_eq!(marked::seven!() + MADE, 18);\n}\n\n\
                 #[test]\n#[ignore]\nfn fails() {\n    assert_eq!(count(b\"a\"), \"2\");\n}\n",
            ),
            (
                "tests/outer.rs",
                "#[test]\nfn passes_from_outside() {\n    \
                 let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| \
                 counted::count(b\"aa\"))).collect();\n    \
                 for thread in threads {\n        assert_eq!(thread.join().unwrap(), \"2\");\n    \
                 }\n}\n",
            ),
        ],
    );
    project.prepare(&["cargo", "generate-lockfile", "--offline"]);
    project.works_inside_as_outside(&[
        Step {
            line: &["cargo", "test", "--locked"],
            code: 0,
            results: (RESULTS, 4),
        },
        Step {
            line: &["cargo", "test", "--locked", "--lib", "--", "--ignored"],
            code: 101,
            results: (RESULTS, 1),
        },
    ]);
    assert!(project.staged("target/CACHEDIR.TAG").is_some());
    assert!(!project.tree().join("target").exists());
}
