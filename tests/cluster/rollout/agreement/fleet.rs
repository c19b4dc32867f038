//! Namespaces with a class and a Cluster each, on one API server; and rounds in which all of them are edited.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::super::provider;
use super::super::site::{api, bundle, text};
use super::actual::{Effects, State, foreseen};
use super::edits::{DEFAULT, Draw, EDITS, Files};
use super::flavour::{Flavour, OWN_FIELDS};
use super::installation::Installation;
use super::normal::{DEFAULTS, NORMALISES, keep_defaults};
use crate::harness::quiet::PROVIDERS;
use crate::harness::server::command;

/// How long a round may take on a busy machine.
const LIMIT: Duration = Duration::from_mins(3);
/// The plan of the class files alone.
const FILES: &str = "files";
/// The plan beside exported objects that do not say who owns their fields.
const HIDDEN: &str = "without field owners";
/// The time of all plans.
const NOW: &str = "2026-06-01T00:00:00Z";

/// A user of one namespace.
struct Place {
    files: Files,
    flavour: Flavour,
    /// Whether the default of a variable was edited. Only a Cluster that says who owns its fields tells then which
    /// variables still have the default of before (docs/plan.md, "Beside existing objects").
    is_ambiguous: bool,
}

impl Place {
    /// Whether a plan can know what happens here.
    fn is_known_to(&self, plan: &str) -> bool {
        let shows_owners = ![FILES, HIDDEN].contains(&plan);
        // What others share or have taken is in the record of owners alone (docs/plan.md, "Beside existing objects").
        shows_owners || !self.is_ambiguous && !self.flavour.shares
    }
}

/// An API server with everything that it rolls out, and its users.
pub(super) struct Fleet {
    installation: Installation,
    places: BTreeMap<String, Place>,
    /// Everything as the last round left it.
    last: State,
    /// What others write; edits are the same whatever that is.
    chance: Draw,
    providers: JoinSet<()>,
}

/// What each plan says: its exit code, and what it says of each namespace.
type Plans = BTreeMap<&'static str, (i32, BTreeMap<String, Effects>)>;

impl Fleet {
    pub(super) async fn on(installation: Installation, places: usize) -> Self {
        let mut providers = JoinSet::new();
        providers.spawn(provider::run(installation.client.clone(), String::new(), true));
        let chance = Draw(0x9e37_79b9_7f4a_7c15);
        let mut fleet = Fleet { installation, places: BTreeMap::new(), last: State::default(), chance, providers };
        for place in 0..places {
            fleet.settle(&format!("place-{place:02}"), Flavour::of(place)).await;
        }
        let of = fleet.places.iter().filter(|(_, place)| place.flavour.normalises);
        let normalising = of.map(|(namespace, _)| namespace.clone()).collect();
        if !fleet.installation.has_webhooks() {
            fleet.providers.spawn(keep_defaults(fleet.installation.client.clone(), normalising));
        }
        fleet.last = fleet.rest().await;
        fleet
    }

    /// A namespace with a class and a Cluster.
    async fn settle(&mut self, namespace: &str, flavour: Flavour) {
        let mut object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        object["metadata"]["labels"] = json!({NORMALISES: flavour.normalises.to_string()});
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
        let files = Files(files);
        self.write(&files).await.unwrap();
        self.places.insert(namespace.to_owned(), Place { files, flavour, is_ambiguous: false });
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
        let api = api(&self.installation.client, &text(object, "/metadata/namespace"), &api_version, &kind);
        let applied = api.patch(&name, &params, &kube::api::Patch::Apply(object)).await;
        applied.map(drop).map_err(|error| format!("{kind} {name}: {error}"))
    }

    async fn state(&self) -> State {
        State::read(&self.installation.client).await
    }

