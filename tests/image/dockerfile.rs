//! As much of a Dockerfile as ours uses, on this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the last stage of a Dockerfile makes, and the SBOM of the stage before it.
#[derive(Debug, Default)]
pub struct Image {
    pub root: PathBuf,
    pub sbom: PathBuf,
    pub user: String,
    pub entry_point: Vec<String>,
    pub command: Vec<String>,
    pub ports: Vec<String>,
}

/// The instructions of the Dockerfile, without comments, each on one line.
pub fn instructions(repository: &Path) -> Vec<String> {
    let text = fs::read_to_string(repository.join("Dockerfile")).unwrap();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#')).map(|line| format!("{line}\n"));
    let joined = lines.collect::<String>().replace("\\\n", "");
    joined.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

impl Image {
    /// Follows the Dockerfile. The root directory of its first stage is below `target`, where the next build finds what
    /// this one has compiled.
    pub fn build(repository: &Path, target: &Path) -> Image {
        let builder = Builder::new(target.join("image"));
        let of_stage = |stage: &str| builder.home.join(stage);
        let mut image = Image { root: of_stage("root"), sbom: of_stage("sbom"), ..Image::default() };
        let (mut folder, mut stages) = (PathBuf::from("/"), Vec::new());
        for line in instructions(repository) {
            let (instruction, rest) = line.split_once(' ').unwrap();
            let words: Vec<_> = rest.split_whitespace().collect();
            match (instruction, words.as_slice()) {
                // A default of the image that stages begin with, which no container engine is here to fetch.
                ("ARG", [default]) => assert!(default.starts_with("BASE=") && stages.is_empty(), "{line}"),
                ("FROM", [.., "AS", stage]) => stages.push((*stage).to_owned()),
                ("FROM", ["scratch"]) => stages.push("root".to_owned()),
                ("WORKDIR", [path]) => folder = PathBuf::from(path),
                ("RUN", _) => builder.run(&folder, rest),
                ("COPY", ["--from=build", source, file]) => {
                    let to = of_stage(stages.last().unwrap()).join(file.trim_start_matches('/'));
                    fs::copy(builder.at(Path::new(source)), to).unwrap();
                }
                ("COPY", [sources @ .., to]) => {
                    sources.iter().for_each(|source| builder.copy(repository, source, &folder.join(to)));
                }
                ("USER", [user]) => image.user = (*user).to_owned(),
                ("EXPOSE", ports) => image.ports = ports.iter().map(|port| (*port).to_owned()).collect(),
                ("ENTRYPOINT", _) => image.entry_point = serde_json::from_str(rest).unwrap(),
                ("CMD", _) => image.command = serde_json::from_str(rest).unwrap(),
                _ => panic!("the tests do not know what this means: {line}"),
            }
        }
        assert_eq!(stages, ["build", "sbom", "root"]);
        image
    }
}

/// The first stage.
struct Builder {
    home: PathBuf,
}

impl Builder {
    fn new(home: PathBuf) -> Self {
        for stale in ["root", "sbom", "tools", "build/src/src", "build/src/crates", "build/src/tests"] {
            let _ = fs::remove_dir_all(home.join(stale));
        }
        let _ = fs::remove_file(home.join("build/src/topologist.cdx.json"));
        for folder in ["root", "sbom", "tools", "build"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        let builder = Builder { home };
        builder.tool("apk", "");
        builder.tool("cargo", STAND_IN);
        builder
    }

    fn tool(&self, name: &str, script: &str) {
        let path = self.home.join("tools").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A path of the stage on this machine.
    fn at(&self, path: &Path) -> PathBuf {
        self.home.join("build").join(path.strip_prefix("/").unwrap())
    }

    fn run(&self, folder: &Path, script: &str) {
        let tools = self.home.join("tools");
        let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]).current_dir(self.at(folder)).env("PATH", path).env("CARGO", env!("CARGO"));
        shell.env("INSTALLED", self.home.join("installed"));
        for name in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
            shell.env_remove(name);
        }
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Copies what .dockerignore leaves in the context.
    fn copy(&self, repository: &Path, source: &str, to: &Path) {
        let ignored = fs::read_to_string(repository.join(".dockerignore")).unwrap();
        let is_named = |line: &str| line.strip_prefix('!').is_some_and(|named| Path::new(source).starts_with(named));
        assert!(ignored.lines().any(is_named), ".dockerignore keeps {source} away");
        assert_eq!(ignored.lines().next(), Some("*"), "the context holds what is named, and no key by accident");
        let (from, to) = (repository.join(source), self.at(to));
        let to = if from.is_dir() { to } else { to.join(from.file_name().unwrap()) };
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        assert!(Command::new("cp").arg("-rT").args([&from, &to]).status().unwrap().success());
    }
}

/// Instead of the dist profile on musl: the development profile, stripped as well, statically linked to glibc. The
/// installed programs are the real ones, which are compiled once for all runs.
const STAND_IN: &str = r#"
export CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0
case "$*" in
'install --locked '*)
    exec "$CARGO" "$@" --profile dev --root "$INSTALLED" ;;
'auditable build --locked --profile dist')
    host=$(rustc -vV | sed -n 's/^host: //p')
    export RUSTFLAGS='-C target-feature=+crt-static' CARGO_PROFILE_DEV_STRIP=symbols
    "$INSTALLED/bin/cargo-auditable" auditable build --locked --target "$host" &&
        mkdir -p target/dist && cp "target/$host/debug/topologist" target/dist/ ;;
'cyclonedx '*)
    exec "$INSTALLED/bin/cargo-cyclonedx" "$@" ;;
*)
    echo "the tests stand in for another cargo command: $*" >&2
    exit 64 ;;
esac
"#;
