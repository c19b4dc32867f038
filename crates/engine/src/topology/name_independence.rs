//! Checks for plans that do not depend on names: the plan of one Cluster is then valid for others with the same
//! topology.

use golang::template::{FieldChain, Functions, Template};
use model::hub::{ClassUpgrade, Cluster, ClusterClass, ClusterClassSpec, Naming, Patch};
use model::world::Class;

/// Maximum length of the names of a Cluster and of a worker set together: names of templates have 58 characters before
/// their random suffix.
const LONGEST: usize = 48;
/// The builtin variable that patches may insert unchanged.
const NAME: &str = "builtin.cluster.name";
/// Builtin variables without names, including their members.
const NAMELESS: [&[&str]; 14] = [
    &["builtin", "cluster", "namespace"],
    &["builtin", "cluster", "topology"],
    &["builtin", "cluster", "classNamespace"],
    &["builtin", "cluster", "network"],
    &["builtin", "controlPlane", "version"],
    &["builtin", "controlPlane", "replicas"],
    &["builtin", "machineDeployment", "version"],
    &["builtin", "machineDeployment", "class"],
    &["builtin", "machineDeployment", "topologyName"],
    &["builtin", "machineDeployment", "replicas"],
    &["builtin", "machinePool", "version"],
    &["builtin", "machinePool", "class"],
    &["builtin", "machinePool", "topologyName"],
    &["builtin", "machinePool", "replicas"],
];
/// Builtin variables that contain the names of templates of workers. A rotation changes them.
const TEMPLATE_NAMES: [&[&str]; 4] = [
    &["builtin", "machineDeployment", "bootstrap", "configRef", "name"],
    &["builtin", "machineDeployment", "infrastructureRef", "name"],
    &["builtin", "machinePool", "bootstrap", "configRef", "name"],
    &["builtin", "machinePool", "infrastructureRef", "name"],
];
/// Words that YAML does not read as strings.
const WORDS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "inf", "nan", "y"];
/// Letters that numbers and times in YAML may contain.
const OF_NUMBERS: &str = "abcdefotxz";

/// Whether no name that is generated from the name of the Cluster is truncated.
pub fn has_short_names(cluster: &Cluster) -> bool {
    let workers = &cluster.spec.topology.workers;
    let deployments = workers.machine_deployments.iter().map(|set| set.name.len());
    let longest = deployments.chain(workers.machine_pools.iter().map(|set| set.name.len())).max();
    cluster.metadata.name.len() + longest.unwrap_or_default() <= LONGEST
}

/// Whether YAML reads a value that contains this name as a string, if the templates of the class may write anything
/// beside it.
pub fn is_read_as_text(name: &str) -> bool {
    starts_text(name) && name.chars().any(is_of_text)
}

/// Whether YAML reads a value that starts with this name as a string: numbers and times start with a digit, a sign or a
/// dot.
pub fn starts_text(name: &str) -> bool {
    let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let is_digits_first = !name.starts_with(|first: char| first.is_ascii_lowercase());
    let may_be_number = is_digits_first && !name.chars().any(is_of_text);
    is_plain && !may_be_number && !WORDS.iter().any(|word| word.contains(name))
}

/// Whether no number and no time has this letter.
fn is_of_text(letter: char) -> bool {
    letter.is_ascii_lowercase() && !OF_NUMBERS.contains(letter)
}

/// Whether a template of a class writes something directly before the name of the Cluster that may begin a number, such
/// as `0x{{ .builtin.cluster.name }}`; its templates are read once.
pub fn prefixes_name(class: &Class) -> bool {
    class.prefixes_name(|class| {
        let values = class.spec.patches.iter().flat_map(|patch| &*patch.definitions);
        let mut values =
            values.flat_map(|definition| &*definition.json_patches).filter_map(|one| one.value_from.as_ref());
        values.any(|from| has_prefixed_name(&from.template))
    })
}

/// Whether something that may begin a number stands directly before a name in a template.
fn has_prefixed_name(template: &str) -> bool {
    let of_line = |line: &str| {
        places_of_name(line).map(|(start, _)| &line[..start]).any(|before| {
            let ends_word = |c: char| c.is_whitespace() || "\"'[{},".contains(c);
            let prefix = before.rsplit(ends_word).next().unwrap_or_default();
            // The output of another action may be anything.
            before.ends_with('}') || !prefix.is_empty() && !prefix.chars().any(|c| is_of_text(c.to_ascii_lowercase()))
        })
    };
    // Trimmed line breaks join what is on several lines.
    template.contains("-}}") || template.lines().any(of_line)
}

/// Whether a class does not depend on names of Clusters and of their objects; its templates are parsed once.
pub fn is_name_independent(class: &Class) -> bool {
    class.is_nameless(class_ignores_names)
}

