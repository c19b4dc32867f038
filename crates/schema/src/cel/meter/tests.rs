//! Hostile rules and values: evaluation ends in time and never panics.

#![expect(clippy::disallowed_macros, reason = "figures of a process for measuring")]

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::budget::Stop;
use crate::cel::check::{PatternError, ResultType, compile};
use crate::cel::meter::{PER_ELEMENT, PER_ENTRY};
use crate::cel::types::Decl;
use crate::cel::value::Val;
use crate::openapi::{Schema, SchemaDefinition};
use golang::regexp::Regex;
use testing::timed;

fn schema(mut schema: Value, rule: &str) -> Schema {
    schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
    Schema::compile(&serde_json::from_value::<SchemaDefinition>(schema).unwrap()).unwrap()
}

/// Runs on a thread with the stack size of a worker.
fn on_a_small_stack<R: Send + 'static>(act: impl FnOnce() -> R + Send + 'static) -> R {
    std::thread::Builder::new().stack_size(2 << 20).spawn(act).unwrap().join().unwrap()
}

/// Time limit of an evaluation. A build without optimisation is some thirty times slower.
const PATIENCE: Duration = Duration::from_millis(if cfg!(debug_assertions) { 10_000 } else { 100 });

#[test]
fn no_rule_blocks_a_thread() {
    // CEL-026
    let numbers = json!({"type": "array", "items": {"type": "integer"}});
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let many: Value = (0..200_000).collect();
    let words: Value = (0..50_000).map(|i| format!("{i:020}")).collect();
    let long = json!(["é".repeat(1_400_000), "a".repeat(1000)]);
    for (case, kind, rule, value) in [
        ("three nested loops", &numbers, "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))", &many),
        ("nested lists", &numbers, "self.map(a, self.map(b, self.map(c, [a, b, c]))).size() > 0", &many),
        ("sizes of a long text", &texts, "lists.range(100000).all(i, size(self[0]) > 0)", &long),
        ("doubling", &texts, "self.all(a, (a + a + a + a).size() + (a + a).replace('a', a).size() > 0)", &long),
        ("replacement", &texts, "self[1].replace('', self[0]).replace('', self[0]).size() > 0", &long),
        ("characters", &texts, "self[0].split('').map(c, self[0].split('')).size() > 0", &long),
        ("each with each", &texts, "self.distinct().size() > 0", &words),
        ("sets", &texts, "sets.equivalent(self, self.reverse())", &words),
        ("sorting", &texts, "lists.range(1000).all(i, self.sort().size() > 0)", &words),
        ("range", &numbers, "lists.range(9223372036854775807).size() > 0", &many),
        ("patterns", &texts, r"self.all(a, ('b' + a).matches('(x+x+)+y[' + a + ']{100}'))", &words),
        ("searches", &texts, r"lists.range(1000).all(i, !self[0].matches('(é|a)*(é|a){20}x'))", &long),
        ("maps", &texts, "self.all(a, self.map(b, {b: a}).size() > 0)", &words),
        ("formats", &texts, "self.all(a, '%s'.format([self]).size() > 0)", &words),
        ("precision", &numbers, "self.all(a, '%.1000f %.1000f'.format([1.0, 2.0]) != '')", &many),
        ("equality", &texts, "lists.range(100000).all(i, self == self)", &words),
        ("quantities", &texts, "lists.range(1000).all(i, isQuantity(self[1]) || true)", &long),
    ] {
        let (compiled, value) = (schema(kind.clone(), rule), value.clone());
        let (violations, taken) = on_a_small_stack(move || timed(|| compiled.rule_violations(&value, None)));
        if std::env::var_os("TOPOLOGIST_TEST_ALONE").is_some() {
            println!("{taken:?} {case}");
        }
        assert!(taken < PATIENCE, "{case} took {taken:?}");
        assert!(violations.iter().all(|violation| violation.rule != "CEL-024"), "{case}: {violations:?}");
    }
}

#[test]
fn elements_and_entries_take_about_the_counted_memory() {
    // DEC-44
    assert!(size_of::<Val<'_>>() <= PER_ELEMENT && 2 * size_of::<Val<'_>>() <= PER_ENTRY / 3);
}

