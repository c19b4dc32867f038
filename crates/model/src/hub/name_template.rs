//! Names of generated objects, from templates.

use serde_json::{Value, json};

use golang::template::{Functions, RenderLimits, Template};

/// The longest name in bytes (NAM-002).
const LONGEST: usize = 63;
/// To how many bytes a longer name is cut before five random characters follow (NAM-002, CT-14.4).
const CUT: usize = 58;

/// What a name is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// The infrastructure cluster or the control plane.
    Cluster,
    /// A machine deployment of this topology name.
    MachineDeployment(&'a str),
    /// A machine pool of this topology name.
    MachinePool(&'a str),
    /// A machine of the MachineSet of this name (MA-15.9).
    Machine(&'a str),
    /// A machine of the control plane of this name.
    ControlPlaneMachine(&'a str),
}

/// The name that `template` gives an object of a Cluster: at most 63 bytes (NAM-001, NAM-002). `end` gives five random
/// characters, others for one that had to be cut (NAM-05). Whether it may be a name is for the caller to say.
///
/// # Errors
/// The template does not parse, or cannot be rendered: a name that it refers to does not exist, say.
pub fn name_from(
    template: &str,
    cluster: &str,
    named: Named<'_>,
    mut end: impl FnMut() -> String,
) -> Result<String, String> {
    let parsed = Template::parse("name", template, Functions::Builtin).map_err(|error| error.to_string())?;
    let data = data(cluster, &end(), named);
    let name = parsed
        .with_missing_keys_as_errors()
        .render(&data, RenderLimits::default())
        .map_err(|error| error.to_string())?;
    Ok(fitting(name, end))
}

/// Which values the names of a naming template depend on. Names that share all of these are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameParts {
    /// `.random`.
    pub random: bool,
    /// `.cluster.name`.
    pub cluster: bool,
    /// `.machineDeployment.topologyName` or `.machinePool.topologyName`.
    pub worker: bool,
}

impl NameParts {
    /// The parts of the names that `template` gives; `None` if it cannot be rendered. Only the variant of `named` matters.
    pub fn of(template: &str, named: Named<'_>) -> Option<Self> {
        if template.is_empty() {
            return Some(NameParts { random: true, cluster: true, worker: named != Named::Cluster });
        }
        let name = |cluster: &str, worker: &'static str, random: &str| {
            let named = match named {
                Named::Cluster => Named::Cluster,
                Named::MachineDeployment(_) => Named::MachineDeployment(worker),
                Named::MachinePool(_) => Named::MachinePool(worker),
                Named::Machine(_) => Named::Machine(worker),
                Named::ControlPlaneMachine(_) => Named::ControlPlaneMachine(worker),
            };
            // A name that has to be cut gets fresh characters each time.
            let mut ends = [random, "fresh"].into_iter();
            name_from(template, cluster, named, || ends.next().unwrap_or_default().to_owned()).ok()
        };
        let usual = name("c", "w", "r")?;
        let differs = |other: Option<String>| other.is_none_or(|other| other != usual);
        Some(NameParts {
            random: usual.len() == LONGEST && usual.ends_with("fresh") || differs(name("c", "w", "s")),
            cluster: differs(name("d", "w", "r")),
            worker: differs(name("c", "x", "r")),
        })
    }
}

/// The name of an object whose class has no template for it: what `{{ .cluster.name }}-{{ .random }}` gives, with the
/// name in the topology in the middle for workers (NAM-02).
pub fn default_name(cluster: &str, named: Named<'_>, mut end: impl FnMut() -> String) -> String {
    let name = match named {
        Named::Cluster => format!("{cluster}-{}", end()),
        Named::Machine(owner) | Named::ControlPlaneMachine(owner) => format!("{owner}-{}", end()),
        Named::MachineDeployment(name) | Named::MachinePool(name) => format!("{cluster}-{name}-{}", end()),
    };
    fitting(name, end)
}

/// A name that begins with `prefix`, which is cut when it is long (NAM-06).
pub fn prefixed_name(prefix: &str, end: &str) -> String {
    [&prefix[..prefix.floor_char_boundary(CUT)], end].concat()
}

fn fitting(name: String, end: impl FnOnce() -> String) -> String {
    if name.len() > LONGEST { prefixed_name(&name, &end()) } else { name }
}

fn data(cluster: &str, random: &str, named: Named<'_>) -> Value {
    let mut data = json!({"cluster": {"name": cluster}, "random": random});
    match named {
        Named::Cluster => {}
        Named::MachineDeployment(name) => data["machineDeployment"] = json!({"topologyName": name}),
        Named::MachinePool(name) => data["machinePool"] = json!({"topologyName": name}),
        Named::Machine(set) => data["machineSet"] = json!({"name": set}),
        Named::ControlPlaneMachine(name) => data["kubeadmControlPlane"] = json!({"name": name}),
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_depend_on_the_values_that_their_template_uses() {
        // NAM-02, NAM-05, DEC-36
        let long = "x".repeat(64);
        let md = Named::MachineDeployment("any");
        for (template, named, want) in [
            ("", Named::Cluster, Some((true, true, false))),
            ("", md, Some((true, true, true))),
            ("brain", Named::Cluster, Some((false, false, false))),
            ("{{ .cluster.name }}", Named::Cluster, Some((false, true, false))),
            ("{{ .cluster.name }}-workers", md, Some((false, true, false))),
            ("{{ .machineDeployment.topologyName }}", md, Some((false, false, true))),
            ("{{ .cluster.name }}-{{ .machineDeployment.topologyName }}", md, Some((false, true, true))),
            ("w-{{ .random }}", md, Some((true, false, false))),
            ("{{ if .random }}w{{ end }}", md, Some((false, false, false))),
            (&long, Named::Cluster, Some((true, false, false))),
            (&long[..63], Named::Cluster, Some((false, false, false))),
            ("{{ .nope }}", md, None),
        ] {
            let want = want.map(|(random, cluster, worker)| NameParts { random, cluster, worker });
            assert_eq!(NameParts::of(template, named), want, "{template}");
        }
    }

    #[test]
    fn a_name_follows_from_its_template() {
        // NAM-001, NAM-002, CT-14.4
        let long = "x".repeat(64);
        for (template, named, want) in [
            ("{{ .cluster.name }}-{{ .random }}", Named::Cluster, Ok("c-bcdfg".to_owned())),
            ("{{ .machineDeployment.topologyName }}", Named::MachineDeployment("md"), Ok("md".to_owned())),
            ("{{ .machinePool.topologyName }}", Named::MachinePool("mp"), Ok("mp".to_owned())),
            (&*long, Named::Cluster, Ok(format!("{}hjklm", "x".repeat(58)))),
            (&long[..63], Named::Cluster, Ok("x".repeat(63))),
            ("", Named::Cluster, Ok(String::new())),
            ("{{ .machinePool.topologyName }}", Named::MachineDeployment("md"), Err("machinePool")),
            ("{{ if .nope }}a{{ end }}", Named::Cluster, Err("nope")),
            ("{{ .random.x }}", Named::Cluster, Err("random")),
            ("{{ upper .cluster.name }}", Named::Cluster, Err("upper")),
            ("{{", Named::Cluster, Err("unclosed action")),
        ] {
            let mut ends = ["bcdfg", "hjklm"].map(str::to_owned).into_iter();
            match (name_from(template, "c", named, || ends.next().unwrap()), want) {
                (Ok(name), Ok(want)) => assert_eq!(name, want, "{template}"),
                (Err(error), Err(words)) => assert!(error.contains(words), "{template}: {error}"),
                (outcome, want) => panic!("{template}: {outcome:?}, want {want:?}"),
            }
        }
    }

    #[test]
    fn a_name_without_a_template_is_what_the_default_template_gives() {
        // NAM-02
        for (template, named) in [
            ("{{ .cluster.name }}-{{ .random }}", Named::Cluster),
            ("{{ .cluster.name }}-{{ .machineDeployment.topologyName }}-{{ .random }}", Named::MachineDeployment("md")),
            ("{{ .cluster.name }}-{{ .machinePool.topologyName }}-{{ .random }}", Named::MachinePool("mp")),
        ] {
            for cluster in ["c", &"c".repeat(70)] {
                let ends = || ["bcdfg", "hjklm"].map(str::to_owned).into_iter();
                let (mut of_template, mut of_default) = (ends(), ends());
                let want = name_from(template, cluster, named, || of_template.next().unwrap());
                assert_eq!(Ok(default_name(cluster, named, || of_default.next().unwrap())), want);
            }
        }
    }

    #[test]
    fn a_prefix_leaves_room_for_its_end() {
        // NAM-06
        assert_eq!(prefixed_name("c-md-", "bcdfg"), "c-md-bcdfg");
        assert_eq!(prefixed_name(&"x".repeat(80), "bcdfg"), format!("{}bcdfg", "x".repeat(58)));
        assert_eq!(prefixed_name(&"é".repeat(40), "bcdfg").len(), 63);
    }
}
