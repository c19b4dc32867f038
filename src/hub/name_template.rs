//! Names of generated objects, from templates.

use serde_json::{Value, json};

use crate::gotemplate::{Functions, Limits, Template};

/// The longest name in bytes (NAM-002).
const LONGEST: usize = 63;
/// To how many bytes a longer name is cut before five random characters follow.
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
}

/// The name that `template` gives an object of a Cluster: at most 63 bytes, with `random` at the end of one that had to be
/// cut (NAM-001, NAM-002). Whether it may be a name is for the caller to say.
///
/// # Errors
/// The template does not parse, or cannot be rendered: a name that it refers to does not exist, say.
pub fn name_from(template: &str, cluster: &str, random: &str, named: Named<'_>) -> Result<String, String> {
    let parsed = Template::parse("name", template, Functions::Builtin).map_err(|error| error.to_string())?;
    let data = data(cluster, random, named);
    let mut name =
        parsed.with_missing_keys_as_errors().render(&data, Limits::default()).map_err(|error| error.to_string())?;
    if name.len() > LONGEST {
        name.truncate(name.floor_char_boundary(CUT));
        name.push_str(random);
    }
    Ok(name)
}

fn data(cluster: &str, random: &str, named: Named<'_>) -> Value {
    let mut data = json!({"cluster": {"name": cluster}, "random": random});
    match named {
        Named::Cluster => {}
        Named::MachineDeployment(name) => data["machineDeployment"] = json!({"topologyName": name}),
        Named::MachinePool(name) => data["machinePool"] = json!({"topologyName": name}),
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_follows_from_its_template() {
        // NAM-001, NAM-002
        let long = "x".repeat(64);
        for (template, named, want) in [
            ("{{ .cluster.name }}-{{ .random }}", Named::Cluster, Ok("c-bcdfg".to_owned())),
            ("{{ .machineDeployment.topologyName }}", Named::MachineDeployment("md"), Ok("md".to_owned())),
            ("{{ .machinePool.topologyName }}", Named::MachinePool("mp"), Ok("mp".to_owned())),
            (&*long, Named::Cluster, Ok(format!("{}bcdfg", "x".repeat(58)))),
            (&long[..63], Named::Cluster, Ok("x".repeat(63))),
            ("", Named::Cluster, Ok(String::new())),
            ("{{ .machinePool.topologyName }}", Named::MachineDeployment("md"), Err("machinePool")),
            ("{{ if .nope }}a{{ end }}", Named::Cluster, Err("nope")),
            ("{{ .random.x }}", Named::Cluster, Err("random")),
            ("{{ upper .cluster.name }}", Named::Cluster, Err("upper")),
            ("{{", Named::Cluster, Err("unclosed action")),
        ] {
            match (name_from(template, "c", "bcdfg", named), want) {
                (Ok(name), Ok(want)) => assert_eq!(name, want, "{template}"),
                (Err(error), Err(words)) => assert!(error.contains(words), "{template}: {error}"),
                (outcome, want) => panic!("{template}: {outcome:?}, want {want:?}"),
            }
        }
    }
}
