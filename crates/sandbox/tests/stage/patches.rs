//! The rendered patch does to a copy of the real tree what the stage did.

use super::support::{Bench, Seen, fed, on_every_overlay, tree};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files and links, as far as a patch can say what they are.
fn files(root: &Path) -> BTreeMap<PathBuf, Seen> {
    tree(root)
        .into_iter()
        .filter_map(|(path, seen)| match seen {
            Seen::File(mode, bytes) => Some((path, Seen::File(mode & 0o100, bytes))),
            Seen::Link(target) => Some((path, Seen::Link(target))),
            Seen::Directory(_) | Seen::Other => None,
        })
        .collect()
}

fn applied(bench: &Bench, program: &str, arguments: &[&str]) -> PathBuf {
    let target = bench.temp.path().join(program);
    fed(
        Command::new("cp")
            .arg("-a")
            .args([&bench.workspace(), &target]),
        "",
    );
    let patch = bench.diff().render_unified();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(&target)
        // Whatever a hook of git's says in the environment is about another repository.
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        // A repository around the temporary directory would change what paths mean.
        .env("GIT_CEILING_DIRECTORIES", bench.temp.path())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    fed(&mut command, &patch);
    target
}

const PREPARE: &str = "mkdir -p src/deep old; seq 1 100 >src/numbers; printf 'no newline' >src/open; \
    printf 'a\\r\\nb\\rc\\n' >src/cr; echo gone >old/gone; echo moved >old/moved; ln -s src link; \
    ln -s x swapped; echo swap >swap; echo run >run; : >empty; : >emptied; echo filled >fill; \
    echo tab >\"$(printf 'a\\tb')\"; echo space >'a b'";

const SCRIPT: &str = "sed -i -e 's/^5$/five/' -e '50d' -e '$a last' src/numbers; printf 'none yet' >src/open; \
    printf 'a\\r\\nB\\rc\\n' >src/cr; rm old/gone; mv old/moved src/deep/new; ln -sfn old link; rm swap; \
    ln -s elsewhere swap; rm swapped; echo file >swapped; chmod 755 run; rm empty; : >fresh; : >emptied; \
    echo more >>\"$(printf 'a\\tb')\"; echo more >>'a b'; echo new >'new name'; echo x >-dash; \
    echo q >\"$(printf 'q\"\\\\\\n\\303\\244\\377')\"; echo '-- looks like a header' >src/header; \
    printf '%s\\n' '--- a/x' '+++ b/x' '@@ -1 +1 @@' >src/patch; mkdir nothing; printf one >one";

#[test]
fn git_applies_the_patch() {
    on_every_overlay(PREPARE, |bench| {
        let kept = bench.inside_kept(SCRIPT);
        let result = applied(&bench, "git", &["apply", "-"]);
        assert_eq!(files(&result), files(&kept));
    });
}

#[test]
fn patch_applies_what_it_knows() {
    let prepare = "mkdir d; seq 1 50 >d/a; echo gone >gone; printf open >open";
    on_every_overlay(prepare, |bench| {
        let kept = bench.inside_kept(
            "sed -i -e 3d -e 's/^40$/forty/' d/a; rm gone; echo new >d/new; printf opened >open",
        );
        let result = applied(&bench, "patch", &["-p1", "--quiet"]);
        assert_eq!(files(&result), files(&kept));
        // It says the same the other way round.
        let mut back = Command::new("patch");
        back.args(["-p1", "--quiet", "-R"]).current_dir(&result);
        fed(&mut back, &bench.diff().render_unified());
        assert_eq!(files(&result), files(&bench.workspace()));
    });
}

#[test]
fn a_patch_reads_as_git_writes_it() {
    let prepare = "umask 022; echo a >a; echo r >r; echo t >t; echo x >x";
    on_every_overlay(prepare, |bench| {
        bench.inside("echo b >a; mv r s; rm t; chmod 755 x; printf 'n\\0' >n; ln -s t l");
        let want = "\
diff --git a/a b/a
--- a/a
+++ b/a
@@ -1 +1 @@
-a
+b
diff --git a/l b/l
new file mode 120000
--- /dev/null
+++ b/l
@@ -0,0 +1 @@
+t
\\ No newline at end of file
diff --git a/n b/n
new file mode 100644
Binary files /dev/null and b/n differ
diff --git a/r b/s
similarity index 100%
rename from r
rename to s
diff --git a/t b/t
deleted file mode 100644
--- a/t
+++ /dev/null
@@ -1 +0,0 @@
-t
diff --git a/x b/x
old mode 100644
new mode 100755
";
        assert_eq!(bench.diff().render_unified(), want);
    });
}

/// Whatever applies the patch skips what its format has no words for.
#[test]
fn directories_and_modes_are_said_beside_the_patch() {
    let prepare = "umask 022; mkdir -p d/s gone; echo a >a; echo b >b";
    on_every_overlay(prepare, |bench| {
        let kept = bench.inside_kept(
            "umask 022; chmod 777 d/s; chmod 666 a; echo c >b; chmod 600 b; rmdir gone; \
             mkdir -p full/inner new; echo x >full/inner/x",
        );
        let want = "\
mode of a: 644 -> 666
mode of b: 644 -> 600
diff --git a/b b/b
--- a/b
+++ b/b
@@ -1 +1 @@
-b
+c
mode of directory d/s: 755 -> 777
diff --git a/full/inner/x b/full/inner/x
new file mode 100644
--- /dev/null
+++ b/full/inner/x
@@ -0,0 +1 @@
+x
deleted directory gone
new directory new: mode 755
";
        assert_eq!(bench.diff().render_unified(), want);
        let result = applied(&bench, "git", &["apply", "-"]);
        assert_eq!(files(&result), files(&kept));
    });
}