    /// Waits until every topology is reconciled, and nothing changes any more.
    async fn rest(&self) -> State {
        let started = Instant::now();
        loop {
            let before = self.state().await;
            self.installation.until_quiet().await;
            tokio::time::sleep(PROVIDERS).await;
            let now = self.state().await;
            let waiting = now.unreconciled();
            if now == before && waiting.is_empty() {
                return now;
            }
            assert!(started.elapsed() < LIMIT, "no rest: {waiting:?}\n{}", self.installation.log());
        }
    }

    /// Everything at rest after others have written to it. Where the reconciler can stand still, what they have written
    /// is still there; otherwise the topologies have had their way already.
    ///
    /// Where an edit removes a field, others take none: a reconciler that goes on may see what others wrote before it
    /// sees the edit, and set it back first (docs/plan.md, "Beside existing objects").
    async fn disturbed(&mut self, edited: &BTreeMap<String, Files>) -> State {
        self.installation.hold();
        let (client, mut missed) = (&self.installation.client, 0);
        for (namespace, place) in &self.places {
            let takes = !edited[namespace].lack_a_field_of(&place.files);
            missed += place.flavour.write_as_another(client, &self.last, namespace, takes, &mut self.chance).await;
        }
        let state = self.state().await;
        for (namespace, place) in &self.places {
            missed += place.flavour.make_records_old(client, &state, namespace).await;
        }
        assert!(missed == 0 || !self.installation.can_wait(), "{missed} objects were not what they were");
        if self.installation.can_wait() { self.state().await } else { self.rest().await }
    }

