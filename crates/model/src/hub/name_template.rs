//! Names of generated objects, computed from templates.

use serde_json::{Value, json};

use golang::template::{Functions, ParseError, RenderError, RenderLimits, Template};

/// Maximum length of a name in bytes (NAM-002).
const LONGEST: usize = 63;
/// Length to which a longer name is cut before five random characters are appended (NAM-002, CT-14.4).
const CUT: usize = 58;

/// The kind of object to be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameSubject<'a> {
    /// The infrastructure cluster or the control plane.
    Cluster,
    /// A machine deployment with this topology name.
    MachineDeployment(&'a str),
    /// A machine pool with this topology name.
    MachinePool(&'a str),
    /// A machine of this MachineSet (MA-15.9).
    Machine(&'a str),
    /// A machine of this control plane.
    ControlPlaneMachine(&'a str),
}

/// A name template that does not parse or render.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameTemplateError {
    #[error(transparent)]
    Parse(#[from] ParseError),
    #[error(transparent)]
    Render(#[from] RenderError),
}

/// The name of an object by `template`: at most 63 bytes (NAM-001, NAM-002). `end` returns five random characters,
/// different ones for a name that had to be cut (NAM-05). The caller checks the syntax of the name.
///
/// # Errors
/// When the template does not parse or render, for example because it refers to an undefined name.
pub fn name_from(
    template: &str,
    cluster: &str,
    named: NameSubject<'_>,
    mut end: impl FnMut() -> String,
) -> Result<String, NameTemplateError> {
    let parsed = Template::parse("name", template, Functions::Builtin)?;
    let data = data(cluster, &end(), named);
    let name = parsed.with_missing_keys_as_errors().render(&data, RenderLimits::default())?;
    Ok(fitting(name, end))
}

/// The values on which the names of a template depend. Names that agree in all of them are equal.
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
    /// The values that `template` uses; `None` if it cannot be rendered. Only the variant of `named` matters.
    pub fn from_template(template: &str, named: NameSubject<'_>) -> Option<Self> {
        if template.is_empty() {
            return Some(NameParts { random: true, cluster: true, worker: named != NameSubject::Cluster });
        }
        let name = |cluster: &str, worker: &'static str, random: &str| {
            let named = match named {
                NameSubject::Cluster => NameSubject::Cluster,
                NameSubject::MachineDeployment(_) => NameSubject::MachineDeployment(worker),
                NameSubject::MachinePool(_) => NameSubject::MachinePool(worker),
                NameSubject::Machine(_) => NameSubject::Machine(worker),
                NameSubject::ControlPlaneMachine(_) => NameSubject::ControlPlaneMachine(worker),
            };
            // A name that has to be cut gets new random characters each time.
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

/// The default name of an object: `{{ .cluster.name }}-{{ .random }}`, for workers with the topology name in the middle
/// (NAM-02).
pub fn default_name(cluster: &str, named: NameSubject<'_>, mut end: impl FnMut() -> String) -> String {
    let name = match named {
        NameSubject::Cluster => format!("{cluster}-{}", end()),
        NameSubject::Machine(owner) | NameSubject::ControlPlaneMachine(owner) => format!("{owner}-{}", end()),
        NameSubject::MachineDeployment(name) | NameSubject::MachinePool(name) => format!("{cluster}-{name}-{}", end()),
    };
    fitting(name, end)
}

/// A name with the prefix `prefix`, which is cut if it is long (NAM-06).
pub fn prefixed_name(prefix: &str, end: &str) -> String {
    [&prefix[..prefix.floor_char_boundary(CUT)], end].concat()
}

fn fitting(name: String, end: impl FnOnce() -> String) -> String {
    if name.len() > LONGEST { prefixed_name(&name, &end()) } else { name }
}

fn data(cluster: &str, random: &str, named: NameSubject<'_>) -> Value {
    let mut data = json!({"cluster": {"name": cluster}, "random": random});
    match named {
        NameSubject::Cluster => {}
        NameSubject::MachineDeployment(name) => data["machineDeployment"] = json!({"topologyName": name}),
        NameSubject::MachinePool(name) => data["machinePool"] = json!({"topologyName": name}),
        NameSubject::Machine(set) => data["machineSet"] = json!({"name": set}),
        NameSubject::ControlPlaneMachine(name) => data["kubeadmControlPlane"] = json!({"name": name}),
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
        let md = NameSubject::MachineDeployment("any");
        for (template, named, want) in [
            ("", NameSubject::Cluster, Some((true, true, false))),
            ("", md, Some((true, true, true))),
            ("brain", NameSubject::Cluster, Some((false, false, false))),
            ("{{ .cluster.name }}", NameSubject::Cluster, Some((false, true, false))),
            ("{{ .cluster.name }}-workers", md, Some((false, true, false))),
            ("{{ .machineDeployment.topologyName }}", md, Some((false, false, true))),
            ("{{ .cluster.name }}-{{ .machineDeployment.topologyName }}", md, Some((false, true, true))),
            ("w-{{ .random }}", md, Some((true, false, false))),
            ("{{ if .random }}w{{ end }}", md, Some((false, false, false))),
            (&long, NameSubject::Cluster, Some((true, false, false))),
            (&long[..63], NameSubject::Cluster, Some((false, false, false))),
            ("{{ .nope }}", md, None),
        ] {
            let want = want.map(|(random, cluster, worker)| NameParts { random, cluster, worker });
            assert_eq!(NameParts::from_template(template, named), want, "{template}");
        }
    }

    #[test]
    fn a_name_follows_from_its_template() {
        // NAM-001, NAM-002, CT-14.4
        let long = "x".repeat(64);
        for (template, named, want) in [
            ("{{ .cluster.name }}-{{ .random }}", NameSubject::Cluster, Ok("c-bcdfg".to_owned())),
            ("{{ .machineDeployment.topologyName }}", NameSubject::MachineDeployment("md"), Ok("md".to_owned())),
            ("{{ .machinePool.topologyName }}", NameSubject::MachinePool("mp"), Ok("mp".to_owned())),
            (&*long, NameSubject::Cluster, Ok(format!("{}hjklm", "x".repeat(58)))),
            (&long[..63], NameSubject::Cluster, Ok("x".repeat(63))),
            ("", NameSubject::Cluster, Ok(String::new())),
            ("{{ .machinePool.topologyName }}", NameSubject::MachineDeployment("md"), Err("machinePool")),
            ("{{ if .nope }}a{{ end }}", NameSubject::Cluster, Err("nope")),
            ("{{ .random.x }}", NameSubject::Cluster, Err("random")),
            ("{{ upper .cluster.name }}", NameSubject::Cluster, Err("upper")),
            ("{{", NameSubject::Cluster, Err("unclosed action")),
        ] {
            let mut ends = ["bcdfg", "hjklm"].map(str::to_owned).into_iter();
            match (name_from(template, "c", named, || ends.next().unwrap()), want) {
                (Ok(name), Ok(want)) => assert_eq!(name, want, "{template}"),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{template}: {error}"),
                (outcome, want) => panic!("{template}: {outcome:?}, want {want:?}"),
            }
        }
    }

    #[test]
    fn a_name_without_a_template_is_what_the_default_template_gives() {
        // NAM-02
        for (template, named) in [
            ("{{ .cluster.name }}-{{ .random }}", NameSubject::Cluster),
            (
                "{{ .cluster.name }}-{{ .machineDeployment.topologyName }}-{{ .random }}",
                NameSubject::MachineDeployment("md"),
            ),
            ("{{ .cluster.name }}-{{ .machinePool.topologyName }}-{{ .random }}", NameSubject::MachinePool("mp")),
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
