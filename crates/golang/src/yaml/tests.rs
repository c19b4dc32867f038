use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{documents, value};

/// A text and Go's result (`YAMLToJSON` of sigs.k8s.io/yaml v1.4.0).
#[derive(Deserialize)]
struct YamlVector {
    text: String,
    #[serde(default)]
    value: Value,
    error: Option<String>,
}

#[test]
fn texts_read_as_in_go() {
    let vectors = include_str!("../../../../fixtures/yaml/vectors.jsonl");
    let differences: Vec<String> = vectors
        .lines()
        .map(|line| serde_json::from_str::<YamlVector>(line).unwrap())
        .filter_map(|YamlVector { text, value: want, error }| match (value(&text), error) {
            (Ok(got), None) if got == want => None,
            (Err(_), Some(_)) => None,
            (got, None) => Some(format!("{text:?}: {got:?}, not {want}")),
            (got, Some(error)) => Some(format!("{text:?}: {got:?}, not {error}")),
        })
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(vectors.lines().count() > 500);
}

#[test]
fn a_template_may_answer_in_any_of_these_ways() {
    for (case, text, want) in [
        ("nothing", "", json!(null)),
        ("blanks and a comment", "\n  # none\n", json!(null)),
        ("only the first document", "a: 1\n---\nb: [", json!({"a": 1})),
        ("mark and carriage returns", "\u{feff}a: yes\r\nb: |\r\n  c\r\n", json!({"a": true, "b": "c\n"})),
        ("no break at the end", "a: |\n  b\n  c", json!({"a": "b\nc"})),
        ("folded at the end", "a: >\n  b\n  c", json!({"a": "b c"})),
        ("keys of all types", "y: 1\n0x10: 2\n1.50: 3\n1e6: 4\n", json!({"true": 1, "16": 2, "1.5": 3, "1e+06": 4})),
        ("later key wins", "a: 1\na: {b: 2}\n", json!({"a": {"b": 2}})),
        (
            "merge before",
            "x: &x {a: 1, b: 1}\nz: {<<: *x, b: 2}\n",
            json!({"x": {"a": 1, "b": 1}, "z": {"a": 1, "b": 2}}),
        ),
        (
            "merge behind",
            "x: &x {a: 1, b: 1}\nz: {b: 2, <<: *x}\n",
            json!({"x": {"a": 1, "b": 1}, "z": {"a": 1, "b": 1}}),
        ),
        ("merge of two", "<<: [{a: 1}, {a: 2, b: 2}]\n", json!({"a": 1, "b": 2})),
        (
            "quoted text goes on at the left",
            "a:\n  b: \"c\nd\n\n  e\"\nf: 'g\n\th'\n",
            json!({"a": {"b": "c d\ne"}, "f": "g h"}),
        ),
        ("json with tabs", "a: {\n\t\"b\": [\n\t\t\"c\"\n\t]\n}\n", json!({"a": {"b": ["c"]}})),
        (
            "big numbers",
            "[18446744073709551615, 18446744073709551616, 1e999]",
            json!([u64::MAX, 18_446_744_073_709_551_616.0, "1e999"]),
        ),
    ] {
        assert_eq!(value(text).unwrap(), want, "{case}");
    }
}

#[test]
fn errors_say_what_and_where() {
    for (text, line, column, message) in [
        ("a: .inf", 1, 4, "json: unsupported value: +Inf"),
        ("a:\n  - 1\n  - -.INF", 3, 5, "json: unsupported value: -Inf"),
        ("a: 1\n~: 2", 2, 1, "unsupported map key of type: null"),
        ("18446744073709551615: x", 1, 1, "unsupported map key of type: uint64, key: 18446744073709551615"),
        ("a: 1\n? [b]\n: c", 2, 3, "invalid map key: not a scalar"),
        ("a: !!int x", 1, 10, "cannot decode !!str `x` as a !!int"),
        ("a: !!binary \"%\"", 1, 13, "!!binary value contains invalid base64 data"),
        ("a: 1\n<<: 2", 2, 5, "map merge requires map or sequence of maps as the value"),
        ("a: &x\n  b: *x", 2, 6, "anchor 'x' value contains itself"),
        ("%YAML 1.2\n--- a", 2, 1, "found incompatible YAML document"),
        ("a:\n\t- 1", 2, 2, "found character that cannot start any token: a tab"),
        ("a: \"b\nc\"\nd: .nan\n", 3, 4, "json: unsupported value: NaN"),
        ("a: [\n\t.nan]", 2, 2, "json: unsupported value: NaN"),
    ] {
        let error = value(text).unwrap_err();
        assert_eq!((error.line, error.column, error.message.as_str()), (line, column, message), "{text:?}");
    }
    for (text, line) in
        [("a: [1, 2", 1), ("\na: \"x", 2), ("a: b: c", 1), ("a: 1\nb: *x", 2), ("b:\n  - c\n d: 2\n", 3), ("@", 1)]
    {
        let error = value(text).unwrap_err();
        assert!(error.column >= 1 && !error.message.is_empty(), "{text:?} {error}");
        assert_eq!(error.line, line, "{text:?} {error}");
    }
}

