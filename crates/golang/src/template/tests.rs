//! Comparison with answers recorded from Go, and hostile inputs.

#![expect(clippy::disallowed_macros, reason = "figures of a process for measuring")]

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use testing::timed;

/// Recorded as described in `fixtures/gotemplate/README.md`: first line the data, then a template and its result each.
const LANGUAGE: &str = include_str!("../../../../fixtures/gotemplate/lang.jsonl");
const SPRIG: &str = include_str!("../../../../fixtures/gotemplate/sprig.jsonl");
const NAMES: &str = include_str!("../../../../fixtures/gotemplate/names.jsonl");

/// The result of a template.
#[derive(Debug, PartialEq)]
enum RenderOutcome {
    Parse(String),
    Render(String),
    Output(String),
}

fn outcome(template: &str, data: &Value, functions: Functions) -> RenderOutcome {
    let template = match Template::parse("tpl", template, functions) {
        Ok(template) => template,
        Err(error) => return RenderOutcome::Parse(error.message),
    };
    let template = if functions == Functions::Builtin { template.with_missing_keys_as_errors() } else { template };
    match template.render(data, RenderLimits::default()) {
        Ok(output) => RenderOutcome::Output(output),
        Err(error) => RenderOutcome::Render(error.to_string()),
    }
}

fn recorded(vector: &Value) -> RenderOutcome {
    let text = |field: &str| vector[field].as_str().map(str::to_owned);
    match (text("parse"), text("exec"), text("output")) {
        // Go names the line only.
        (Some(error), _, _) => RenderOutcome::Parse(error.splitn(4, ':').nth(3).unwrap().trim_start().to_owned()),
        (_, Some(error), _) => RenderOutcome::Render(error),
        (_, _, output) => RenderOutcome::Output(output.unwrap()),
    }
}

/// Templates with intentionally different results, and the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("{{ template \"tpl\" }}", "our limit for templates that call each other is lower"),
    ("{{ call .s }}", "the message does not name the operand"),
    ("{{ printf \"%x\" .ln }}", "no hexadecimal floats"),
    ("{{ shuffle \"\" }}", "not deterministic (DEC-12)"),
    ("{{ (semver \"v1.2.3\").IncMajor.Original }}", "Go finds methods of pointers on pointers only"),
];

