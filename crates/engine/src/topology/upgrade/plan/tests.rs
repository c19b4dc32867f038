use super::*;

fn written(text: &str) -> VersionText {
    VersionText::parse(text).unwrap()
}

fn all(list: &[&str]) -> Vec<VersionText> {
    list.iter().map(|text| written(text)).collect()
}

fn range(control_plane: &str, workers: &str, target: &str) -> UpgradeRange {
    let workers = (!workers.is_empty()).then(|| written(workers));
    UpgradeRange { control_plane: written(control_plane), workers, target: written(target) }
}

fn shown(plan: Result<Vec<VersionText>, PlanError>) -> String {
    plan.map_or_else(|error| error.to_string(), |plan| texts(&plan))
}

#[test]
fn a_class_lists_what_a_control_plane_goes_through() {
    // UP-14
    let list = ["v1.31.0", "v1.31.2", "v1.32.1", "v1.32.4", "v1.33.0", "v1.33.7", "v1.34.0"];
    let through = |from: &str, to: &str, list: &[&str]| {
        let list: Vec<String> = list.iter().map(|text| (*text).to_owned()).collect();
        shown(range(from, "", to).through(&list))
    };
    for (from, to, want) in [
        ("v1.31.0", "v1.33.0", "v1.32.4, v1.33.0"),
        ("v1.31.0", "v1.32.1", "v1.32.1"),
        ("v1.31.0", "v1.31.2", "v1.31.2"),
        ("v1.33.0", "v1.33.7", "v1.33.7"),
        ("v1.32.4", "v1.34.0", "v1.33.7, v1.34.0"),
        ("v1.32.0", "v1.32.0", ""),
        // What is not listed is not reached, which the check of the plan finds out.
        ("v1.31.0", "v1.33.5", "v1.32.4, v1.33.0"),
        // DEC-71: another build is one step, whether it is listed or not.
        ("v1.31.0+a", "v1.31.0+b", "v1.31.0+b"),
    ] {
        assert_eq!(through(from, to, &list), want, "{from} {to}");
    }
    let both = ["v1.33.1+rke2r1", "v1.33.1+rke2r2"];
    assert_eq!(through(both[0], both[1], &both), both[1]);
    assert_eq!(through(both[1], both[0], &both), both[0]);
    assert_eq!(through("v1.32.5+rke2r1", both[0], &both), both[0]);
    // Builds of the target: the list goes on until it is reached, and the topology's own text counts.
    let builds = ["v1.31.0", "v1.32.0+a", "v1.32.0+b", "v1.32.0+c"];
    assert_eq!(through("v1.31.0", "v1.32.0+b", &builds), "v1.32.0+b");
    assert_eq!(through("v1.31.0", "v1.32.0", &["1.32.0"]), "v1.32.0");
    let no_version = through("v1.31.0", "v1.32.0", &["latest"]);
    assert!(
        no_version.starts_with("in kubernetesVersions of the ClusterClass, \"latest\" is not a version"),
        "{no_version}"
    );
}

#[test]
fn without_a_list_one_minor_version_is_one_step() {
    // UP-02, UP-13
    for (from, to, want) in [
        ("v1.31.0", "v1.31.0", ""),
        ("v1.31.0", "v1.31.9", "v1.31.9"),
        ("v1.31.0", "v1.32.3", "v1.32.3"),
        ("v1.31.0", "v2.32.0", "v2.32.0"),
        ("v1.31.0+a", "v1.31.0+b", "v1.31.0+b"),
    ] {
        assert_eq!(shown(range(from, "", to).one_minor()), want, "{from} {to}");
    }
    assert!(matches!(range("v1.31.0", "", "v1.33.0").one_minor(), Err(PlanError::MoreThanOneMinor { .. })));
}

