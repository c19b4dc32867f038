//! What CEL rules may cost, seen from outside: how many values a rule may have before a class is refused (CEL-011,
//! CEL-015).
//!
//! The costs are those that Kubernetes estimated (`fixtures/cel/rules.jsonl`). A rule of cost `c` below an array passes
//! while the array is limited to 10,000,000 / `c` items, and not with one item more.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::harness::verdicts::errors_of_class;

const RECORDED: &str = include_str!("../../fixtures/cel/rules.jsonl");

/// Cost units that a rule may need at most, with as many values as there can be.
const PER_RULE: u64 = 10_000_000;

/// One rule for each construct that has a price of its own, in the order of CEL-015.
const CONSTRUCTS: &[&str] = &[
    "true",
    "self.b",
    "has(self.a)",
    "[1,2].sum() == 3",
    "{'k':'v'}.size() == 1",
    "self.b && self.b",
    "self.b ? true : self.b",
    "(self.b ? self.a : 'xyzabc') == 'abc'",
    "self.l.all(x, x > 0)",
    "self.l.map(x, x + 1).size() == 3",
    "self.l.filter(x, x > 1).size() == 2",
    "self.i + 1 == 2",
    "self.m['k'] == 'v'",
    "self.a + self.a == 'abcx'",
    "self.a == 'x'",
    "self.a < 'xyz'",
    "self.i in self.l",
    "self.a.startsWith('abc')",
    "self.a.endsWith(self.a)",
    "self.a.contains(self.a)",
    "self.a.matches('a.*')",
    "self.a.find('a') == 'a'",
    "self.a.findAll('a').size() == 1",
    "bytes(self.a) == b'abc'",
    "'%s-%d'.format([self.a, self.i]) == 'abc-7'",
    "strings.quote(self.a) == '\"abc\"'",
    "self.a.lowerAscii() == 'abc'",
    "self.a.substring(1) == 'bc'",
    "self.a.trim() == 'abc'",
    "url(self.a).getPort() == ''",
    "self.a.replace('a','b') == 'bbc'",
    "self.a.split('b').size() == 2",
    "self.s.join(',') == 'a,b,c'",
    "self.l.isSorted()",
    "self.s.isSorted()",
    "self.s.max() == 'c'",
    "self.s.lastIndexOf('c') == 2",
    "self.a.indexOf('b') == 1",
    "self.l.slice(0,2).size() == 2",
    "self.l.reverse() == [3,2,1]",
    "lists.range(3) == [0,1,2]",
    "[self.l].flatten() == [1,2,3]",
    "self.l.distinct() == [1,2,3]",
    "self.l.sort() == [1,2,3]",
    "self.s.sort() == ['a','b','c']",
    "self.l.sortBy(x, -x) == [3,2,1]",
    "sets.contains(self.l, [1,2])",
    "sets.intersects(self.l, self.l)",
    "sets.equivalent(self.l, [3,2,1])",
    "isIP(self.a)",
    "isCIDR(self.a)",
    "isQuantity(self.a)",
    "isSemver(self.a)",
    "ip.isCanonical('10.0.0.1')",
    "quantity('1Gi').isGreaterThan(quantity('1M'))",
    "semver('1.2.3').isLessThan(semver('1.3.0'))",
    "format.named('uuid').hasValue()",
    "cidr('10.0.0.0/8').containsIP('10.1.1.1')",
    "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
    "!format.dns1123Label().validate('A_').hasValue()",
];

/// Constructs whose estimate rounds elsewhere than that of Kubernetes, which is no reason to list them twice.
const ROUNDED: &[&str] = &["'%s-%d'.format([self.a, self.i]) == 'abc-7'", "[self.l].flatten() == [1,2,3]"];

/// A rule with what Kubernetes estimated.
#[derive(Deserialize)]
struct Recorded {
    schema: Value,
    rule: String,
    cost: Option<u64>,
}

/// The rules by which a class is refused whose variable is a list of at most so many of these values.
fn refusals(recorded: &Recorded, items: u64) -> Vec<&'static str> {
    let mut node = recorded.schema.clone();
    node["x-kubernetes-validations"] = json!([{"rule": recorded.rule}]);
    let schema = json!({"type": "array", "maxItems": items, "items": node});
    let variable = json!({"name": "v", "required": false, "schema": {"openAPIV3Schema": schema}});
    errors_of_class(&json!({"variables": [variable]})).into_iter().map(|(rule, _)| rule).collect()
}

#[test]
fn every_construct_costs_what_it_costs_kubernetes() {
    // CEL-014, CEL-015
    let recorded: Vec<Recorded> = RECORDED.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut differences = String::new();
    for construct in CONSTRUCTS {
        let recorded = recorded.iter().find(|recorded| recorded.rule == *construct);
        let recorded = recorded.unwrap_or_else(|| panic!("{construct} was not recorded"));
        let cost = recorded.cost.unwrap();
        let margin = if ROUNDED.contains(construct) { cost / 5 + 1 } else { 0 };
        let most = PER_RULE.checked_div(cost + margin).unwrap_or(PER_RULE * 10);
        let passing = refusals(recorded, most);
        let too_many = PER_RULE.checked_div(cost - margin).map(|most| most + 1);
        let failing = too_many.map_or_else(|| vec!["CEL-011"], |too_many| refusals(recorded, too_many));
        if !passing.is_empty() || failing != ["CEL-011"] {
            let _ = writeln!(differences, "{construct} costs {cost}: {passing:?}, with one item more {failing:?}");
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}