/// Whether a rule on a value ended because it exceeded its budget.
fn exceeds(schema: Value, rule: &str, value: &Value) -> bool {
    let violations = self::schema(schema, rule).rule_violations(value, None);
    assert!(violations.iter().all(|violation| violation.rule == "CEL-026"), "{rule}: {violations:?}");
    !violations.is_empty()
}

#[test]
fn copies_of_texts_are_paid_for_by_length() {
    // CEL-026, DEC-44: each would keep 20,000 copies of the text, or compare, hash and count it as often.
    let (text, bytes) = (json!({"type": "string"}), json!({"type": "string", "format": "byte"}));
    let map = json!({"type": "object", "additionalProperties": {"type": "string", "format": "byte"}});
    let (plain, path) = (json!("x".repeat(60_000)), json!(format!("/{}", "x".repeat(60_000))));
    let encoded = json!("AAAA".repeat(15_000));
    for (kind, rule, value) in [
        (&text, "lists.range(20000).map(i, {self: i}).size() > 0", &plain),
        (&text, "lists.range(20000).all(i, !(self in {'a': 1}))", &plain),
        (&text, "lists.range(20000).all(i, self != 'x')", &plain),
        (&text, "[url(self)].all(u, lists.range(20000).map(i, u.getEscapedPath()).size() > 0)", &path),
        (&map, "lists.range(20000).map(i, self['a']).size() > 0", &json!({"a": encoded})),
        (&map, "lists.range(20000).all(i, self == {'a': b'x'} || true)", &json!({"a": encoded})),
    ] {
        assert!(exceeds(kind.clone(), rule, value), "{rule}");
        // A few repetitions are within the budget.
        assert!(!exceeds(kind.clone(), &rule.replace("20000", "20"), value), "{rule}");
    }
    let lists = json!({"type": "array", "items": bytes});
    let few = json!(["AAAA".repeat(10_000), "AAAA"]);
    for rule in ["self.reverse()", "[self[0]]"] {
        let rule = format!("lists.range(20000).map(i, {rule}).size() > 0");
        assert!(exceeds(lists.clone(), &rule, &few), "{rule}");
    }
}

#[test]
fn searches_are_paid_for_by_the_states_of_their_patterns() {
    // CEL-026: where an automaton gives up, each byte visits each state.
    let text = json!({"type": "string"});
    let (short, long) = (json!("a".repeat(60)), json!("a".repeat(60_000)));
    let many = format!("!self.matches('{}[^a]$')", "a{0,1000}".repeat(20));
    assert!(exceeds(text.clone(), &many, &long));
    let label = "lists.range(200).all(i, self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'))";
    assert!(!exceeds(text.clone(), label, &short));
    // Variant: short patterns known only at run time, which would all be cached.
    let made = r"lists.range(60).all(i, !'x'.matches('\\pL{9}' + string(i)))";
    assert!(exceeds(text.clone(), made, &short));
    let one = r"!'x'.matches('\\pL{200}' + self)";
    let violations = schema(text, one).rule_violations(&short, None);
    assert!(violations[0].rule == "CEL-025" && violations[0].detail.contains("too large"), "{violations:?}");
}

#[test]
fn an_evaluation_ends_when_the_time_is_over() {
    // DEC-44: a single rule can take long.
    let (polls, limit) = (std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0)), 5);
    let stop = Stop::when({
        let polls = polls.clone();
        move || polls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= limit
    });
    let compiled = schema(json!({"type": "string"}), "lists.range(300000).all(i, i >= 0)");
    compiled.rule_violations_until(&json!("x"), None, &stop);
    assert!(stop.has_stopped() && polls.load(std::sync::atomic::Ordering::Relaxed) == limit + 1);
}