#[test]
fn alias_bombs_are_rejected() {
    let list = |of: &str, times: usize| format!("[{}]", vec![of; times].join(", "));
    let mut wide = format!("a0: &a0 {}\n", list("x", 9));
    let mut deep = "a0: &a0 [x]\n".to_owned();
    let mut merged = "a0: &a0 {x: 1}\n".to_owned();
    for i in 1..300 {
        let alias = format!("*a{}", i - 1);
        wide.push_str(&format!("a{i}: &a{i} {}\n", list(&alias, 9)));
        deep.push_str(&format!("a{i}: &a{i} [{alias}]\n"));
        merged.push_str(&format!("a{i}: &a{i} {{<<: {}, k{i}: 1}}\n", list(&alias, 9)));
    }
    let long = format!("a: &a {}\nb: {}\n", "x".repeat(1 << 20), list("*a", 400));
    for (case, text, words) in [
        ("wide", wide, "excessive aliasing"),
        ("deep", deep, "max depth"),
        ("merged", merged, "excessive aliasing"),
        ("long", long, "excessive aliasing"),
        ("lists", "[".repeat(1_000_000), ""),
        ("mappings", "{a: ".repeat(100_000), ""),
        ("dashes", "- ".repeat(100_000), ""),
        ("levels", (0..2_000).map(|level| format!("{}a:\n", " ".repeat(level))).collect(), ""),
        ("lines to move", format!("a: \"{}\"", "b\n".repeat(20_000)), "indentation"),
        ("questions", "? ".repeat(100_000), ""),
    ] {
        let error = value(&text).unwrap_err();
        assert!(error.message.contains(words), "{case}: {error}");
        assert!(documents(&text).iter().any(Result::is_err), "{case}");
    }
}

#[test]
fn ordinary_files_may_be_large_and_repeat_themselves() {
    let aliases = format!("base: &base {{cpu: 1, memory: 2Gi}}\nall:\n{}", "- *base\n".repeat(500));
    assert_eq!(value(&aliases).unwrap()["all"].as_array().unwrap().len(), 500);
    let merges = (0..500)
        .fold("base: &base {cpu: 1, memory: 2Gi}\n".to_owned(), |text, i| text + &format!("n{i}:\n  <<: *base\n"));
    assert_eq!(value(&merges).unwrap()["n499"], json!({"cpu": 1, "memory": "2Gi"}));
    let nested = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    assert!(value(&nested).is_ok());
    let text = "x".repeat(4 << 20);
    assert_eq!(value(&format!("a: {text}")).unwrap()["a"], json!(text));
    let entries: String = (0..50_000).map(|i| format!("key{i}: [a, {i}]\n")).collect();
    assert_eq!(value(&entries).unwrap().as_object().unwrap().len(), 50_000);
}

proptest! {
    #[test]
    fn any_text_gives_a_value_or_an_error(pieces in prop::collection::vec(piece(), 0..24)) {
        let text = pieces.concat();
        let _ = documents(&text);
        if let Err(error) = value(&text) {
            let lines = text.split(['\n', '\r']).count();
            prop_assert!(error.line >= 1 && error.line <= lines + 1 && error.column >= 1, "{text:?} {error}");
        }
    }
}

fn piece() -> impl Strategy<Value = String> {
    let soup = [
        "a", "1", "é", ": ", "- ", "? ", ", ", "[", "]", "{", "}", "\n", "\n  ", "\n\t", "\r\n", "\"", "'", "|",
        ">-\n", " # ", "&x ", "*x", "! ", "!!int ", "%", "@", "\n---\n", "\n...\n", "\t", " ", "\\", "~", "<<: ",
        ".5_", "0x",
    ];
    prop_oneof![9 => prop::sample::select(soup.map(str::to_owned).to_vec()), 1 => any::<char>().prop_map(String::from)]
}

fn values(text: &str) -> Vec<(usize, Value)> {
    documents(text)
        .into_iter()
        .map(|document| document.unwrap())
        .map(|document| (document.line, document.value))
        .collect()
}

#[test]
fn documents_are_cut_at_their_markers_and_keep_their_lines() {
    let text = "# first\n\na: 1\n---\n---\n# only a comment\n--- {b: 2}\n---\ntext: |\n  line\n  ---\nc: yes\n";
    assert_eq!(
        values(text),
        [(3, json!({"a": 1})), (7, json!({"b": 2})), (9, json!({"text": "line\n---\n", "c": true}))]
    );
    assert_eq!(
        values("\u{feff}%YAML 1.1\n# c\n---\r\na: 1\r\n...\r\n\r\nb: 2\r\n...\n%YAML 1.1\n--- |\n c"),
        [(4, json!({"a": 1})), (7, json!({"b": 2})), (10, json!("c\n"))]
    );
    assert!(documents("").is_empty() && documents("# nothing\n---\n").is_empty());
}

#[test]
fn directives_belong_to_the_document_behind_them() {
    let text = "%TAG !y! tag:yaml.org,2002:\n--- !y!str 1\n---\n# no more\n!y!str 1\n";
    let read = documents(text);
    assert_eq!(read[0].as_ref().unwrap().value, json!("1"));
    assert_eq!(read[1].as_ref().unwrap_err().line, 5);
}

#[test]
fn json_texts_are_documents_too() {
    assert_eq!(values("{\"a\":\n1}\n\n{\"b\": 2}"), [(1, json!({"a": 1})), (4, json!({"b": 2}))]);
    assert_eq!(values("{a: 1, b: [x]}"), [(1, json!({"a": 1, "b": ["x"]}))]);
}

#[test]
fn a_broken_document_is_reported_with_its_place_and_spares_the_others() {
    let read = documents("a: 1\n---\nb:\n  - c\n d: 2\n---\ne: 3\n---\n\nf: .inf\n");
    let lines: Vec<usize> = read.iter().filter_map(|read| read.as_ref().err()).map(|error| error.line).collect();
    assert_eq!((lines, read.len()), (vec![5, 10], 4));
    assert!(read[0].is_ok() && read[2].is_ok());
}