    fn file(&self, name: &str, objects: impl Iterator<Item = Value>) -> PathBuf {
        let path = self.installation.folder.path().join(name);
        let text: String = objects.map(|object| format!("---\n{object}\n")).collect();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn all_files(&self) -> Vec<Value> {
        self.places.values().flat_map(|place| place.files.0.clone()).collect()
    }

    /// The templates of classes, as they are stored.
    async fn templates(&self) -> Vec<Value> {
        let files = self.all_files();
        let kinds: BTreeSet<(String, String)> =
            files.iter().map(|object| (text(object, "/apiVersion"), text(object, "/kind"))).collect();
        let mut all = Vec::new();
        for (api_version, kind) in kinds.iter().filter(|(_, kind)| kind.ends_with("Template")) {
            let list =
                api(&self.installation.client, "", api_version, kind).list(&ListParams::default()).await.unwrap();
            for item in list.items {
                let mut object = serde_json::to_value(item).unwrap();
                (object["apiVersion"], object["kind"]) = (json!(api_version), json!(kind));
                if object["metadata"]["labels"]["topology.cluster.x-k8s.io/owned"].is_null() {
                    all.push(object);
                }
            }
        }
        all
    }

    /// What each of the four plans says of each namespace.
    async fn plans(&self, now: &State, to: &str) -> Plans {
        let kubeconfig = self.installation.kubeconfig.display().to_string();
        let files = self.file("from.yaml", self.all_files().into_iter()).display().to_string();
        let users = || self.all_files().into_iter().filter(|object| object["kind"] != "Cluster");
        let classes = users().filter(|object| object["kind"] == "ClusterClass").chain(self.templates().await);
        let shown = self.file("shown.yaml", classes.chain(now.exported(true))).display().to_string();
        let hidden = self.file("hidden.yaml", users().chain(now.exported(false))).display().to_string();
        let plans: [(&'static str, Vec<&str>); 4] = [
            (FILES, vec!["--from", &files, "--to", to]),
            ("with field owners", vec!["--from", &shown, "--to", to]),
            (HIDDEN, vec!["--from", &hidden, "--to", to]),
            ("live", vec!["--live", "--kubeconfig", &kubeconfig, "--to", to]),
        ];
        let reported = |(name, arguments): (&'static str, Vec<&str>)| {
            let (code, plan) = plan(&arguments);
            assert!(matches!(code, 0 | 3 | 4 | 5), "{name}: exit {code}: {:#}", plan["errors"]);
            (name, (code, foreseen(&plan)))
        };
        std::thread::scope(|scope| {
            let all = plans.map(|plan| scope.spawn(|| reported(plan)));
            all.into_iter().map(|plan| plan.join().unwrap()).collect()
        })
    }

    /// Makes an edit in every namespace, and compares. Returns how many edits were made.
    pub(super) async fn round(&mut self, draw: &mut Draw) -> usize {
        let mut edited = BTreeMap::new();
        let mut made = BTreeMap::new();
        for (namespace, place) in &self.places {
            let (name, edit) = EDITS[draw.below(EDITS.len())];
            let mut files = Files(place.files.0.clone());
            edit(&mut files, draw);
            edited.insert(namespace.clone(), files);
            made.insert(namespace.clone(), name);
        }
        let before = self.disturbed(&edited).await;
        let to = edited.values().flat_map(|files| files.0.clone());
        let to = self.file("to.yaml", to).display().to_string();
        let plans = self.plans(&before, &to).await;
        for (namespace, files) in &edited {
            let written = self.write(files).await;
            assert_eq!(written, Ok(()), "{namespace}, {}", made[namespace]);
        }
        self.installation.go_on();
        self.last = self.rest().await;
        let happened = self.last.since(&before, self.installation.can_wait());
        let wrong = self.compared(&plans, &happened, &made);
        assert!(wrong.is_empty(), "{wrong}");
        let mut changed = 0;
        for (namespace, files) in edited {
            let place = self.places.get_mut(&namespace).unwrap();
            changed += usize::from(place.files.0 != files.0);
            place.files = files;
            place.is_ambiguous |= made[&namespace] == DEFAULT;
        }
        changed
    }

    /// Where a plan foresaw something else than what happened.
    fn compared(
        &self,
        plans: &Plans,
        happened: &BTreeMap<String, Effects>,
        made: &BTreeMap<String, &'static str>,
    ) -> String {
        let mut wrong = String::new();
        for (name, (code, plan)) in plans {
            let reported: BTreeSet<&String> = self
                .places
                .iter()
                .filter(|(_, place)| place.is_known_to(name))
                .map(|(namespace, _)| namespace)
                .collect();
            for (namespace, want) in happened.iter().filter(|(namespace, _)| reported.contains(namespace)) {
                let (edit, flavour) = (made[namespace], self.places[namespace].flavour);
                let (mut found, mut want) = (plan.get(namespace).cloned().unwrap_or_default(), want.clone());
                if flavour.has_others && [FILES, HIDDEN].contains(name) {
                    // Who has set a field that a new template lacks is in the record of owners alone (docs/plan.md,
                    // "Beside existing objects").
                    [&mut found, &mut want].into_iter().for_each(|effects| effects.forget_lost(OWN_FIELDS));
                }
                if flavour.normalises && !self.installation.has_webhooks() {
                    // A new template lacks what the controller of a provider has set, until it sets that again
                    // (docs/plan.md, "Beside existing objects").
                    found.forget_set_again(&want, DEFAULTS);
                }
                if !found.agrees_with(&want) {
                    wrong.push_str(&format!(
                        "\n{namespace}, {edit}, {name}, {flavour:?}:\n  foreseen {found:?}\n  happened {want:?}\n"
                    ));
                }
            }
            let want = plan.values().map(Effects::exit_code).max().unwrap_or_default();
            if *code != want {
                wrong.push_str(&format!("\n{name}: exit code {code}, and {want} is that of its Clusters\n"));
            }
        }
        wrong
    }
}

/// The plan, and its exit code.
fn plan(arguments: &[&str]) -> (i32, Value) {
    let run = || command(&["plan", "-o", "json", "--now", NOW]).args(arguments).output().unwrap();
    let message = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let mut output = run();
    for _ in 0..3 {
        // On a machine that is busy with other tests an API server may take longer than a plan waits.
        if !message(&output).contains("the API server did not answer in time") {
            break;
        }
        output = run();
    }
    let code = output.status.code().unwrap();
    let plan = serde_json::from_slice(&output.stdout);
    (code, plan.unwrap_or_else(|error| panic!("{arguments:?}: exit {code}, {error}: {}", message(&output))))
}