#[test]
fn deep_expressions_fit_on_a_small_stack() {
    let nested = |open: &str, middle: &str, close: &str, count: usize| {
        format!("{}{middle}{}", open.repeat(count), close.repeat(count))
    };
    let numbers = json!({"type": "array", "maxItems": 2, "items": {"type": "integer"}});
    for rule in [
        nested("(", "true", ")", 110),
        nested("[", "1", "]", 110) + ".size() > 0",
        nested("self.all(x, ", "true", ")", 110),
        nested("{'a': ", "1", "}", 110) + ".size() > 0",
        nested("true ? ", "true", " : false", 60),
        format!("1{} > 0", " + 1".repeat(110)),
        format!("{} true", "!".repeat(4000)),
        vec!["true"; 20_000].join(" && "),
        nested("dyn(", "true", ")", 110) + " == true",
    ] {
        let compiled = schema(numbers.clone(), &rule);
        let violations = on_a_small_stack(move || compiled.rule_violations(&json!([1]), None));
        let shown = rule.chars().take(40).collect::<String>();
        assert!(violations.iter().all(|violation| violation.rule != "CEL-025"), "{shown}: {violations:?}");
    }
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "self",
        "oldSelf",
        ".",
        "a",
        "l",
        "m",
        "x",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "?",
        "+",
        "-",
        "*",
        "/",
        "%",
        "!",
        "==",
        "<",
        ">=",
        "&&",
        "||",
        " in ",
        "1",
        "1u",
        "1.5",
        "'t'",
        "b'x'",
        "true",
        "null",
        "size",
        "has",
        ".all(x, ",
        ".map(x, ",
        ".filter(x, ",
        ".exists(x, ",
        ".optMap(x, ",
        "optional.of(",
        "[?",
        ".?",
        "string(",
        "int(",
        "duration(",
        "timestamp(",
        "'é'",
        ".matches('",
        ".format([",
        ".split('",
        ".replace('', ",
        "type(",
        "dyn(",
        "9223372036854775807",
        "\\",
        "\"",
        "'",
        "`",
        "é",
        "\n",
        "//",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[almdty]", inner, 0..4).prop_map(|members| json!(members)),
        ]
    })
}

proptest! {
    #![proptest_config(testing::cases(2000))]

    #[test]
    fn no_rule_and_no_value_panics(rule in pieces(), value in values(), old in values()) {
        let object = json!({"type": "object", "properties": {
            "a": {"type": "string"}, "l": {"type": "array", "items": {"type": "integer"}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
            "d": {"type": "string", "format": "duration"}, "t": {"type": "string", "format": "date-time"},
            "y": {"type": "string", "format": "byte"}}});
        schema(object.clone(), &rule).rule_violations(&value, Some(&old));
        let decl = Decl::for_node(&serde_json::from_value(object).unwrap()).unwrap();
        let patterns = &mut |pattern: &str| Regex::new(pattern).map_err(|error| PatternError(error.to_string()));
        if let Err(mistake) = compile(&rule, &decl, ResultType::Bool, patterns) {
            mistake.with_context(&rule);
        }
    }

    #[test]
    fn functions_take_any_text_and_number(text in ".{0,12}", other in ".{0,4}", number in -3_i64..12) {
        let object = json!({"type": "object", "properties": {
            "a": {"type": "string"}, "b": {"type": "string"}, "n": {"type": "integer"}}});
        let value = json!({"a": text, "b": other, "n": number});
        for call in [
            "self.a.charAt(self.n) == ''", "self.a.indexOf(self.b, self.n) == 0", "self.a.lastIndexOf(self.b, self.n) == 0",
            "self.a.substring(self.n) == ''", "self.a.substring(self.n, self.n + 1) == ''",
            "self.a.replace(self.b, self.a, self.n) == ''", "self.a.split(self.b, self.n).size() == 0",
            "self.a.find(self.b) == ''", "self.a.findAll(self.b, self.n).size() == 0", "self.a.format([self.n, self.b]) == ''",
            "strings.quote(self.a) == ''", "isURL(self.a)", "url(self.a).getQuery().size() == 0", "isIP(self.a)", "isCIDR(self.a)",
            "isQuantity(self.a)", "isSemver(self.a, true)", "duration(self.a) == duration('1s')",
            "timestamp(self.a) > timestamp(0)", "timestamp(0).getHours(self.a) == 0", "int(self.a) == 1", "double(self.a) == 1.0",
            "format.uri().validate(self.a).hasValue()", "self.a.split('').slice(self.n, self.n + 2).size() == 0",
            "lists.range(self.n).size() == 0", "self.a.trim().lowerAscii() == ''", "timestamp(self.n * 90000000000) > timestamp(0)",
        ] {
            schema(object.clone(), call).rule_violations(&value, None);
        }
    }
}
