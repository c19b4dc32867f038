//! The API of `serve --embedded`: its objects at the start, its address, and its kubeconfig.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::args::{LinkFlags, ServeArgs, VariableFlags};
use super::atomic_file;
use super::files::FileReader;
use super::leading::NAMESPACE;
use super::listen;
use super::output::Text;
use super::state_dir::StateDir;
use super::status_line::StatusLine;
use ::server::telemetry::metrics::Metrics;
use ::server::webhook::server::{self, HttpServer};
use apiserver::http::front::{self, BearerToken};
use apiserver::{ApiOptions, Embedded, kubeconfig};
use engine::file_review::LoadedObject;
use engine::topology::class_status;
use model::crd;
use model::hub::contract::{assumed_contract, cloned_kind, definition_name, is_template_kind, names_contracts, plural};
use model::hub::{GROUP, Kind, ResourceDefinition, group_of, version_of};
use model::wire::manifest::Manifest;
use tls::authority::IssuedCertificate;
use tls::identity::ServerIdentity;
use tls::pair::CertificateFiles;

/// Interval in which an API without writes drops old changes and Events.
const SWEEP_PERIOD: Duration = Duration::from_secs(10);

/// The API: bound, and not serving yet.
pub(super) struct EmbeddedApi {
    pub embedded: Embedded,
    server: HttpServer,
    /// The CA certificate of the server, in PEM form.
    authority: String,
    token: BearerToken,
    /// Where it listens.
    pub address: SocketAddr,
    /// What kubectl needs to know.
    pub kubeconfig: PathBuf,
    /// The directory of the kubeconfig, which no other process uses meanwhile.
    _state: StateDir,
    /// What there is at the start.
    pub loaded: LoadedContents,
    /// What to say when the default port was in use.
    pub moved: Option<String>,
}

/// The loaded objects and files.
#[derive(Debug)]
pub(super) struct LoadedContents {
    pub classes: usize,
    pub clusters: usize,
    /// The files with the objects, in order.
    files: Vec<String>,
}

impl LoadedContents {
    /// Maximum number of files that are named.
    const NAMED: usize = 5;

    /// A line that names the files; `None` without any.
    pub(super) fn files_line(&self) -> Option<String> {
        if self.files.is_empty() {
            return None;
        }
        let named = self.files.iter().take(Self::NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.files.len().saturating_sub(Self::NAMED) {
            0 => Some(format!("Loaded {named}")),
            more => Some(format!("Loaded {named} and {more} more")),
        }
    }
}

impl EmbeddedApi {
    /// Loads the files and binds the address.
    ///
    /// # Errors
    /// When a file cannot be read, an object cannot be stored, the address is taken, or another process uses the state
    /// directory.
    pub(super) async fn bind(options: &ServeArgs, progress: &StatusLine) -> Result<EmbeddedApi> {
        let embedded = Embedded::new(ApiOptions::default());
        let loaded = seed(&embedded, &options.load, &options.links, progress)?;
        let wanted =
            listen::ListenAddress::new(options.api_addr, "--api-addr", (Ipv4Addr::LOCALHOST.into(), 6443), true);
        // What is counted are the callers of the webhook; these are others.
        let metrics = Arc::<Metrics>::default();
        let (identity, authority) = identity(&[wanted.ip()], &metrics)?;
        let limits =
            server::ConnectionLimits { patience: options.client_patience, ..server::ConnectionLimits::default() };
        let server = wanted.bind(Some(identity), limits, metrics).await?;
        let address = server.local_address()?;
        let moved = wanted.moved(address);
        let state = StateDir::lock(&options.state_dir)?;
        let kubeconfig = std::path::absolute(state.path.join("kubeconfig"))?;
        Ok(EmbeddedApi {
            embedded,
            server,
            authority,
            token: BearerToken::generate()?,
            address,
            kubeconfig,
            _state: state,
            loaded,
            moved,
        })
    }

