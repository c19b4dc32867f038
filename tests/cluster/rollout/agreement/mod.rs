//! Four plans of the same change say the same, and what they say is what then happens: `plan --live`, `plan` beside exported
//! objects with the record of their field owners and without, and `plan` of the class files alone (DEC-42, DEC-43).
//!
//! Edits are made in many namespaces at a time: one round plans them all, makes them all, and waits for all of them.

mod actual;
mod edits;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kube::config::KubeConfigOptions;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::provider;
use super::site::{api, bundle, text};
use crate::process::{Topologist, command};
use actual::{Effects, State, foreseen};
use edits::{DEFAULT, Draw, EDITS, Files};

/// In how many namespaces edits are made side by side, and how often in each.
const PLACES: usize = 50;
const ROUNDS: usize = 7;
/// How long a round may take on a busy machine.
const LIMIT: Duration = Duration::from_mins(3);
/// The plan of the class files alone.
const FILES: &str = "files";
/// The plan beside exported objects that do not say who owns their fields.
const HIDDEN: &str = "without field owners";
/// The time of all plans.
const NOW: &str = "2026-06-01T00:00:00Z";

/// A server with everything that it rolls out, and the files of its users.
struct Fleet {
    client: kube::Client,
    kubeconfig: PathBuf,
    folder: TempDir,
    files: BTreeMap<String, Files>,
    /// Where the default of a variable was edited. Only a Cluster that says who owns its fields tells then which variables still
    /// have the default of before (`docs/plan.md`).
    ambiguous: BTreeSet<String>,
    providers: JoinSet<()>,
    _server: Topologist,
}