fn check(vectors: &str, functions: Functions) {
    let mut lines = vectors.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let data = lines.next().unwrap()["data"].clone();
    let mut wrong = Vec::new();
    for vector in lines {
        let template = vector["template"].as_str().unwrap();
        let (got, want) = (outcome(template, &data, functions), recorded(&vector));
        let is_different = DIFFERENT.iter().any(|(known, _)| *known == template);
        if (got == want) == is_different {
            wrong.push(format!("{template:?}\n   got {got:?}\n  want {want:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_language_is_that_of_go() {
    // TV-03, TV-07, TV-08, TV-09
    check(LANGUAGE, Functions::Sprig);
}

#[test]
fn functions_are_those_of_sprig() {
    // TV-04
    check(SPRIG, Functions::Sprig);
}

#[test]
fn names_have_no_functions_and_no_missing_keys() {
    // NAM-001, TPL-020
    check(NAMES, Functions::Builtin);
}

/// Sprig's hermetic set (TPL-011, TV-04), with `push` and `mustPush` and without what TV-05 leaves out (DEC-31).
#[test]
fn sprig_has_194_names_and_none_that_reads_the_environment() {
    let (all, builtin) = (Functions::Sprig.names(), Functions::Builtin.names());
    assert_eq!(builtin.len(), 19, "TPL-010: {builtin:?}");
    // Sprig's slice takes the place of Go's.
    let sprig = all.iter().filter(|name| !builtin.contains(name) || **name == "slice").count();
    assert_eq!(sprig, 194);
    let left_out = "now date date_in_zone dateInZone date_modify dateModify htmlDate htmlDateInZone randAlpha \
        randAlphaNum randAscii randNumeric randBytes uuidv4 env expandenv getHostByName toYaml include lookup tpl";
    for name in left_out.split(' ') {
        assert!(!all.contains(&name), "{name}");
    }
}

#[test]
fn functions_that_are_not_deterministic_parse_and_fail_when_rendered() {
    // DEC-12, TV-05
    for name in [
        "ago",
        "bcrypt",
        "buildCustomCert",
        "decryptAES",
        "derivePassword",
        "encryptAES",
        "genCA",
        "genCAWithKey",
        "genPrivateKey",
        "genSelfSignedCert",
        "genSelfSignedCertWithKey",
        "genSignedCert",
        "genSignedCertWithKey",
        "htpasswd",
        "randInt",
        "shuffle",
    ] {
        let error = outcome(&format!("{{{{ {name} 1 2 }}}}"), &json!({}), Functions::Sprig);
        let want = format!("error calling {name}: {name} is not deterministic and cannot be rendered");
        assert!(matches!(&error, RenderOutcome::Render(error) if error.ends_with(&want)), "{error:?}");
    }
}

#[test]
fn errors_have_line_and_column() {
    let parse = |text: &str| Template::parse("patch", text, Functions::Sprig).unwrap_err().to_string();
    assert_eq!(parse("a\n  {{ nosuch 1 }}"), "template: patch:2:5: function \"nosuch\" not defined");
    assert_eq!(parse("{{ $x }}"), "template: patch:1:3: undefined variable \"$x\"");
    assert_eq!(parse("x {{ .a"), "template: patch:1:7: unclosed action");
    let template = Template::parse("patch", "a\n{{ .s.x }}", Functions::Sprig).unwrap();
    let error = template.render(&json!({"s": "t"}), RenderLimits::default()).unwrap_err();
    assert_eq!((error.line, error.column, &*error.piece), (2, 5, ".s.x"));
}

#[test]
fn the_variables_of_a_template_are_listed() {
    // DEC-5
    let paths = |text: &str| -> Vec<String> {
        let template = Template::parse("t", text, Functions::Sprig).unwrap();
        template.fields().iter().map(|path| path.join("/")).collect()
    };
    for (text, want) in [
        ("{{ .a }}{{ .b.c }}{{ .a }}", vec!["a", "b/c"]),
        ("{{ if .a }}{{ $.b }}{{ else if .c }}{{ end }}", vec!["a", "b", "c"]),
        ("{{ with .a }}{{ .b }}{{ $.c }}{{ else }}{{ .d }}{{ end }}{{ .e }}", vec!["a", "a/b", "c", "d", "e"]),
        ("{{ range .a }}{{ .b }}{{ else }}{{ .c }}{{ end }}{{ .d }}", vec!["a", "c", "d"]),
        ("{{ index . \"a-b\" \"c\" }}{{ index .d 0 }}{{ get .e \"f\" }}", vec!["a-b/c", "d", "e", "e/f"]),
        ("{{ (.a).b | printf \"%s%s\" .c }}{{ (index .d \"e\").f }}", vec!["a", "a/b", "c", "d", "d/e", "d/e/f"]),
        ("{{ define \"x\" }}{{ .y }}{{ $.z }}{{ end }}{{ template \"x\" .a }}", vec!["a", "a/y", "a/z"]),
        ("{{ define \"x\" }}{{ template \"x\" .y }}{{ end }}{{ template \"x\" 1 }}", vec![]),
        ("{{ .a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r }}", vec!["a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p"]),
        ("{{ block \"x\" . }}{{ .y }}{{ end }}{{ $v := .q }}{{ $v.w }}", vec!["q", "y"]),
        ("text", vec![]),
    ] {
        assert_eq!(paths(text), want, "{text}");
    }
}

#[test]
fn a_template_that_uses_its_whole_data_lists_no_variables() {
    for (text, tells) in [
        ("{{ .a }}{{ $.b.c }}{{ index . \"d\" }}{{ get $ \"e\" }}", true),
        ("{{ with . }}{{ .a }}{{ end }}{{ if . }}{{ .b }}{{ end }}", true),
        ("{{ define \"x\" }}{{ .a }}{{ end }}{{ template \"x\" . }}{{ block \"y\" . }}{{ .b }}{{ end }}", true),
        ("{{ range .a }}{{ . }}{{ end }}{{ toJson .a }}{{ index .a .b }}", true),
        ("text", true),
        ("{{ . }}", false),
        ("{{ $ }}", false),
        ("{{ (.) }}", false),
        ("{{ toJson . }}", false),
        ("{{ . | toJson }}", false),
        ("{{ $v := . }}{{ $v.a }}", false),
        ("{{ range . }}{{ end }}", false),
        ("{{ index . .a }}", false),
        ("{{ index . }}", false),
        ("{{ get . .a }}", false),
        ("{{ index .a . }}", false),
        ("{{ with . }}{{ toJson . }}{{ end }}", false),
        ("{{ define \"x\" }}{{ toJson . }}{{ end }}{{ template \"x\" . }}", false),
        ("{{ define \"x\" }}{{ toJson . }}{{ end }}{{ template \"x\" .a }}", true),
    ] {
        let template = Template::parse("t", text, Functions::Sprig).unwrap();
        assert_eq!(template.all_fields().is_some(), tells, "{text}");
        assert!(template.all_fields().is_none_or(|fields| fields == template.fields()), "{text}");
    }
}

#[test]
fn an_output_with_no_value_is_reported() {
    // DEC-5
    for (text, shows) in [("{{ .a }}", false), ("{{ .b }}", true), ("x{{ .b.c }}", true), ("{{ not .b }}", false)] {
        let template = Template::parse("t", text, Functions::Sprig).unwrap();
        let rendered = template.evaluate(&json!({"a": 1}), RenderLimits::default()).unwrap();
        assert_eq!(rendered.shows_no_value, shows, "{text}");
    }
}

#[test]
fn a_template_is_shared_between_threads() {
    let template = Template::parse("t", "{{ .n | int | add1 }}", Functions::Sprig).unwrap();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let template = &template;
            scope.spawn(move || {
                let output = template.render(&json!({"n": n}), RenderLimits::default());
                assert_eq!(output.unwrap(), (n + 1).to_string());
            });
        }
    });
}

#[test]
fn rendering_leaves_the_data_alone_and_is_repeatable() {
    let template =
        Template::parse("t", "{{ $_ := set .m \"z\" 1 }}{{ .m }}{{ keys .m }}{{ values .m }}", Functions::Sprig)
            .unwrap();
    let data = json!({"m": {"b": 1, "a": "x"}});
    let before = data.clone();
    for _ in 0..3 {
        assert_eq!(template.render(&data, RenderLimits::default()).unwrap(), "map[a:x b:1 z:1][a b z][x 1 1]");
    }
    assert_eq!(data, before);
}

/// Time limit for parsing or rendering a template. A build without optimisation is some thirty times slower.
const PATIENCE: Duration = Duration::from_millis(if cfg!(debug_assertions) { 3000 } else { 100 });

/// Runs on half the stack of a worker thread; returns the duration.
fn on_a_small_stack(text: String) -> (RenderOutcome, Duration) {
    let run = move || {
        let data = json!({"s": "x".repeat(1000)});
        let ((), looked) = timed(|| {
            if let Ok(template) = Template::parse("tpl", &text, Functions::Sprig) {
                template.fields();
            }
        });
        let (outcome, rendered) = timed(|| outcome(&text, &data, Functions::Sprig));
        (outcome, looked.max(rendered))
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap()
}

#[test]
fn hostile_templates_fail_fast() {
    let nested = |open: &str, count: usize, close: &str| format!("{}{}", open.repeat(count), close.repeat(count));
    let mut wrong = Vec::new();
    let loops = "{{ range until 100 }}".repeat(4) + "x" + &"{{ end }}".repeat(4);
    for (text, want) in [
        (format!("{{{{ {} }}}}", nested("(", 50_000, ")")), "is longer than 65536"),
        (format!("{{{{ {} }}}}", nested("(", 32_000, ")")), "max expression depth exceeded"),
        (format!("{{{{ {}1{} }}}}", "(print ".repeat(101), ")".repeat(101)), "max expression depth exceeded"),
        (format!("{{{{ if 1 }}}}{}{{{{ end }}}}", "{{else if 1}}".repeat(20_000)), "is longer than 65536"),
        (format!("{{{{ if 1 }}}}{}{{{{ end }}}}", "{{else if 1}}".repeat(4000)), "nest deeper than 1000"),
        (nested("{{if 1}}", 4000, "{{end}}"), "nest deeper than 1000"),
        (nested("{{block `a` 1}}", 2500, "{{end}}"), "nest deeper than 1000"),
        ("x".repeat(2 << 20), "is longer than 65536"),
        ("{{ define `a` }}{{ template `a` }}{{ end }}{{ template `a` }}".into(), "exceeded maximum template depth"),
        ("{{ define `a` }}{{ template `a` }}{{ template `a` }}{{ end }}{{ template `a` }}".into(), "maximum template"),
        ("{{ $x := .s }}{{ range until 100 }}{{ $x = print $x $x }}{{ end }}".into(), "exceed the limit"),
        ("{{ $x := .s }}{{ range until 100 }}{{ $x = cat $x $x }}{{ end }}".into(), "exceed the limit"),
        ("{{ $x := list 1 }}{{ range until 100 }}{{ $x = concat $x $x }}{{ end }}".into(), "exceed the limit"),
        ("{{ $x := list 1 }}{{ range until 1000 }}{{ $x = list $x $x }}{{ end }}{{ $x }}".into(), "exceed the limit"),
        ("{{ $x := 1 }}{{ range until 500 }}{{ $x = list $x }}{{ end }}{{ $x }}".into(), "exceed the limit"),
        ("{{ $x := 1 }}{{ range until 500 }}{{ $x = dict `a` $x }}{{ end }}{{ toJson $x }}".into(), "exceed the limit"),
        ("{{ $x := 1 }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}{{ deepEqual $x $x }}".into(), "exceed"),
        ("{{ $x := 1 }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}{{ deepCopy $x }}".into(), "exceed"),
        ("{{ set . `self` . }}".into(), "levels of a value to print exceed the limit of 200"),
        ("{{ $_ := set . `self` . }}{{ toJson . }}".into(), ""),
        ("{{ $_ := set . `self` . }}{{ deepCopy . }}".into(), "exceed the limit"),
        ("{{ $_ := set . `self` . }}{{ merge . (dict `self` .) }}".into(), "exceed the limit"),
        (loops, "steps exceed the limit"),
        ("{{ range 1000000000000 }}{{ end }}".into(), "steps exceed the limit"),
        ("{{ printf `%999999999d` 1 }}".into(), "width and precision exceed the limit"),
        ("{{ printf `%.999999999f` 1.0 }}".into(), "width and precision exceed the limit"),
        ("{{ printf `%*d` 1000000 1 }}".into(), "width and precision exceed the limit"),
        (format!("{{{{ printf `{}` }}}}", "%60000[1]d".repeat(500)).replace("` }}", "` 1 }}"), "exceed the limit"),
        ("{{ repeat 1000000000 `x` }}".into(), "bytes of work exceed the limit"),
        ("{{ repeat 9223372036854775807 .s }}".into(), "bytes of work exceed the limit"),
        ("{{ indent 1000000000 `x` }}".into(), "exceed the limit"),
        ("{{ nindent 10000 (repeat 5000 `\n`) }}".into(), "exceed the limit"),
        ("{{ replace `` .s (repeat 100000 `x`) }}".into(), "exceed the limit"),
        ("{{ join .s (until 20000) }}".into(), "exceed the limit"),
        ("{{ untilStep 0 9223372036854775807 1 }}".into(), "numbers in a row exceed the limit"),
        ("{{ until 9223372036854775807 }}".into(), "numbers in a row exceed the limit"),
        ("{{ seq 1 9223372036854775807 }}".into(), "numbers in a row exceed the limit"),
        ("{{ $x := repeat 1000000 `x ` }}{{ range until 100 }}{{ $_ := nospace $x }}{{ end }}".into(), "exceed"),
        ("{{ $x := repeat 1000000 `x ` }}{{ range until 100 }}{{ $_ := sha512sum $x }}{{ end }}".into(), "exceed"),
        ("{{ wrapWith 1 .s (repeat 100000 `x`) }}".into(), "exceed the limit"),
        ("{{ regexMatch `((a{1,100}){1,10}){1,10}` `a` }}".into(), ""),
        ("{{ mustRegexMatch `(\\pL{1,50}){1,19}` `a` }}".into(), "compiles to more than"),
        ("{{ range $i := until 10000 }}{{ $_ := regexMatch (print `x` $i) `a` }}{{ end }}".into(), "exceed the limit"),
        ("{{ regexReplaceAll `` (repeat 1000000 `x`) .s }}".into(), "exceed the limit"),
        ("{{ regexSplit `` (repeat 1000000 `x`) -1 }}".into(), "exceed the limit"),
        ("{{ splitList `` (repeat 1000000 `x`) }}".into(), "exceed the limit"),
        ("{{ uniq (until 40000) }}".into(), "steps exceed the limit"),
        ("{{ semverCompare (repeat 1000 `1 - `) `1` }}".into(), "longer than"),
        (format!("{{{{ range until 40000 }}}}{{{{ $._{} }}}}{{{{ end }}}}", ".a".repeat(32_000)), "steps exceed"),
        (format!("{}{{{{ range 1000000 }}}}{{{{ $ }}}}{{{{ end }}}}", "{{$x:=1}}".repeat(7000)), "exceed the limit"),
        (
            format!("{{{{ range until 9 }}}}{{{{ $_ := keys{} }}}}{{{{ end }}}}", " $".repeat(30_000)),
            "exceed the limit",
        ),
        (format!("{{{{ $s := repeat 4000000 `x` }}}}{{{{ cat{} }}}}", " $s".repeat(20_000)), "exceed the limit"),
        (format!("{{{{ $s := repeat 4000000 `x` }}}}{{{{ dict{} }}}}", " $s".repeat(20_000)), "exceed the limit"),
        (
            format!(
                "{{{{ range 100000 }}}}{{{{ $_ := semverCompare `{}` `1` }}}}{{{{ end }}}}",
                " ".repeat(1000) + "1"
            ),
            "exceed",
        ),
        ("{{ $l := list (repeat 300000 `x`) }}{{ eq $l $l }}".into(), "non-comparable type [xxx"),
        (format!("{{{{ {} }}}}", "x".repeat(60_000)), "function \"xxx"),
        ("{{ range until 2000 }}{{ $.s }}{{ end }}".into(), "bytes of output exceed the limit"),
        (format!("{{{{ {} }}}}", "$x := 1 | ".repeat(6000)), ""),
        (format!("{{{{ 1{} }}}}", " | print".repeat(8000)), ""),
        ("{{1}}".repeat(13_000), ""),
        (format!("{{{{ print{} }}}}", " 1".repeat(32_000)), ""),
        (format!("{{{{ .a{} }}}}", ".a".repeat(32_000)), ""),
    ] {
        let shown: String = text.chars().take(80).collect();
        let (outcome, took) = on_a_small_stack(text);
        match outcome {
            RenderOutcome::Parse(error) | RenderOutcome::Render(error)
                if error.contains(want) && error.len() < 3000 => {}
            RenderOutcome::Output(_) if want.is_empty() => {}
            other => wrong.push(format!("{shown}: {}", format!("{other:?}").chars().take(300).collect::<String>())),
        }
        if std::env::var_os(ALONE).is_some() {
            println!("{took:?} {shown}");
        }
        if took > PATIENCE {
            wrong.push(format!("{shown} took {took:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if std::env::var_os(ALONE).is_some() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        println!("{peak}");
    }
}

/// Set for the process that runs only the hostile inputs.
const ALONE: &str = "TOPOLOGIST_TEST_ALONE";

/// 64 MB, with what the test program takes itself.
#[test]
fn hostile_templates_take_little_memory() {
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "template::tests::hostile_templates_fail_fast"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&run.stdout).into_owned();
    let peak = printed.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_else(|| panic!("{printed}"));
    let kilobytes: usize = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 64_000, "{kilobytes} kB");
}

#[test]
fn output_is_read_as_yaml() {
    // TV-10, TV-12, PE-16
    let read = |text: &str| {
        let template = Template::parse("t", text, Functions::Sprig).unwrap();
        template
            .render_value(&json!({"n": 1e6, "s": "a: b"}), RenderLimits::default())
            .map_err(|error| error.to_string())
    };
    for (text, want) in [
        ("{{ .n }}", json!(1_000_000)),
        ("x-{{ .n }}", json!("x-1e+06")),
        ("{{ .missing }}", json!("<no value>")),
        ("{{ if false }}x{{ end }}", json!(null)),
        ("{{ eq 1 1 }}", json!(true)),
        ("a: [{{ .n }}, {{ .s | quote }}]", json!({"a": [1_000_000, "a: b"]})),
    ] {
        assert_eq!(read(text), Ok(want), "{text}");
    }
    assert!(read("{{ .s.x }}").unwrap_err().starts_with("template: t:1:5:"));
    assert!(read("@").unwrap_err().starts_with("template: t: output is not YAML: 1:1:"));
}

#[test]
fn ordinary_nesting_is_accepted() {
    let chain = format!("{{{{ if 0 }}}}a{}{{{{ else }}}}last{{{{ end }}}}", "{{ else if 0 }}b".repeat(300));
    let nested = format!("{}x{}", "{{ if 1 }}".repeat(150), "{{ end }}".repeat(150));
    let parentheses = format!("{{{{ {}1{} }}}}", "(print ".repeat(99), ")".repeat(99));
    for (text, want) in [(chain, "last"), (nested, "x"), (parentheses, "1")] {
        assert_eq!(on_a_small_stack(text).0, RenderOutcome::Output(want.into()));
    }
}

#[test]
fn templates_of_providers_parse() {
    // PAT-004, PAT-018
    let mut templates = Vec::new();
    for pattern in ["providers", "quick-start"] {
        collect(&testing::fixture(pattern), &mut templates);
    }
    assert!(templates.len() > 20, "{}", templates.len());
    for text in templates {
        assert!(Template::parse("patch", &text, Functions::Sprig).is_ok(), "{text}");
    }
}

/// The templates in all YAML files of a folder.
fn collect(folder: &std::path::Path, templates: &mut Vec<String>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            collect(&path, templates);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(&path).unwrap();
            for document in crate::yaml::documents(&text) {
                in_value(&document.unwrap().value, templates);
            }
        }
    }
}

fn in_value(value: &Value, templates: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| in_value(item, templates)),
        Value::Object(members) => members.iter().for_each(|(key, member)| match member {
            Value::String(text) if matches!(key.as_str(), "template" | "enabledIf") => templates.push(text.clone()),
            member => in_value(member, templates),
        }),
        _ => {}
    }
}