    /// Writes the kubeconfig. This is the last step: a process that fails to start does not overwrite the file of a
    /// running one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn write_kubeconfig(&self) -> Result<()> {
        let EmbeddedApi { kubeconfig, .. } = self;
        let text = kubeconfig::text("topologist", &kubeconfig::url(self.address), &self.authority, &self.token);
        atomic_file::write(kubeconfig, &text, 0o600).with_context(|| format!("cannot write {}", kubeconfig.display()))
    }

    /// Serves until `stop`.
    pub(super) async fn serve(self, stop: CancellationToken) {
        let router = front::router(self.embedded.clone(), self.token, stop.clone());
        while_sweeping(|| self.embedded.sweep(), self.server.serve(router, stop)).await;
    }
}

/// Serves an API, and sweeps it regularly.
pub(super) async fn while_sweeping(sweep: impl Fn(), serving: impl Future<Output = ()>) {
    let sweeping = async {
        loop {
            tokio::time::sleep(SWEEP_PERIOD).await;
            sweep();
        }
    };
    tokio::select! {
        () = serving => {}
        () = sweeping => {}
    }
}

/// A certificate for the addresses, and its CA certificate.
pub(super) fn identity(addresses: &[IpAddr], metrics: &Arc<Metrics>) -> Result<(Arc<ServerIdentity>, String)> {
    let mut names = BTreeSet::from(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    let reachable = addresses.iter().filter(|address| !address.is_loopback() && !address.is_unspecified());
    names.extend(reachable.map(IpAddr::to_string));
    let names: Vec<String> = names.into_iter().collect();
    let issued = IssuedCertificate::generate(&names, 365)?;
    let identity = Arc::new(ServerIdentity::new(None, metrics.clone()));
    let files = CertificateFiles { certificate: "the generated certificate".into(), key: "the generated key".into() };
    identity.install(&issued.pair(), &files)?;
    Ok((identity, issued.authority))
}

/// Stores the initial objects.
fn seed(embedded: &Embedded, paths: &[PathBuf], links: &LinkFlags, progress: &StatusLine) -> Result<LoadedContents> {
    progress.step("Reading files");
    let input = FileReader::new(&VariableFlags::default(), links).read(paths)?;
    if let Some(unreadable) = input.unreadable.first() {
        bail!("{unreadable}");
    }
    // What has no name is nothing that can be stored, such as a review in a file.
    let is_stored =
        |loaded: &&LoadedObject| !loaded.manifest.key.name.is_empty() || loaded.manifest.admitted_kind().is_some();
    let stored: Vec<&LoadedObject> = input.objects.iter().filter(is_stored).collect();
    let mut count = BTreeMap::from(Kind::ALL.map(|kind| (kind.name(), 0_usize)));
    for loaded in &stored {
        let manifest = &loaded.manifest;
        let Some(kind) = manifest.admitted_kind() else { continue };
        if manifest.version().is_none() {
            bail!("{}: version {} of {GROUP} is not known", place(loaded), manifest.api_version);
        }
        *count.entry(kind.name()).or_default() += 1;
    }
    progress.step(&format!("Loading {} objects", stored.len()));
    let manifests: Vec<&Manifest> = stored.iter().map(|loaded| &loaded.manifest).collect();
    let mut objects = definitions(&manifests);
    objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}));
    objects.extend(manifests.into_iter().map(object));
    embedded.load(objects).map_err(|error| {
        let at = stored.iter().find(|loaded| error.object.ends_with(&*loaded.manifest.key.name));
        anyhow!("{}{error}", at.map(|loaded| format!("{}:{}: ", loaded.file, loaded.manifest.line)).unwrap_or_default())
    })?;
    let (classes, clusters) = (count[Kind::ClusterClass.name()], count[Kind::Cluster.name()]);
    info!(clusters, classes, objects = stored.len(), "Loaded objects");
    let mut files: Vec<String> = stored.iter().map(|loaded| loaded.file.clone()).collect();
    files.dedup();
    Ok(LoadedContents { classes, clusters, files })
}

/// The file and the line of an object.
fn place(loaded: &LoadedObject) -> String {
    let LoadedObject { file, manifest, .. } = loaded;
    format!("{file}:{}: {} {}", manifest.line, manifest.kind, manifest.key)
}

