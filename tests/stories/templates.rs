//! Go templates of ClusterClasses: what a patch and a name may say (TPL-001 to TPL-020), as Go answers it.
//!
//! `fixtures/gotemplate/rules.jsonl` holds cases of each rule, with what Go made of them (`README.md` there).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};
use topologist::template::{Functions, RenderLimits, Template};

use crate::harness::verdicts::errors_of_class;

const CASES: &str = include_str!("../../fixtures/gotemplate/rules.jsonl");

/// A template and what Go made of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    rule: String,
    template: String,
    /// A template of a name: only Go's own functions, and no missing keys.
    #[serde(default)]
    strict: bool,
    output: Option<String>,
    /// Why it does not parse.
    parse: Option<String>,
    /// Why it cannot be rendered.
    exec: Option<String>,
}

fn cases() -> (Value, Vec<Case>) {
    let mut lines = CASES.lines();
    let data: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    (data["data"].clone(), lines.map(|line| serde_json::from_str(line).unwrap()).collect())
}

impl Case {
    /// The errors of a class with this template where Go would be asked.
    fn refusals(&self) -> Vec<&'static str> {
        let class = match self.strict {
            true => json!({"infrastructure": {"naming": {"template": self.template}}}),
            false => json!({"patches": [{"name": "p", "enabledIf": self.template, "definitions": [{
                "selector": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevClusterTemplate",
                    "matchResources": {"infrastructureCluster": true}},
                "jsonPatches": [{"op": "add", "path": "/spec/a", "valueFrom": {"template": self.template}}]}]}]}),
        };
        errors_of_class(&class).into_iter().map(|(rule, _)| rule).collect()
    }

    /// What differs from Go's answer, in words.
    fn difference(&self, data: &Value) -> Option<String> {
        let functions = if self.strict { Functions::Builtin } else { Functions::Sprig };
        let template = match (Template::parse("tpl", &self.template, functions), &self.parse) {
            (Ok(template), None) => template,
            (Err(_), Some(_)) => return None,
            (Ok(_), Some(error)) => return Some(format!("parses, want {error}")),
            (Err(error), None) => return Some(format!("does not parse: {error}")),
        };
        let template = if self.strict { template.with_missing_keys_as_errors() } else { template };
        match (template.render(data, RenderLimits::default()), &self.output, &self.exec) {
            (Ok(output), Some(want), _) if output == *want => None,
            (Err(_), _, Some(_)) => None,
            (got, ..) => Some(format!("renders {got:?}, want {:?} or {:?}", self.output, self.exec)),
        }
    }
}

#[test]
fn templates_parse_and_render_where_go_does() {
    let (data, cases) = cases();
    let mut differences = String::new();
    for case in &cases {
        if let Some(difference) = case.difference(&data) {
            let _ = writeln!(differences, "{} {:?}: {difference}", case.rule, case.template);
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

#[test]
fn a_class_is_denied_only_for_templates_that_do_not_parse() {
    // PAT-004, PAT-018, NAM-001
    let mut differences = String::new();
    for case in cases().1 {
        let want: &[&str] = match (&case.parse, case.strict) {
            (None, true) => continue,
            (Some(_), true) => &["NAM-001"],
            (Some(_), false) => &["PAT-004", "PAT-018"],
            (None, false) => &[],
        };
        let refusals = case.refusals();
        if refusals != want {
            let _ = writeln!(differences, "{} {:?}: {refusals:?}, want {want:?}", case.rule, case.template);
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

/// Without cases of both kinds a rule could be forgotten and nothing would fail.
#[test]
fn every_rule_of_templates_has_cases_that_pass_and_cases_that_fail() {
    let mut seen = BTreeMap::<String, (usize, usize)>::new();
    for case in cases().1 {
        let (passing, failing) = seen.entry(case.rule).or_default();
        *(if case.output.is_some() { passing } else { failing }) += 1;
    }
    let rules = ["001", "002", "003", "004", "005", "006", "007", "008", "010", "011", "020"];
    let rules = rules.map(|number| format!("TPL-{number}"));
    assert_eq!(seen.keys().cloned().collect::<Vec<_>>(), rules);
    assert!(seen.values().all(|(passing, failing)| *passing > 0 && *failing > 0), "{seen:?}");
}

#[test]
fn names_have_none_of_the_functions_of_patches() {
    // TPL-010, TPL-011
    let (all, own) = (Functions::Sprig.names(), Functions::Builtin.names());
    let patches =
        |name: &str| json!({"patches": [{"name": "p", "enabledIf": format!("{{{{ {name} 1 }}}}"), "definitions": []}]});
    let names = |name: &str| json!({"infrastructure": {"naming": {"template": format!("{{{{ if false }}}}{{{{ {name} 1 }}}}{{{{ end }}}}a")}}});
    for name in all {
        assert_eq!(errors_of_class(&patches(name)), [], "{name}");
        let refused = errors_of_class(&names(name));
        assert_eq!(refused.is_empty(), own.contains(&name), "{name}: {refused:?}");
    }
}