fn class_ignores_names(class: &ClusterClass) -> bool {
    let ClusterClassSpec { infrastructure, control_plane, workers, upgrade, patches, .. } = &class.spec;
    let is_named = |naming: &Naming| *naming != Naming::default();
    let workers_are_named = workers.machine_deployments.iter().any(|one| is_named(&one.naming))
        || workers.machine_pools.iter().any(|one| is_named(&one.naming));
    !is_named(&infrastructure.naming)
        && !is_named(&control_plane.naming)
        && !workers_are_named
        && *upgrade == ClassUpgrade::default()
        && patches.iter().all(patch_ignores_names)
}

/// Whether the inline patches of a class may read the name of a worker's template, so that its rotation changes what
/// they write; they are read for it once.
pub(super) fn reads_template_names(class: &Class) -> bool {
    class.reads_template_names(|class| patches_read_template_names(&class.spec.patches))
}

fn patches_read_template_names(patches: &[Patch]) -> bool {
    let contains_name =
        |path: &[&str]| TEMPLATE_NAMES.iter().any(|name| name.starts_with(path) || path.starts_with(name));
    let template_reads = |template: &str| {
        !template.is_empty()
            && all_fields(template).is_none_or(|fields| fields.iter().any(|path| contains_name(&segments(path))))
    };
    patches.iter().any(|patch| {
        let operations = patch.definitions.iter().flat_map(|one| &*one.json_patches);
        template_reads(&patch.enabled_if)
            || operations.filter_map(|one| one.value_from.as_ref()).any(|from| {
                let variable = from.variable.split(['.', '[']).collect::<Vec<_>>();
                contains_name(&variable) && !from.variable.is_empty() || template_reads(&from.template)
            })
    })
}

/// Whether a patch reads no name, except for inserting the unchanged name of the Cluster.
fn patch_ignores_names(patch: &Patch) -> bool {
    let mut values =
        patch.definitions.iter().flat_map(|one| &*one.json_patches).filter_map(|one| one.value_from.as_ref());
    patch.external.is_none()
        && template_ignores_names(&patch.enabled_if)
        && values.all(|from| {
            let variable = &*from.variable;
            let is_nameless = variable == NAME || is_nameless(&variable.split(['.', '[']).collect::<Vec<_>>());
            is_nameless && without_name(&from.template).is_some_and(|rest| template_ignores_names(&rest))
        })
}

/// A template without the actions that insert the unchanged name of the Cluster; `None` if one may be the key of a map.
fn without_name(template: &str) -> Option<String> {
    // The output of a nested template may become a key elsewhere.
    if ["define", "block"].iter().any(|word| template.contains(word)) {
        return None;
    }
    let mut rest = String::new();
    for (i, line) in template.split('\n').enumerate() {
        rest.push_str(if i > 0 { "\n" } else { "" });
        let mut line = line.to_owned();
        while let Some((start, end)) = place_of_name(&line) {
            if line.get(end..)?.contains(':') || line.trim_start().starts_with('?') {
                return None;
            }
            line.replace_range(start..end, "name");
        }
        rest.push_str(&line);
    }
    Some(rest)
}

/// The range of the first `{{ .builtin.cluster.name }}`.
fn place_of_name(line: &str) -> Option<(usize, usize)> {
    places_of_name(line).next()
}

/// The ranges of all of them.
fn places_of_name(line: &str) -> impl Iterator<Item = (usize, usize)> {
    line.match_indices("{{").filter_map(|(start, _)| {
        let (inside, _) = line[start + 2..].split_once("}}")?;
        let is_name = inside.trim().strip_prefix('.') == Some(NAME);
        is_name.then_some((start, start + 2 + inside.len() + 2))
    })
}

/// Whether a template reads no name; a template whose variables are unknown may read one.
fn template_ignores_names(template: &str) -> bool {
    if template.is_empty() {
        return true;
    }
    all_fields(template).is_some_and(|fields| fields.iter().all(|path| is_nameless(&segments(path))))
}

/// The paths that a template refers to; `None` if it does not parse or its text does not show them all.
fn all_fields(template: &str) -> Option<Vec<FieldChain>> {
    Template::parse("names", template, Functions::Sprig).ok()?.all_fields()
}