/// The definitions besides those of files: those of Cluster API, and assumed ones of kinds without a definition.
fn definitions(manifests: &[&Manifest]) -> Vec<Value> {
    let is_among_files = |definition: &Value| {
        manifests
            .iter()
            .any(|file| file.kind == "CustomResourceDefinition" && definition["metadata"]["name"] == *file.key.name)
    };
    let all = crd::definitions().into_iter().chain(assumed_definitions(manifests));
    all.filter(|definition| !is_among_files(definition)).collect()
}

/// The object of a manifest as it is stored: a class gets the status of its controller, and a definition its contracts.
fn object(manifest: &Manifest) -> Value {
    let mut value = manifest.value.clone();
    label_with_contracts(&mut value);
    if manifest.admitted_kind() == Some(Kind::ClusterClass) {
        // What is observed is what is stored.
        value["metadata"]["generation"] = json!(1);
        let with_status = serde_json::from_str(&class_status::with_status(&value.to_string()));
        value = with_status.unwrap_or(value);
    }
    value
}

/// Gives a provider's definition that names no contract, as those of `config/crd/bases` do, the labels that DEC-17
/// assumes.
fn label_with_contracts(definition: &mut Value) {
    let is_labelled = ResourceDefinition::from_object(definition).is_none_or(|read| names_contracts(&read.labels));
    let text = |path: &str| definition.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (group, kind) = (text("/spec/group"), text("/spec/names/kind"));
    if is_labelled || !group.ends_with(PROVIDERS) {
        return;
    }
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let versions: Vec<String> = versions.filter_map(|version| Some(version["name"].as_str()?.to_owned())).collect();
    let labels = assumed_labels(&group, &kind, versions.iter().map(String::as_str));
    warn!(
        name = definition_name(&group, &kind),
        ?labels,
        "Assumed contracts of CustomResourceDefinition without contract labels"
    );
    if let Some(metadata) = definition.get_mut("metadata").and_then(Value::as_object_mut) {
        let all = metadata.entry("labels").or_insert_with(|| json!({}));
        if let Some(all) = all.as_object_mut() {
            all.extend(labels.into_iter().map(|(name, versions)| (name, json!(versions))));
        }
    }
}

/// The labels that name the assumed contract of each version of a kind (DEC-17).
fn assumed_labels<'a>(group: &str, kind: &str, versions: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for version in versions {
        let listed = labels.entry(format!("cluster.x-k8s.io/{}", assumed_contract(group, kind, version))).or_default();
        listed.push_str(if listed.is_empty() { "" } else { "_" });
        listed.push_str(version);
    }
    labels
}

/// Definitions of the kinds of providers without one: their objects may have any fields, and the contract is that of
/// DEC-17. A template implies the kind that is cloned from it.
fn assumed_definitions(manifests: &[&Manifest]) -> Vec<Value> {
    let ours: BTreeSet<String> =
        crd::definitions().iter().filter_map(|one| Some(one["metadata"]["name"].as_str()?.to_owned())).collect();
    let mut kinds: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for manifest in manifests {
        let (group, version) = (group_of(&manifest.api_version), version_of(&manifest.api_version));
        if group.ends_with(PROVIDERS) {
            for kind in [Some(&*manifest.kind), cloned_kind(&manifest.kind)].into_iter().flatten() {
                kinds.entry((group, kind)).or_default().insert(version);
            }
        }
    }
    let kinds = kinds.into_iter().filter(|((group, kind), _)| !ours.contains(&definition_name(group, kind)));
    kinds.map(|((group, kind), versions)| assumed_definition(group, kind, &versions)).collect()
}

/// The suffix of the groups of providers.
const PROVIDERS: &str = ".cluster.x-k8s.io";