#[test]
fn workers_take_up_to_three_minor_versions_at_once() {
    // UP-17
    let minors = |from: u64, to: u64| -> Vec<VersionText> {
        (from..=to).map(|minor| written(&format!("v1.{minor}.0"))).collect()
    };
    for (lowest, target, want) in [
        (31, 32, "v1.32.0"),
        (31, 34, "v1.34.0"),
        (31, 35, "v1.34.0, v1.35.0"),
        (31, 38, "v1.34.0, v1.37.0, v1.38.0"),
        (28, 35, "v1.31.0, v1.34.0, v1.35.0"),
    ] {
        let from = format!("v1.{lowest}.0");
        let range = range(&from, &from, &format!("v1.{target}.0"));
        let plan = range.plan(minors(lowest + 1, target), Vec::new()).unwrap();
        assert_eq!(texts(&plan.workers), want, "{lowest} {target}");
    }
    // The control plane's own version counts where it is past them, and the last of a minor counts.
    assert_eq!(
        texts(&range("v1.34.2", "v1.31.0", "v1.35.0").plan(all(&["v1.35.0"]), Vec::new()).unwrap().workers),
        "v1.34.2, v1.35.0"
    );
    let steps = all(&["v1.34.2", "v1.34.5", "v1.35.0"]);
    assert_eq!(
        texts(&range("v1.33.0", "v1.31.0", "v1.35.0").plan(steps, Vec::new()).unwrap().workers),
        "v1.34.5, v1.35.0"
    );
    let unknown = range("v1.35.0", "v1.30.0", "v1.36.0").plan(all(&["v1.36.0"]), Vec::new());
    assert!(matches!(unknown, Err(PlanError::UnknownMinor { minor: 33, .. })), "{unknown:?}");
    let ahead = range("v1.31.0", "v1.33.0", "v1.32.0").plan(all(&["v1.32.0"]), Vec::new());
    assert!(matches!(ahead, Err(PlanError::WorkersAhead { .. })));
}

#[test]
fn a_plan_of_the_control_plane_rises_without_gaps_to_its_target() {
    // UP-01, UP-16
    let check = |from: &str, to: &str, plan: &[&str]| {
        range(from, "", to)
            .check_control_plane(&all(plan))
            .map_or_else(|error| error.to_string(), |()| "valid".to_owned())
    };
    let of = "of the upgrade plan of the control plane";
    for (from, to, plan, want) in [
        ("v1.31.0", "v1.33.0", &["v1.31.5", "v1.32.0", "v1.33.0"][..], "valid".to_owned()),
        ("v1.31.0+a", "v1.31.0+b", &["v1.31.0+b"], "valid".to_owned()),
        ("v1.31.0+2", "v1.31.0+1", &["v1.31.0+1"], format!("item 0 {of}, v1.31.0+1, is not above v1.31.0+2 before it")),
        ("v1.31.0", "v1.31.0", &[], "valid".to_owned()),
        (
            "v1.31.0",
            "v1.32.0",
            &["v1.31.0", "v1.32.0"],
            format!("item 0 {of}, v1.31.0, is not above v1.31.0 before it"),
        ),
        (
            "v1.31.0",
            "v1.33.0",
            &["v1.32.0", "v1.31.9", "v1.33.0"],
            format!("item 1 {of}, v1.31.9, is not above v1.32.0 before it"),
        ),
        ("v1.31.0", "v1.33.0", &["v1.33.0"], format!("item 0 {of}, v1.33.0, skips minor versions after v1.31.0")),
        (
            "v1.31.0",
            "v1.33.0",
            &["v1.32.0"],
            "the upgrade plan of the control plane has to end with v1.33.0, and ends with v1.32.0".to_owned(),
        ),
        (
            "v1.31.0",
            "v1.32.0",
            &[],
            "the upgrade plan of the control plane has to end with v1.32.0, and is empty".to_owned(),
        ),
        (
            "v1.31.0",
            "v1.31.0",
            &["v1.32.0"],
            "the upgrade plan of the control plane has to be empty, as it is at v1.31.0 already, and is v1.32.0"
                .to_owned(),
        ),
    ] {
        assert_eq!(check(from, to, plan), want);
    }
}

