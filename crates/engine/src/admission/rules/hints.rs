//! Hints about templates that do not parse.

use golang::template::{Functions, ParseError};
use schema::field::closest;

/// Functions of Helm with their replacements here.
const OF_HELM: [(&str, &str); 6] = [
    ("toYaml", "toJson gives the same value as JSON, which is YAML"),
    ("fromYaml", "fromJson reads JSON"),
    ("include", "it belongs to Helm"),
    ("tpl", "it belongs to Helm"),
    ("lookup", "it belongs to Helm, and templates read nothing but variables"),
    ("required", "it belongs to Helm; required: true of a variable does the same"),
];

/// Functions of sprig that are not supported, because they return different values each time or read the environment.
const NOT_REPEATABLE: [&str; 17] = [
    "date",
    "date_in_zone",
    "date_modify",
    "now",
    "htmlDate",
    "htmlDateInZone",
    "dateInZone",
    "dateModify",
    "randAlphaNum",
    "randAlpha",
    "randAscii",
    "randNumeric",
    "randBytes",
    "uuidv4",
    "env",
    "expandenv",
    "getHostByName",
];

/// The known fix for `error` in `text`; `variables` are those that the template can read.
pub(super) fn template_hint<'a>(
    error: &ParseError,
    text: &str,
    functions: Functions,
    variables: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let message = &*error.message;
    let quoted = || message.split('"').nth(1);
    let at = || text.lines().nth(error.line.checked_sub(1)?)?.get(error.column..);
    if message.ends_with("not defined") {
        return function_hint(quoted()?, functions, variables);
    }
    let hint = match message {
        "bad character U+002D '-'" => "a name with a dash is read with index: {{ index . \"the-name\" }}",
        "unexpected EOF" => "an if, with, range, define or block lacks its {{ end }}",
        "unexpected \"}\" in operand" | "unclosed action" => "an action ends with }}",
        "unexpected \"&\" in operand" | "unexpected \"&\" in command" => "write {{ and .a .b }}",
        "unexpected \"=\" in operand" | "unexpected \"=\" in command" => "write {{ eq .a .b }}",
        "unexpected \"!\" in operand" | "unexpected \"!\" in command" => "write {{ ne .a .b }} or {{ not .a }}",
        "unexpected \"<\" in operand" | "unexpected \"<\" in command" => "write {{ lt .a .b }} or {{ le .a .b }}",
        "unexpected \">\" in operand" | "unexpected \">\" in command" => "write {{ gt .a .b }} or {{ ge .a .b }}",
        "unexpected \"%\" in operand" | "unexpected \"%\" in command" => {
            "texts stand in quotes: {{ printf \"%d\" .a }}"
        }
        "invalid syntax" if at().is_some_and(|rest| rest.starts_with('"')) => {
            "a backslash in double quotes begins an escape; in back quotes it is one"
        }
        _ if message == "invalid syntax" || message.starts_with("malformed character constant") => {
            "texts stand in double quotes or back quotes"
        }
        _ if message.starts_with("undefined variable") => {
            "a variable with $ is declared before, and in the same block; those of the ClusterClass are read with a dot"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

fn function_hint<'a>(name: &str, functions: Functions, mut variables: impl Iterator<Item = &'a str>) -> Option<String> {
    if variables.any(|variable| variable == name) || name == "builtin" {
        return Some(format!("variables are read with a dot: .{name}"));
    }
    if functions == Functions::Builtin && Functions::Sprig.names().contains(&name) {
        return Some("names know the functions of Go alone".to_owned());
    }
    if let Some((_, instead)) = OF_HELM.iter().find(|(known, _)| *known == name) {
        return Some((*instead).to_owned());
    }
    if NOT_REPEATABLE.contains(&name) {
        return Some("a template gives the same result every time".to_owned());
    }
    closest(name, functions.names()).map(|meant| format!("the closest function is {meant:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use golang::template::Template;

    #[test]
    fn errors_have_hints_what_to_write() {
        for (text, functions, want) in [
            ("{{ relpace .a }}", Functions::Sprig, "the closest function is \"replace\""),
            ("{{ size }}", Functions::Sprig, "variables are read with a dot: .size"),
            ("{{ builtin.cluster }}", Functions::Sprig, "variables are read with a dot: .builtin"),
            ("{{ .a | toYaml }}", Functions::Sprig, "toJson gives the same value as JSON, which is YAML"),
            ("{{ now }}", Functions::Sprig, "a template gives the same result every time"),
            ("{{ .a | lower }}", Functions::Builtin, "names know the functions of Go alone"),
            ("{{ .dns-tag }}", Functions::Sprig, "a name with a dash is read with index: {{ index . \"the-name\" }}"),
            ("{{ if .a }}", Functions::Sprig, "an if, with, range, define or block lacks its {{ end }}"),
            ("{{ .a }", Functions::Sprig, "an action ends with }}"),
            ("{{ .a && .b }}", Functions::Sprig, "write {{ and .a .b }}"),
            ("{{ .a == 1 }}", Functions::Sprig, "write {{ eq .a .b }}"),
            ("{{ !.a }}", Functions::Sprig, "write {{ ne .a .b }} or {{ not .a }}"),
            ("{{ .a > 1 }}", Functions::Sprig, "write {{ gt .a .b }} or {{ ge .a .b }}"),
            ("{{ .a < 1 }}", Functions::Sprig, "write {{ lt .a .b }} or {{ le .a .b }}"),
            ("{{ printf %d .a }}", Functions::Sprig, "texts stand in quotes: {{ printf \"%d\" .a }}"),
            ("a\n{{ eq .a '' }}", Functions::Sprig, "texts stand in double quotes or back quotes"),
            ("{{ eq .a 'ab' }}", Functions::Sprig, "texts stand in double quotes or back quotes"),
            (
                "{{ regexMatch \"\\s\" .a }}",
                Functions::Sprig,
                "a backslash in double quotes begins an escape; in back quotes it is one",
            ),
            (
                "{{ $size }}",
                Functions::Sprig,
                "a variable with $ is declared before, and in the same block; those of the ClusterClass are read with \
                 a dot",
            ),
            ("{{ zyx }}", Functions::Sprig, ""),
        ] {
            let error = Template::parse("template", text, functions).unwrap_err();
            let hint = template_hint(&error, text, functions, ["size"].into_iter());
            assert_eq!(hint.unwrap_or_default(), want, "{text}: {error}");
        }
    }
}