fn assumed_definition(group: &str, kind: &str, versions: &BTreeSet<&str>) -> Value {
    let labels = assumed_labels(group, kind, versions.iter().copied());
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut schema = anything.clone();
    schema["description"] =
        json!(format!("What a {kind} looks like is not known: no file of --load had its definition."));
    schema["properties"] = json!({"spec": anything, "status": anything});
    let is_template = is_template_kind(kind);
    if !is_template {
        // Asked for by the topology, which leaves out what a kind does not have (DEC-22).
        schema["properties"]["spec"]["properties"] = json!({"replicas": {"type": "integer", "format": "int32"}});
    }
    let stored = versions.last();
    let version = |name: &&str| {
        json!({"name": name, "served": true, "storage": Some(name) == stored,
            "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition_name(group, kind), "labels": labels},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural(kind), "categories": ["cluster-api"]},
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
        },
    })
}

/// Adds the commands with which a user can reach the API.
pub(super) fn add_usage(text: &mut Text, kubeconfig: &Path, address: SocketAddr) {
    text.line(format_args!(
        "A Kubernetes API is at https://{address}, in memory: nothing in it outlives this process. In another terminal:"
    ));
    text.line("");
    text.line(format_args!("  export KUBECONFIG={}", quoted(&kubeconfig.display().to_string())));
    text.line("  kubectl get clusters,clusterclasses --all-namespaces");
    text.line("  kubectl explain cluster.spec.topology");
    text.line("  kubectl apply --dry-run=server -f fixtures/quick-start/cluster.yaml");
    text.line("");
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%,".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use golang::yaml;

    fn manifests(text: &str) -> Vec<Manifest> {
        let documents = yaml::documents(text).into_iter().map(Result::unwrap);
        documents.flat_map(|document| model::wire::manifest::objects(document).unwrap()).collect()
    }

    #[test]
    fn the_loaded_files_are_named_up_to_a_number() {
        let text = |count: usize| {
            let files = (0..count).map(|number| format!("{number}.yaml")).collect();
            LoadedContents { classes: 0, clusters: 0, files }.files_line()
        };
        assert_eq!(text(0), None);
        assert_eq!(text(2).unwrap(), "Loaded 0.yaml, 1.yaml");
        assert_eq!(text(7).unwrap(), "Loaded 0.yaml, 1.yaml, 2.yaml, 3.yaml, 4.yaml and 2 more");
    }

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        for (path, want) in [("/home/me/a-b_1", "/home/me/a-b_1"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'")] {
            assert_eq!(quoted(path), want);
        }
    }

    #[test]
    fn kinds_of_providers_without_a_definition_get_one_that_takes_anything() {
        // DEC-17
        let all = manifests(
            "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: DevMachineTemplate, metadata: {name: a}}\n\
             ---\n\
             {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSCluster, metadata: {name: b}}\n---\n\
             {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: AWSCluster, metadata: {name: c}}\n---\n\
             {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfig, metadata: {name: d}}\n---\n\
             {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: \
             kubeadmconfigs.bootstrap.cluster.x-k8s.io}}\n---\n\
             {apiVersion: example.com/v1, kind: Other, metadata: {name: e}}\n---\n\
             {apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: f}}",
        );
        let made = definitions(&all.iter().collect::<Vec<_>>());
        let made: Vec<_> = made.iter().filter(|one| !crd::definitions().contains(one)).collect();
        let names_and_labels =
            made.iter().map(|one| (one["metadata"]["name"].as_str().unwrap(), one["metadata"]["labels"].clone()));
        let want = [
            ("awsclusters.infrastructure.cluster.x-k8s.io", json!({"cluster.x-k8s.io/v1beta1": "v1beta1_v1beta2"})),
            ("devmachines.infrastructure.cluster.x-k8s.io", json!({"cluster.x-k8s.io/v1beta2": "v1beta2"})),
            ("devmachinetemplates.infrastructure.cluster.x-k8s.io", json!({"cluster.x-k8s.io/v1beta2": "v1beta2"})),
        ];
        assert_eq!(names_and_labels.collect::<Vec<_>>(), want);
        let stored = made[0]["spec"]["versions"].as_array().unwrap().iter().map(|version| &version["storage"]);
        assert_eq!(stored.collect::<Vec<_>>(), [&json!(false), &json!(true)]);
    }
}