#[test]
fn a_plan_of_the_workers_follows_the_control_plane() {
    // UP-18
    let check = |cp: &str, workers: &str, to: &str, cp_plan: &[&str], plan: &[&str]| {
        range(cp, workers, to)
            .check_workers(&all(plan), &all(cp_plan))
            .map_or_else(|error| error.to_string(), |()| "valid".to_owned())
    };
    let of = "of the upgrade plan of the workers";
    let to_34 = ["v1.32.0", "v1.33.0", "v1.34.0"];
    assert_eq!(check("v1.31.0", "v1.31.0", "v1.34.0", &to_34, &["v1.33.0", "v1.34.0"]), "valid");
    assert_eq!(check("v1.31.0", "v1.30.0", "v1.34.0", &to_34, &["v1.31.0", "v1.34.0"]), "valid");
    // (a)
    assert_eq!(
        check("v1.31.0", "v1.31.0", "v1.34.0", &to_34, &["v1.33.1", "v1.34.0"]),
        format!("item 0 {of}, v1.33.1, is not a version that the control plane has or goes through")
    );
    assert_eq!(check("v1.34.0", "v1.31.0", "v1.34.0", &[], &["v1.33.1", "v1.34.0"]), "valid");
    // (b)
    assert_eq!(
        check("v1.31.0", "v1.31.0", "v1.34.0", &to_34, &["v1.33.0", "v1.32.0", "v1.34.0"]),
        format!("item 1 {of}, v1.32.0, is not above v1.33.0 before it")
    );
    let builds = ["v1.32.0+b", "v1.32.0+a"];
    assert_eq!(check("v1.31.0", "v1.31.0", "v1.32.0+a", &builds, &builds), "valid");
    assert_eq!(
        check("v1.32.0+b", "v1.32.0+b", "v1.32.0+a", &["v1.32.0+a"], &["v1.32.0+a", "v1.32.0+b", "v1.32.0+a"]),
        format!("item 1 {of}, v1.32.0+b, is not above v1.32.0+a before it")
    );
    // DEC-71: builds that the control plane has left are below those that it has.
    assert_eq!(check("v1.32.0+a", "v1.32.0+c", "v1.32.0+b", &["v1.32.0+b"], &["v1.32.0+b"]), "valid");
    assert_eq!(check("v1.32.0+a", "v1.32.0+b", "v1.32.0+a", &[], &["v1.32.0+a"]), "valid");
    assert_eq!(
        check("v1.32.0+1", "v1.32.0+2", "v1.32.0+1", &[], &["v1.32.0+1"]),
        format!("item 0 {of}, v1.32.0+1, is not above v1.32.0+2 before it")
    );
    // (c)
    assert_eq!(
        check("v1.35.0", "v1.31.0", "v1.35.0", &[], &["v1.35.0"]),
        format!("item 0 {of}, v1.35.0, skips minor versions after v1.31.0")
    );
    // (d)
    assert_eq!(
        check("v1.31.0", "v1.31.0", "v1.34.0", &to_34, &["v1.33.0"]),
        "the upgrade plan of the workers has to end with v1.34.0, and ends with v1.33.0"
    );
    assert_eq!(check("v1.31.0", "", "v1.32.0", &["v1.32.0"], &[]), "valid");
    assert_eq!(
        check("v1.31.0", "", "v1.32.0", &["v1.32.0"], &["v1.32.0"]),
        "the upgrade plan of the workers has to be empty, as there are no workers, and is v1.32.0"
    );
    assert_eq!(
        check("v1.31.0", "v1.32.0", "v1.32.0", &["v1.32.0"], &["v1.32.0"]),
        "the upgrade plan of the workers has to be empty, as it is at v1.32.0 already, and is v1.32.0"
    );
}

#[test]
fn the_lowest_worker_counts() {
    // UP-10
    for (versions, control_plane, want) in [
        (&[][..], "v1.31.0", None),
        (&["v1.32.0", "v1.31.0", "v1.31.5"], "v1.32.0", Some("v1.31.0")),
        (&["v1.31.0+a", "v1.31.0+b"], "v1.31.0+a", Some("v1.31.0+b")),
        (&["v1.31.0+b", "v1.31.0+a"], "v1.31.0+a", Some("v1.31.0+b")),
        (&["1.31"], "v1.32.0", Some("v1.31.0")),
    ] {
        let versions: Vec<KubeVersion> = versions.iter().map(|text| written(text).version().clone()).collect();
        let found = lowest(versions.clone(), written(control_plane).version()).map(|version| version.to_string());
        assert_eq!(found.as_deref(), want, "{versions:?}");
    }
}

#[test]
fn there_is_nothing_to_do_where_everything_is_at_its_end() {
    // UP-11
    for (control_plane, workers, target, want) in [
        ("v1.31.0", "", "v1.31.0", true),
        ("v1.31.0", "v1.31.0", "1.31.0", true),
        ("v1.31.0", "v1.30.0", "v1.31.0", false),
        ("v1.30.0", "v1.31.0", "v1.31.0", false),
        ("v1.31.0+a", "", "v1.31.0+b", false),
    ] {
        assert_eq!(range(control_plane, workers, target).is_at_its_end(), want);
    }
}
