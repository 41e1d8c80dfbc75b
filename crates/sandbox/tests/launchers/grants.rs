//! What a grant is of, when links are in the way.

use crate::support::{Place, sh, start};
use airlock_sandbox::PlanBuilder;
use std::os::unix::fs::symlink;

type Change<'a> = &'a dyn Fn(PlanBuilder) -> PlanBuilder;

#[test]
fn a_link_is_no_grant_of_what_it_leads_to() {
    let place = Place::new();
    for name in ["data", "other", "secret"] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    place.write("tree/a", "real\n");
    place.write("data/a", "data\n");
    let paths = ["data", "other", "secret", "link", "tree"].map(|name| place.path(name));
    let [data, other, secret, link, tree] = &paths;
    let reads: Change<'_> = &|plan| plan.read(link);
    let reads_both: Change<'_> = &|plan| plan.read(link).read(data);
    let writes: Change<'_> = &|plan| plan.write(link);
    let writes_over_read: Change<'_> = &|plan| plan.write(link).read(data);
    let writes_both: Change<'_> = &|plan| plan.write(link).write(data);
    let denied: Change<'_> = &|plan| plan.read(link).read(data).deny(data.join("inner"));
    for (case, target, change, starts) in [
        ("read elsewhere", secret.clone(), reads, false),
        ("read what is granted", data.clone(), reads_both, true),
        (
            "read what another grant holds",
            data.join("deep"),
            reads_both,
            true,
        ),
        ("read what is denied", data.join("inner"), denied, false),
        (
            "read beside what is granted",
            secret.clone(),
            reads_both,
            false,
        ),
        ("read what everybody sees", "/usr/lib".into(), reads, true),
        ("read the workspace", tree.clone(), reads, false),
        ("write elsewhere", other.clone(), writes, false),
        ("write the real tree", tree.clone(), writes, false),
        ("write in the real tree", tree.join("sub"), writes, false),
        (
            "write what is only read",
            data.clone(),
            writes_over_read,
            false,
        ),
        ("write what is granted", data.clone(), writes_both, true),
        (
            "write what everybody sees",
            "/usr/lib".into(),
            writes,
            false,
        ),
    ] {
        for directory in [data.join("deep"), data.join("inner"), tree.join("sub")] {
            std::fs::create_dir_all(directory).unwrap();
        }
        symlink(&target, link).unwrap();
        match start(place.launch(change)) {
            Ok(mut sandbox) => {
                assert!(starts, "{case}");
                assert_eq!(sh(&mut sandbox, "echo fine"), "fine\n", "{case}");
            }
            Err(error) => {
                assert!(!starts, "{case}: {error}");
                let error = error.to_string();
                assert!(error.contains("which is not granted"), "{case}: {error}");
                assert!(error.contains(link.to_str().unwrap()), "{case}: {error}");
            }
        }
        std::fs::remove_file(link).unwrap();
    }
}