/// Pieces of templates, valid and invalid.
const PIECES: [&str; 60] = [
    "{{",
    "}}",
    "{{-",
    "-}}",
    " ",
    "\n",
    ".",
    ".a",
    ".b.c",
    "$",
    "$x",
    ":=",
    "=",
    "|",
    "(",
    ")",
    ",",
    "\"",
    "`",
    "'a'",
    "if ",
    "else ",
    "end",
    "range ",
    "with ",
    "define ",
    "block ",
    "template ",
    "break",
    "continue",
    "nil",
    "true",
    "0",
    "1",
    "-1",
    "1.5",
    "0x",
    "1i",
    "print ",
    "printf ",
    "index ",
    "len ",
    "slice ",
    "eq ",
    "lt ",
    "and ",
    "or ",
    "quote ",
    "list ",
    "dict ",
    "set ",
    "merge ",
    "regexReplaceAll ",
    "semver ",
    "substr ",
    "trunc ",
    "é",
    "%*d",
    "/*",
    "*/",
];

proptest! {
    #[test]
    fn no_input_panics(pieces in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        let text: String = pieces.into_iter().map(|index| PIECES[index]).collect();
        let data = json!({"a": [1, "x", null], "b": {"c": {"d": 1.5}}, "s": "é"});
        outcome(&text, &data, Functions::Sprig);
        outcome(&format!("{{{{ {text} }}}}"), &data, Functions::Builtin);
    }

    #[test]
    fn no_function_panics(
        name in proptest::sample::select(Functions::Sprig.names()),
        arguments in proptest::collection::vec(
            proptest::sample::select(vec![
                "nil", ".n", ".zz", "0", "1", "-1", "3", "9223372036854775807", "-9223372036854775808", "1.5", "1e300",
                "\"\"", "\"é\"", "\"a b\"", "\"(\"", "\"%5.3q%[9]d%*v\"", "\"$1${x\"", "true", "false", ".l", ".m", ".",
                "(list)", "(dict)", "(until 3)", "(split \",\" \"a,b\")", "(semver \"1.2.3\")",
                "(splitList \"\" \"é,\")",
                "(toDate \"2006\" \"2020\")", "(rest (list))", "1i", "(chunk 1 .l)", "\"2006-01-02T15:04\"", "\"1h\"",
            ]),
            0..5,
        ),
    ) {
        let data = json!({"n": null, "l": [1, "é", null, [2]], "m": {"a": {"b": 1}, "é": "x"}});
        outcome(&format!("{{{{ {name} {} }}}}", arguments.join(" ")), &data, Functions::Sprig);
    }

    #[test]
    fn parsing_any_text_does_not_panic(text in "\\PC*") {
        outcome(&text, &json!({}), Functions::Sprig);
    }
}

#[test]
fn output_that_is_no_yaml_or_cuts_a_character_is_no_value() {
    // TV-10
    let value = |text: &str, data: Value| {
        Template::parse("t", text, Functions::Sprig).unwrap().render_value(&data, RenderLimits::default())
    };
    let name = json!({"s": "aé"});
    for (text, cut) in [("{{ trunc 2 .s }}", true), ("{{ substr 0 2 .s }}", true), ("''q''", false), ("'a' b", false)] {
        let error = value(text, name.clone()).unwrap_err();
        assert_eq!(matches!(error, ValueError::NotUtf8 { .. }), cut, "{text}: {error}");
    }
    for (text, data, want) in [
        ("{{ trunc 3 .s }}", name.clone(), "aé"),
        ("{{ if eq (trunc 2 .s) \"a\" }}same{{ else }}other{{ end }}", name, "other"),
        ("{{ .s }}", json!({"s": "\u{fffd}"}), "\u{fffd}"),
        ("\u{fffd}{{ \"\\ufffd\" }}", json!({}), "\u{fffd}\u{fffd}"),
    ] {
        assert_eq!(value(text, data).unwrap(), json!(want), "{text}");
    }
}
