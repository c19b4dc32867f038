//! Documents, `--help`, messages, log lines and comments avoid words that readers have to decode.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use clap::CommandFactory;
use regex::Regex;
use topologist::cli::args::Arguments;

/// Words for which plain English has a name: a client, another field manager, no controller, the desired state.
static AVOIDED: LazyLock<Regex> = LazyLock::new(|| {
    let words = [
        r"who(?:m|so)?ever",
        r"whatever|whichever|wherever",
        r"nobody|somebody|anybody|everybody",
        r"(?:is|are|was|were|be) to be",
        r"what (?:was|were)",
        r"(?:goes|go|going) on being",
        r"knows? nothing",
        r"(?:cannot|can not|to) be told",
    ];
    pattern(&words)
});

/// Words that sources avoid as well: a number, a result, a limit and an owner have names.
static PARAPHRASES: LazyLock<Regex> = LazyLock::new(|| {
    let words = [
        r"(?:so|that) many",
        r"comes? to",
        r"becomes? of",
        r"vouch(?:es)?",
        r"bears?",
        r"in the making",
        r"looks? after",
        r"(?:is|are) told",
        r"ways? out",
        r"(?:has|have) no say",
        r"of (?:its|their) own",
        r"takes? what",
    ];
    pattern(&words)
});

/// Matches any of the words, in any case and across lines.
fn pattern(words: &[&str]) -> Regex {
    Regex::new(&format!(r"(?i)\b(?:{})\b", words.join("|").replace(' ', r"\s+"))).unwrap()
}

/// Texts that cannot change, each with the reason.
const EXCEPTIONS: [(&str, &str); 3] = [
    ("somebody@example.com", "an example value, which sample Clusters contain"),
    ("come to {}, more than the limit of {}", "a message about the size of a topology, which users know"),
    ("They are told about upgrades", "the help of --call-hooks, which users know"),
];

/// Comments, texts and characters of Rust sources; only texts have a name.
static TEXT: LazyLock<Regex> = LazyLock::new(|| {
    let forms = [
        r"//[^\n]*",
        r###"r##"(?<long>(?s:.*?))"##"###,
        r##"r#"(?<raw>(?s:.*?))"#"##,
        r#"\br"(?<bare>[^"]*)""#,
        r#""(?<plain>(?s:[^"\\]|\\.)*)""#,
        r"'(?:[^'\\]|\\[^']+)'",
    ];
    Regex::new(&forms.join("|")).unwrap()
});

/// The avoided words of a text, each with its place and its line.
fn avoided(place: &str, first_line: usize, text: &str) -> Vec<String> {
    let is_fixed = |line: &str| EXCEPTIONS.iter().any(|(fixed, _)| line.contains(fixed));
    let paraphrases = is_source(place).then(|| PARAPHRASES.find_iter(text));
    let found = AVOIDED.find_iter(text).chain(paraphrases.into_iter().flatten()).filter_map(|found| {
        let (before, after) = (&text[..found.start()], &text[found.end()..]);
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = &text[start..found.end() + after.find('\n').unwrap_or(after.len())];
        let number = first_line + before.matches('\n').count();
        (!is_fixed(line)).then(|| format!("{place}:{number}: {:?} in: {}", found.as_str(), line.trim()))
    });
    found.collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below a folder with such an ending, by its path.
fn files(folder: &str, ending: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if name.ends_with(ending) {
                let place = path.strip_prefix(root()).unwrap().display().to_string();
                found.insert(place, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// The sources of all crates.
fn sources() -> BTreeMap<String, String> {
    files("src", ".rs").into_iter().chain(files("crates", ".rs")).collect()
}

/// The texts of a source file outside its tests, each with its line.
fn texts(source: &str) -> Vec<(usize, &str)> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let named = TEXT.captures_iter(code).filter_map(|found| {
        let text = ["long", "raw", "bare", "plain"].iter().find_map(|name| found.name(name))?;
        Some((1 + code[..text.start()].matches('\n').count(), text.as_str()))
    });
    named.collect()
}

/// The comments of a source file on their lines; other lines end a sentence.
fn comments(source: &str) -> String {
    let found = TEXT.find_iter(source).filter(|found| found.as_str().starts_with("//"));
    let by_line: BTreeMap<usize, &str> =
        found.map(|found| (source[..found.start()].matches('\n').count(), found.as_str())).collect();
    let line = |number: usize| by_line.get(&number).map_or(".", |comment| comment.trim_start_matches(['/', '!', ' ']));
    (0..source.lines().count()).map(|number| format!("{}\n", line(number))).collect()
}

/// Whether a file is a source of the program or of one of its libraries.
fn is_source(place: &str) -> bool {
    place.starts_with("crates/") || place.starts_with("src/")
}

fn is_test(place: &str) -> bool {
    place.ends_with("/tests.rs") || place.ends_with("/testing.rs") || place.contains("/tests/")
}

#[test]
fn the_words_are_found() {
    let found = |text| avoided("here", 1, text).len();
    let wrong = ["Nobody reads it.", "whoever asks", "as it is\nto be", "cannot be told", "goes on being held"];
    assert!(wrong.iter().all(|text| found(text) == 1), "{:?}", wrong.map(found));
    let right = ["it is a body", "somebodys", "This is.\nTo begin", "no controller"];
    assert!(right.iter().all(|text| found(text) == 0), "{:?}", right.map(found));
    let paraphrased = ["room for so many", "What one\nstep comes to", "A status in the making", "a name of its own"];
    let reviewed = |text| avoided("crates/model/src/lib.rs", 1, text).len();
    assert!(paraphrased.iter().all(|text| (reviewed(text), found(text)) == (1, 0)), "{:?}", paraphrased.map(reviewed));
    let source =
        "// \"one\"\nlet x = ['\"', '\\''];\nf(\"two\", r#\"three \"quoted\"\"#);\n#[cfg(test)]\nmod tests {\n\"four\"";
    assert_eq!(texts(source), [(3, "two"), (3, "three \"quoted\"")]);
    assert_eq!(comments("//! is to\nlet url = \"http://x\"; // be\n    /// said\n"), "is to\nbe\nsaid\n");
}

#[test]
fn documents_are_in_plain_english() {
    let documents = files("", ".md");
    assert!(documents.len() > 30, "{} documents", documents.len());
    let found: Vec<String> = documents.iter().flat_map(|(place, text)| avoided(place, 1, text)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_help_of_every_command_is_in_plain_english() {
    let mut program = Arguments::command();
    let mut found = avoided("topologist --help", 1, &program.render_long_help().to_string());
    for command in program.get_subcommands_mut() {
        let place = format!("topologist {} --help", command.get_name());
        let help = command.render_long_help().to_string();
        assert!(help.contains("Usage"), "{place}: {help}");
        found.extend(avoided(&place, 1, &help));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn messages_and_log_lines_are_in_plain_english() {
    let mut found = Vec::new();
    let mut count = 0;
    for (place, source) in sources().iter().filter(|(place, _)| !is_test(place)) {
        for (line, text) in texts(source) {
            count += 1;
            found.extend(avoided(place, line, text));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(count > 3000, "only {count} texts were found");
}

#[test]
fn comments_are_in_plain_english() {
    let sources = sources();
    assert!(sources.len() > 300, "{} sources", sources.len());
    let found: Vec<String> = sources.iter().flat_map(|(place, source)| avoided(place, 1, &comments(source))).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
