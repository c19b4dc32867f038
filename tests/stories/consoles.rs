//! The `console` blocks of the documents, run as they are printed: what a reader types, and what the terminal shows.
//!
//! ```text
//!  first terminal:   bash ── topologist serve …            until the text says Ctrl-C
//!  second terminal:  bash ── kubectl, curl, topologist …   each block below `serve`, if the text says so
//! ```
//!
//! Both are pseudo-terminals in one folder, which has the fixtures and the binary where a clone has them. All lines are
//! compared; a line `…` stands for lines that are left out, and `…` in a line for a part of it. Blocks with the fence
//! `sh` need what a test does not have: they are parsed and not run.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use clap::CommandFactory;
use regex::{Captures, Regex};
use rustix::process::{Pid, Signal, kill_process_group};
use topologist::cli::args::Arguments;

use crate::documents::documents;
use crate::harness::kubectl;
use crate::harness::server::command;
use crate::terminal::{END, ERASE, terminal};

/// Documents whose blocks other tests run as printed: stories/authors.rs, stories/runtime_extensions/example.rs.
const RUN_ELSEWHERE: [&str; 2] = ["docs/authors.md", "docs/extension-authors.md"];

/// Documents whose blocks a test below runs, with how many there are.
const RUN_HERE: [(&str, usize); 9] = [
    ("README.md", 4),
    ("certs/README.md", 1),
    ("docs/check-provider.md", 1),
    ("docs/controllers.md", 1),
    ("docs/embedded.md", 9),
    ("docs/operations.md", 1),
    ("docs/provider.md", 4),
    ("docs/simulate.md", 1),
    ("docs/validate.md", 4),
];

/// cargo has built the binary that runs here, so the binary is typed in place of this.
const CARGO_RUN: &str = "cargo run -- ";

/// How long a command may take on a busy machine, where an upgrade takes minutes.
const PATIENCE: Duration = Duration::from_mins(4);

/// Follows the output of each command; bash prints it in two parts, so that it is not in what is typed.
const MARK: &str = "<end of the command>\n";

/// A fenced block of a document.
struct Block {
    document: PathBuf,
    line: usize,
    fence: String,
    text: String,
    /// The text between the block before and this one.
    lead: String,
    /// The heading of the second level above it.
    section: String,
}

fn blocks() -> Vec<Block> {
    documents().into_iter().flat_map(|(document, text)| blocks_of(&document, &text)).collect()
}