impl Fleet {
    async fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let server = Topologist::serve(&[
            "--embedded",
            "--api-addr",
            "127.0.0.1:0",
            "--state-dir",
            &state.display().to_string(),
        ]);
        server.wait_until_ready();
        let kubeconfig = state.join("kubeconfig");
        let config = kube::config::Kubeconfig::read_from(&kubeconfig).unwrap();
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let mut fleet = Fleet {
            client,
            kubeconfig,
            folder,
            files: BTreeMap::new(),
            ambiguous: BTreeSet::new(),
            providers: JoinSet::new(),
            _server: server,
        };
        fleet.providers.spawn(provider::run(fleet.client.clone(), String::new(), true));
        for place in 0..PLACES {
            fleet.settle(&format!("place-{place:02}")).await;
        }
        fleet
    }

    /// A namespace with a class and a Cluster.
    async fn settle(&mut self, namespace: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.apply(&object).await.unwrap();
        let mut files = Vec::new();
        for mut object in [bundle("class.yaml"), bundle("cluster.yaml")].concat() {
            object["metadata"]["namespace"] = json!(namespace);
            if object["kind"] == "Cluster" {
                // Machines of this provider have no Kubernetes that could be asked before an upgrade.
                let unchecked = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";
                object["metadata"]["annotations"][unchecked] = json!("");
            }
            files.push(object);
        }
        self.write(&Files(files.clone())).await.unwrap();
        self.files.insert(namespace.to_owned(), Files(files));
    }

    /// What a user applies; the Cluster comes last. Tells why it was denied, if it was.
    async fn write(&self, files: &Files) -> Result<(), String> {
        for object in &files.0 {
            self.apply(object).await?;
        }
        Ok(())
    }

    async fn apply(&self, object: &Value) -> Result<(), String> {
        let (api_version, kind, name) =
            (text(object, "/apiVersion"), text(object, "/kind"), text(object, "/metadata/name"));
        let params = kube::api::PatchParams::apply("a-user").force();
        let api = api(&self.client, &text(object, "/metadata/namespace"), &api_version, &kind);
        let applied = api.patch(&name, &params, &kube::api::Patch::Apply(object)).await;
        applied.map(drop).map_err(|error| format!("{kind} {name}: {error}"))
    }

    async fn state(&self) -> State {
        State::read(&self.client).await
    }

    /// Waits until every topology is reconciled, and nothing changes any more.
    async fn rest(&self) -> State {
        let started = Instant::now();
        let mut before = self.state().await;
        loop {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let now = self.state().await;
            let waiting = now.unreconciled();
            if now == before && waiting.is_empty() {
                return now;
            }
            assert!(started.elapsed() < LIMIT, "no rest: {waiting:?}");
            before = now;
        }
    }

    fn file(&self, name: &str, objects: impl Iterator<Item = Value>) -> PathBuf {
        let path = self.folder.path().join(name);
        let text: String = objects.map(|object| format!("---\n{object}\n")).collect();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn all_files(&self) -> Vec<Value> {
        self.files.values().flat_map(|files| files.0.clone()).collect()
    }

    /// What each of the four plans says of each namespace.
    fn plans(&self, now: &State, to: &str) -> BTreeMap<&'static str, (i32, BTreeMap<String, Effects>)> {
        let kubeconfig = self.kubeconfig.display().to_string();
        let files = self.file("from.yaml", self.all_files().into_iter()).display().to_string();
        let users = || self.all_files().into_iter().filter(|object| object["kind"] != "Cluster");
        let shown = self.file("shown.yaml", users().chain(now.exported(true))).display().to_string();
        let hidden = self.file("hidden.yaml", users().chain(now.exported(false))).display().to_string();
        let plans: [(&'static str, Vec<&str>); 4] = [
            (FILES, vec!["--from", &files, "--to", to]),
            ("with field owners", vec!["--from", &shown, "--to", to]),
            (HIDDEN, vec!["--from", &hidden, "--to", to]),
            ("live", vec!["--live", "--kubeconfig", &kubeconfig, "--to", to]),
        ];
        plans
            .into_iter()
            .map(|(name, arguments)| {
                let (code, plan) = plan(&arguments);
                assert!(matches!(code, 0 | 3 | 4 | 5), "{name}: exit {code}: {:#}", plan["errors"]);
                (name, (code, foreseen(&plan)))
            })
            .collect()
    }

    /// Makes an edit in every namespace, and compares. Returns how many edits were made.
    async fn round(&mut self, draw: &mut Draw) -> usize {
        let before = self.rest().await;
        let mut edited = BTreeMap::new();
        let mut made = BTreeMap::new();
        for (namespace, files) in &self.files {
            let (name, edit) = EDITS[draw.below(EDITS.len())];
            let mut files = Files(files.0.clone());
            edit(&mut files, draw);
            edited.insert(namespace.clone(), files);
            made.insert(namespace.clone(), name);
        }
        let to = edited.values().flat_map(|files| files.0.clone());
        let to = self.file("to.yaml", to).display().to_string();
        let plans = self.plans(&before, &to);
        for (namespace, files) in &edited {
            let written = self.write(files).await;
            assert_eq!(written, Ok(()), "{namespace}, {}", made[namespace]);
        }
        let changed = edited.iter().filter(|(namespace, files)| self.files[*namespace].0 != files.0).count();
        self.files = edited;
        let after = self.rest().await;
        let happened = after.since(&before);
        let mut wrong = String::new();
        for (name, (code, plan)) in &plans {
            let is_told = |namespace: &String| ![FILES, HIDDEN].contains(name) || !self.ambiguous.contains(namespace);
            for (namespace, want) in happened.iter().filter(|(namespace, _)| is_told(namespace)) {
                let found = plan.get(namespace).cloned().unwrap_or_default();
                if !found.agrees_with(want) {
                    let edit = made[namespace];
                    wrong.push_str(&format!(
                        "\n{namespace}, {edit}, {name}:\n  foreseen {found:?}\n  happened {want:?}\n"
                    ));
                }
            }
            let want = happened.values().map(Effects::exit_code).max().unwrap_or_default();
            if *code != want && happened.keys().all(is_told) {
                wrong.push_str(&format!("\n{name}: exit code {code}, and {want} is what happened\n"));
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
        let edited = made.into_iter().filter(|(_, edit)| *edit == DEFAULT);
        self.ambiguous.extend(edited.map(|(namespace, _)| namespace));
        changed
    }
}

/// The plan, and its exit code.
fn plan(arguments: &[&str]) -> (i32, Value) {
    let output = command(&["plan", "-o", "json", "--now", NOW]).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().unwrap();
    let plan = serde_json::from_slice(&output.stdout);
    (code, plan.unwrap_or_else(|error| panic!("{arguments:?}: exit {code}, {error}: {said}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_plans_of_an_edit_say_what_then_happens() {
    // DEC-41, DEC-42, DEC-43, RS-39, ROLL-9, ROLL-12, ROLL-16
    let mut fleet = Fleet::embedded().await;
    let mut draw = Draw(0x2545_f491_4f6c_dd1d);
    let mut edits = 0;
    for _ in 0..ROUNDS {
        edits += fleet.round(&mut draw).await;
    }
    assert!(edits >= 300, "{edits} edits changed anything");
    println!("{edits} edits");
}