fn segments(path: &FieldChain) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// Whether a variable is set by users, or is a builtin variable without a name.
fn is_nameless(path: &[&str]) -> bool {
    path.first().is_some_and(|first| *first != "builtin") || NAMELESS.iter().any(|known| path.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_may_only_print_the_name_of_the_cluster() {
        for (template, is_nameless) in [
            ("", true),
            ("plain", true),
            ("{{ .size }}", true),
            ("{{ .builtin.controlPlane.version }}", true),
            ("{{ .builtin.cluster.topology.version }}", true),
            ("name={{ .builtin.cluster.name }}", true),
            ("a: {{ .builtin.cluster.name }}-x\nb: {{.builtin.cluster.name}}/{{ .builtin.cluster.name }}", true),
            ("tag/{{ .builtin.cluster.name }}: owned", false),
            ("{{ .builtin.cluster.name | upper }}", false),
            ("{{ if eq .builtin.cluster.name \"a\" }}b{{ end }}", false),
            ("{{- .builtin.cluster.name -}}", false),
            ("{{ .builtin.cluster.uid }}", false),
            ("{{ .builtin.machineDeployment.infrastructureRef.name }}", false),
            ("{{ .builtin.controlPlane.metadata.labels }}", false),
            ("{{ .builtin.cluster | toJson }}", false),
            ("{{ .builtin }}", false),
            ("{{ . }}", false),
            ("{{ range $name, $value := . }}{{ $value }}{{ end }}", false),
            ("{{ with .builtin.cluster }}{{ .name }}{{ end }}", false),
            ("{{ index . \"builtin\" \"cluster\" \"name\" }}", false),
            ("{{ $b := .builtin }}{{ $b.cluster.name }}", false),
            ("{{ define \"n\" }}{{ .builtin.cluster.name }}{{ end }}{{ template \"n\" . }}: owned", false),
            ("? {{ .builtin.cluster.name }}", false),
            ("{{ wrong", false),
        ] {
            let rest = without_name(template).filter(|rest| template_ignores_names(rest));
            assert_eq!(rest.is_some(), is_nameless, "{template:?}");
        }
        for (variable, want) in
            [("size", true), ("builtin.cluster.uid", false), ("builtin", false), ("builtin.cluster", false)]
        {
            assert_eq!(is_nameless(&variable.split('.').collect::<Vec<_>>()), want, "{variable}");
        }
    }

    #[test]
    fn a_name_may_be_in_a_number_behind_what_begins_one() {
        for (template, want) in [
            ("{{ .builtin.cluster.name }}", false),
            ("a: \"0x{{ .size }}\"\nb: [{{ .builtin.cluster.name }}, 1]", false),
            ("--name={{ .builtin.cluster.name }}.local", false),
            ("0x{{ .builtin.cluster.name }}", true),
            ("a: 1{{.builtin.cluster.name}}", true),
            ("-{{ .builtin.cluster.name }}", true),
            (".{{ .builtin.cluster.name }}", true),
            ("{{ .size }}{{ .builtin.cluster.name }}", true),
            ("{{.major}}.{{ .builtin.cluster.name }}", true),
            ("{{if .hex}}0x{{ .builtin.cluster.name }}{{end}}", true),
            ("{{ .size -}}\n{{ .builtin.cluster.name }}", true),
        ] {
            assert_eq!(has_prefixed_name(template), want, "{template:?}");
        }
    }

    #[test]
    fn patches_read_names_of_templates_by_name_or_with_all_around_them() {
        let patch = |from: serde_json::Value| {
            let operation = serde_json::json!({"op": "add", "path": "/spec", "valueFrom": from});
            let patch = serde_json::json!({"name": "p", "definitions": [{"jsonPatches": [operation]}]});
            patches_read_template_names(&[serde_json::from_value(patch).unwrap()])
        };
        for (variable, want) in [
            ("builtin.machineDeployment.infrastructureRef.name", true),
            ("builtin.machinePool.bootstrap.configRef.name", true),
            ("builtin.machinePool", true),
            ("builtin", true),
            ("builtin.machineDeployment.version", false),
            ("builtin.controlPlane", false),
            ("size", false),
            ("size[0].infrastructureRef", false),
        ] {
            assert_eq!(patch(serde_json::json!({"variable": variable})), want, "{variable}");
            let template = format!("{{{{ .{} }}}}", variable.split('[').next().unwrap());
            assert_eq!(patch(serde_json::json!({"template": template})), want, "{template}");
        }
        assert!(patch(serde_json::json!({"template": "{{ . | toJson }}"})));
    }

    #[test]
    fn names_that_yaml_reads_as_numbers_are_recognized() {
        for (name, is_text) in [
            ("cluster-1", true),
            ("blue", true),
            ("prod", true),
            ("on", false),
            ("al", false),
            ("1e5", false),
            ("0x12", false),
            ("dead-beef", false),
            ("12", false),
            ("a.b", false),
        ] {
            assert_eq!(is_read_as_text(name), is_text, "{name}");
        }
        for (name, is_text) in [
            ("c00001", true),
            ("e5", true),
            ("dead-beef", true),
            ("1e5", false),
            ("0c", false),
            ("o", false),
            ("fal", false),
        ] {
            assert_eq!(starts_text(name), is_text, "{name}");
        }
    }
}