fn blocks_of(document: &Path, text: &str) -> Vec<Block> {
    let (mut blocks, mut open) = (Vec::new(), None::<Block>);
    let (mut lead, mut section, mut indent) = (String::new(), String::new(), 0);
    for (number, line) in (1..).zip(text.lines()) {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(fence), None) => {
                indent = line.len() - line.trim_start().len();
                open = Some(Block {
                    document: document.to_owned(),
                    line: number,
                    fence: fence.to_owned(),
                    text: String::new(),
                    lead: std::mem::take(&mut lead),
                    section: section.clone(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text += &format!("{}\n", line.get(indent..).unwrap_or_default()),
            (None, None) => {
                if let Some(heading) = line.strip_prefix("## ") {
                    heading.clone_into(&mut section);
                }
                lead += &format!("{line} ");
            }
        }
    }
    blocks
}

/// What a reader types, which may take several lines, and what the document shows of its output.
struct Example {
    typed: String,
    shown: String,
}

impl Example {
    fn serves(&self) -> bool {
        self.typed
            .strip_prefix(CARGO_RUN)
            .or(self.typed.strip_prefix("topologist "))
            .is_some_and(|rest| rest.starts_with("serve "))
    }
}

impl Block {
    fn examples(&self) -> Vec<Example> {
        let mut examples: Vec<Example> = Vec::new();
        let mut goes_on = false;
        for line in self.text.lines() {
            match (line.strip_prefix("$ "), examples.last_mut()) {
                (Some(typed), _) => examples.push(Example { typed: typed.to_owned(), shown: String::new() }),
                (None, Some(last)) if goes_on => last.typed += &format!("\n{line}"),
                (None, Some(last)) => {
                    last.shown += &format!("{line}\n");
                    continue;
                }
                (None, None) => panic!("{}: {line:?} comes before a command", self.name()),
            }
            goes_on = line.ends_with(['\\', '|']);
        }
        examples
    }

    fn name(&self) -> String {
        format!("{}:{}", self.document.display(), self.line)
    }

    /// Run by tests/cluster/break_glass on a real API server.
    fn is_break_glass(&self) -> bool {
        self.document == Path::new("docs/operations.md") && self.section == "Break glass"
    }
}

/// A folder as a clone of the repository is after `cargo build`.
struct Clone {
    folder: tempfile::TempDir,
    tools: tempfile::TempDir,
}

impl Clone {
    fn new() -> Self {
        let clone = Clone { folder: tempfile::tempdir().unwrap(), tools: tempfile::tempdir().unwrap() };
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for name in ["fixtures", "manifests"] {
            symlink(root.join(name), clone.path().join(name)).unwrap();
        }
        fs::create_dir(clone.path().join("certs")).unwrap();
        for name in ["kustomization.yaml", "by-address.yaml"] {
            fs::copy(root.join("certs").join(name), clone.path().join("certs").join(name)).unwrap();
        }
        fs::create_dir_all(clone.path().join("target/debug")).unwrap();
        symlink(command(&[]).get_program(), clone.path().join("target/debug/topologist")).unwrap();
        symlink(kubectl::program(), clone.tools.path().join("kubectl")).unwrap();
        clone
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// bash as in a new terminal: nothing of ours in its environment but free ports for servers.
    fn bash(&self) -> Command {
        let mut bash = Command::new("bash");
        let path = format!("{}:{}", self.tools.path().display(), std::env::var("PATH").unwrap());
        bash.current_dir(self.path()).env("HOME", self.tools.path()).env("PATH", path);
        let ours = |name: &String| name.starts_with("TOPOLOGIST_") || name.to_lowercase().ends_with("_proxy");
        for name in std::env::vars().map(|(name, _)| name).filter(ours) {
            bash.env_remove(name);
        }
        for port in ["WEBHOOK", "ADMIN", "CONVERSION", "API", "WORKLOAD"] {
            bash.env(format!("TOPOLOGIST_{port}_ADDR"), "127.0.0.1:0");
        }
        bash.env_remove("KUBECONFIG").env_remove("RUST_LOG").env("NO_COLOR", "1");
        bash
    }
}

/// A terminal with bash.
struct Terminal {
    bash: Child,
    input: ChildStdin,
    screen: Receiver<Vec<u8>>,
    /// What has appeared and is not read yet.
    unread: Vec<u8>,
}

impl Terminal {
    fn open(clone: &Clone) -> Self {
        let (screen, process) = terminal();
        let mut bash = clone.bash();
        bash.stdin(Stdio::piped()).stdout(process.try_clone().unwrap()).stderr(process).process_group(0);
        let mut child = bash.spawn().unwrap();
        Terminal { input: child.stdin.take().unwrap(), bash: child, screen: parts_of(screen), unread: Vec::new() }
    }

    /// Types a command.
    fn enter(&mut self, typed: &str) {
        let (start, end) = MARK.trim_end().split_at(5);
        writeln!(self.input, "{{ {typed}\n}} </dev/null; printf '%s%s\\n' '{start}' '{end}'").unwrap();
    }

    /// What the screen shows until this appears, without it.
    fn read_until(&mut self, end: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = String::from_utf8_lossy(&self.unread).replace("\r\n", "\n");
            if let Some((before, after)) = text.split_once(end) {
                self.unread = after.as_bytes().to_vec();
                return before.to_owned();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(part) => self.unread.extend(part),
                Err(why) => panic!("{why}: no {end:?} on the screen:\n{text}"),
            }
        }
    }

    fn run(&mut self, typed: &str) -> String {
        self.enter(typed);
        self.read_until(MARK)
    }

    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(Pid::from_child(&self.bash), signal);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.bash.wait();
    }
}

/// What appears on a screen, part by part.
fn parts_of(mut screen: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut part) {
            if sender.send(part[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// What a reader does who follows a document. The first terminal has the binary in its path.
struct Reader {
    clone: Clone,
    first: Terminal,
    second: Option<Terminal>,
    is_serving: bool,
    /// Ports that were free, each with the one that documents show.
    ports: Vec<(String, &'static str)>,
    differences: Vec<String>,
    blocks: usize,
}

impl Reader {
    fn new() -> Self {
        let clone = Clone::new();
        let first = Terminal::open(&clone);
        let (ports, differences) = (Vec::new(), Vec::new());
        let mut reader = Reader { clone, first, second: None, is_serving: false, ports, differences, blocks: 0 };
        reader.first.run("export PATH=$PWD/target/debug:$PATH");
        reader
    }

    /// Follows the text from block to block.
    fn follow(mut self, document: &str) {
        let all = blocks();
        let of_document = |block: &&Block| block.document == Path::new(document) && block.fence == "console";
        for block in all.iter().filter(of_document).filter(|block| !block.is_break_glass()) {
            self.blocks += 1;
            self.read(block);
        }
        self.stop();
        assert!(self.differences.is_empty(), "{}", self.differences.join("\n"));
        assert!(RUN_HERE.contains(&(document, self.blocks)), "{document} has {} blocks", self.blocks);
    }

    fn read(&mut self, block: &Block) {
        let examples = block.examples();
        let serves = examples.iter().any(Example::serves);
        if serves && self.is_serving {
            assert!(block.lead.contains("Ctrl-C"), "{}: nothing says that the server stops", block.name());
            self.stop();
        }
        if !serves && self.is_serving && self.second.is_none() {
            assert!(block.lead.contains("second terminal"), "{}: nothing says where to type", block.name());
            self.second = Some(Terminal::open(&self.clone));
        }
        for example in examples {
            let printed = self.does(&example);
            let (shown, printed) = (self.comparable(&example, &example.shown), self.comparable(&example, &printed));
            if !is_as_shown(&shown, &printed) {
                let Example { typed, .. } = example;
                self.differences
                    .push(format!("{}: $ {typed}\n--- shown\n{shown}\n--- printed\n{printed}", block.name()));
            }
        }
    }

    fn does(&mut self, example: &Example) -> String {
        let typed = &*example.typed;
        if example.serves() {
            let greeting = self.serve(&typed.replacen(CARGO_RUN, "target/debug/topologist ", 1));
            return greeting + &self.progress(&example.shown);
        }
        match &mut self.second {
            Some(second) => second.run(typed),
            None => self.first.run(typed),
        }
    }

    /// Starts a server, and returns what is on its screen when it is up.
    fn serve(&mut self, typed: &str) -> String {
        self.first.enter(typed);
        let screen = self.first.read_until(&format!("{END}\n\n"));
        self.is_serving = true;
        let (_, greeting) = screen.rsplit_once(ERASE).unwrap_or_else(|| panic!("no progress is shown: {screen}"));
        self.ports.clear();
        for (known, pattern) in [("9443", "reviews at https://127.0.0.1:"), ("6443", "API is at https://127.0.0.1:")] {
            let (_, rest) = greeting.split_once(pattern).unwrap_or_else(|| panic!("{greeting}"));
            let port = rest.chars().take_while(char::is_ascii_digit).collect();
            self.ports.push((port, known));
        }
        // The port that documents show may be taken by another test.
        let redirection = format!("connect-to = localhost:9443:127.0.0.1:{}\n", self.ports[0].0);
        fs::write(self.clone.tools.path().join(".curlrc"), redirection).unwrap();
        format!("{greeting}{END}\n")
    }

    /// Waits for the last count of machines that a document shows below the greeting, and returns what it shows from
    /// the first on.
    fn progress(&mut self, shown: &str) -> String {
        let Some(start) = shown.find("\nMachines: ") else { return String::new() };
        let shown = &shown[start..];
        let counts: Vec<&str> = shown.lines().filter(|line| !line.is_empty() && *line != "…").collect();
        let Some(last) = counts.last() else { return String::new() };
        let count = Regex::new("^Machines: [0-9]+ [A-Z][a-z]+(, [0-9]+ [A-Z][a-z]+)*$").unwrap();
        assert!(counts.iter().all(|line| count.is_match(line)), "the server prints no such lines: {counts:?}");
        let printed = self.first.read_until(&format!("{last}\n"));
        assert!(printed.lines().all(may_be_below_the_greeting), "the server prints below its greeting:\n{printed}");
        shown.to_owned()
    }

    /// Presses Ctrl-C where the server runs. It shows nothing but its machines below its greeting.
    fn stop(&mut self) {
        if self.is_serving {
            self.first.signal(Signal::INT);
            let rest = self.first.read_until(MARK);
            if !rest.lines().all(may_be_below_the_greeting) {
                self.differences.push(format!("the server prints below its greeting:\n{rest}"));
            }
            self.is_serving = false;
        }
    }

    /// The text without what differs between runs.
    fn comparable(&self, example: &Example, text: &str) -> String {
        // On a busy computer a command shows how far it is, and erases that line when it has something to print.
        let erased = Regex::new(r"[^\n]*\x1b\[2K").unwrap();
        let color = Regex::new(r"\x1b\[[0-9;]*m").unwrap();
        let mut text = color
            .replace_all(&erased.replace_all(text, ""), "")
            .replace(&self.clone.path().display().to_string(), "/home/me/topologist");
        for (port, known) in &self.ports {
            text = text.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{known}"));
            text = text.replace(&format!("localhost:{port}"), &format!("localhost:{known}"));
        }
        if example.typed.contains("kubectl ") {
            text = without_chance(&text);
        }
        text.trim_end().to_owned()
    }
}

/// Whether a server prints such a line below its greeting: how many machines there are. On a busy computer a Cluster
/// may be reconciled before its class is.
fn may_be_below_the_greeting(line: &str) -> bool {
    line.is_empty() || line.starts_with("Machines: ") || line.contains("is not ready: ")
}

/// What kubectl prints, without ages, the ends of names that are made up, and the widths of columns that follow from
/// them.
fn without_chance(text: &str) -> String {
    let made_up = Regex::new(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b").unwrap();
    let age = Regex::new(r"(?m)(^| )[0-9]+(s|m|h)( |$)").unwrap();
    let spaces = Regex::new("  +").unwrap();
    let text = made_up.replace_all(text, "-?????");
    let text = spaces.replace_all(&text, " ");
    age.replace_all(&text, |parts: &Captures<'_>| format!("{}AGE{}", &parts[1], &parts[3])).into_owned()
}

/// Whether a text is as a document shows it, where `…` stands for lines, or for a part of a line.
fn is_as_shown(shown: &str, printed: &str) -> bool {
    let pattern: Vec<String> = shown
        .lines()
        .map(|line| match line {
            "…" => "(?:.*\n)*?".to_owned(),
            line => line.split('…').map(regex::escape).collect::<Vec<_>>().join(".*") + "\n",
        })
        .collect();
    let printed: String = printed.lines().map(|line| format!("{line}\n")).collect();
    Regex::new(&format!("^{}$", pattern.concat())).unwrap().is_match(&printed)
}

#[test]
fn the_readme_runs_from_top_to_bottom() {
    Reader::new().follow("README.md");
}

#[test]
fn the_blocks_about_files_run() {
    Reader::new().follow("docs/validate.md");
}

#[test]
fn the_blocks_about_simulations_run() {
    Reader::new().follow("docs/simulate.md");
}

#[test]
fn the_blocks_about_providers_run() {
    Reader::new().follow("docs/check-provider.md");
}

#[test]
fn the_blocks_about_certificates_run() {
    Reader::new().follow("certs/README.md");
}

#[test]
fn the_blocks_about_the_embedded_server_run() {
    Reader::new().follow("docs/embedded.md");
}

#[test]
fn the_blocks_about_an_own_provider_run() {
    Reader::new().follow("docs/provider.md");
}

/// A reader whose server has these objects.
fn reader_of(serve: &str, before: &str) -> Reader {
    let mut reader = Reader::new();
    reader.serve(serve);
    let mut second = Terminal::open(&reader.clone);
    second.run("export KUBECONFIG=$PWD/.topologist/kubeconfig");
    second.run(before);
    reader.second = Some(second);
    reader
}

#[test]
fn the_block_about_orphans_runs() {
    let serve = "topologist serve --embedded --load fixtures/embedded";
    assert!(documents()[Path::new("docs/controllers.md")].contains(&format!("`{serve}`")));
    reader_of(serve, "true").follow("docs/controllers.md");
}

#[test]
fn the_block_about_versions_runs() {
    let one = "sed 's/name: demo/name: one/' fixtures/quick-start/cluster.yaml | kubectl apply -f -";
    let serve = "topologist serve --embedded --load fixtures/quick-start --controllers=none";
    reader_of(serve, one).follow("docs/operations.md");
}

#[test]
fn each_console_block_is_run_by_a_test() {
    let stories = include_str!("../cluster/break_glass/stories.rs");
    let mut found = BTreeSet::new();
    for block in blocks().iter().filter(|block| block.fence == "console" && !block.is_break_glass()) {
        found.insert(block.document.display().to_string());
    }
    let known = RUN_HERE.iter().map(|(document, _)| *document).chain(RUN_ELSEWHERE);
    assert_eq!(found, known.map(str::to_owned).collect::<BTreeSet<_>>());
    let operations = &documents()[Path::new("docs/operations.md")];
    let (_, glass) = operations.split_once("\n## Break glass\n").unwrap();
    let parts = glass.split("\n## ").next().unwrap().split("\n### ").skip(1);
    for part in parts.filter(|part| part.contains("```console\n")) {
        let heading = part.lines().next().unwrap();
        assert!(stories.contains(&format!("site.guide({heading:?})")), "{heading} is run by no cluster test");
    }
}

#[test]
fn left_out_lines_are_those_that_are_marked() {
    for (shown, printed, is_shown) in [
        ("a\nb", "a\nb", true),
        ("a", "a\nb", false),
        ("", "a", false),
        ("a\nb", "a", false),
        ("a\n…", "a\nb\nc", true),
        ("…\nc", "a\nb\nc", true),
        ("a\n…\nd", "a\nb\nc", false),
        ("a … c", "a b c", true),
        ("a … c", "a b d", false),
    ] {
        assert_eq!(is_as_shown(shown, printed), is_shown, "{shown:?} of {printed:?}");
    }
    let table = "NAME          AGE\ndemo-x7k2q    5s\n";
    assert_eq!(without_chance(table), without_chance("NAME            AGE\ndemo-bcdfg   12m\n"));
    assert_ne!(without_chance(table), without_chance("NAME            AGE\ndemo-green   5s\n"));
}

/// The commands of a block with the fence `sh`, each on one line.
fn commands(block: &Block) -> Vec<String> {
    block.text.replace("\\\n", " ").lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
}

/// Why a command of a block that is not run is wrong.
fn fault(clone: &Clone, line: &str) -> Option<String> {
    let line = line.split("  #").next().unwrap_or(line).trim();
    let mut faults = Vec::new();
    for part in line.split(['|', '&']).map(str::trim) {
        let words: Vec<&str> = part.split_whitespace().filter(|word| !word.starts_with("TOPOLOGIST_")).collect();
        match words.first() {
            Some(&"topologist") => {
                faults.extend(Arguments::command().try_get_matches_from(&words).err().map(|error| error.to_string()));
            }
            Some(&"kubectl") => faults.extend(kubectl_fault(clone, part)),
            Some(&"make") => faults.extend(make_fault(&words[1..])),
            _ => faults.extend(cargo_fault(&words)),
        }
    }
    faults.into_iter().next().map(|fault| format!("{line}: {fault}"))
}

/// What kubectl finds wrong before it asks a server, of which there is none.
fn kubectl_fault(clone: &Clone, line: &str) -> Option<String> {
    let mut bash = clone.bash();
    let line = line.replacen("kubectl ", "kubectl --server=http://127.0.0.1:1 ", 1);
    let output = bash.arg("-c").arg(format!("{line} </dev/null")).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let is_parsed = output.status.success() || text.contains("connection refused") || text.contains("was refused");
    (!is_parsed && !text.contains("no objects passed")).then_some(text)
}

fn make_fault(targets: &[&str]) -> Option<String> {
    let makefile = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Makefile")).unwrap();
    let missing = targets.iter().find(|target| !makefile.contains(&format!("\n{target}:")));
    missing.map(|target| format!("no target {target}"))
}

/// A test that is named exists, and so does the crate.
fn cargo_fault(words: &[&str]) -> Option<String> {
    let words = words.iter().skip_while(|word| word.contains('=')).copied().collect::<Vec<_>>();
    let Some(["test", rest @ ..]) = words.strip_prefix(&["cargo"]) else { return None };
    let named = |word: &&&str| !word.starts_with('-') && !["stories", "cluster", "fuzz"].contains(*word);
    rest.iter().filter(named).find_map(|name| {
        let name = name.trim_matches(['\'', '"']);
        if let Some(name) = name.strip_prefix("topologist-") {
            let is_crate = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(name).is_dir();
            return (!is_crate).then(|| format!("no crate {name}"));
        }
        let last = name.trim_end_matches("::").rsplit("::").next().unwrap();
        let known = ["fn ", "mod "].iter().any(|kind| sources().contains(&format!("{kind}{last}")));
        (!known).then(|| format!("no test {name}"))
    })
}

/// All code of the repository.
fn sources() -> String {
    let mut folders =
        ["src", "crates", "tests"].map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).to_vec();
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text += &fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

#[test]
fn blocks_that_are_not_run_parse() {
    let clone = Clone::new();
    // Which the page about certificates makes before it uses them.
    let certificates = command(&["certs", "--out", "certs/dev"]).current_dir(clone.path()).output().unwrap();
    assert!(certificates.status.success(), "{certificates:?}");
    let mut wrong = Vec::new();
    let mut lines = 0;
    for block in blocks().iter().filter(|block| ["sh", "bash"].contains(&&*block.fence)) {
        let script = clone.bash().arg("-nc").arg(&block.text).output().unwrap();
        assert!(script.status.success(), "{}: {script:?}", block.name());
        for line in commands(block) {
            lines += 1;
            wrong.extend(fault(&clone, &line).map(|fault| format!("{}: {fault}", block.name())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(lines > 25, "only {lines} commands were found");
}

#[test]
fn commands_that_do_not_parse_are_found() {
    let clone = Clone::new();
    for line in [
        "topologist plan --sideways",
        "kubectl apply -k manifests/overlays/none",
        "kubectl rollout status deployment/topologist --forever",
        "kubectl crds | kubectl apply -f -",
        "make nothing",
        "cargo test --lib no_test_of_this_name_at_all",
        "cargo test --package topologist-nothing version",
    ] {
        assert!(fault(&clone, line).is_some(), "{line}");
    }
    assert_eq!(fault(&clone, "topologist plan --live --to former/"), None);
}
