//! The manifests say the same as the program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::CommandFactory;
use serde_json::{Value, json};
use topologist::admission::{Phase, WebhookRules, webhook_rules};
use topologist::cli::args::Arguments;
use topologist::crd;
use topologist::extensions::config::CONFIG_GROUP;
use topologist::hub::{GROUP, Kind};
use topologist::webhook::extension_configs::END_POINTS;
use topologist::webhook::server::ConnectionLimits;
use topologist::webhook::{deletions, scales};
use topologist::wire::conversion_review::PATH;

use crate::harness::kustomize::{
    OVERLAYS, find, manifests, overlay, overlay_with, render, render_by_address, render_own, scope, stream, variables,
};
use crate::harness::server::command;

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Every webhook of the two configurations, with the phase that it is for.
fn all_webhooks(objects: &[Value]) -> Vec<(Phase, &Value)> {
    let of = |kind, phase| list(&find(objects, kind, "topologist")["webhooks"]).iter().map(move |hook| (phase, hook));
    of("MutatingWebhookConfiguration", Phase::Default)
        .chain(of("ValidatingWebhookConfiguration", Phase::Validate))
        .collect()
}

fn is_of_extensions(webhook: &Value) -> bool {
    webhook["rules"][0]["apiGroups"][0] == CONFIG_GROUP
}

/// Whether a webhook is for deletions of what topologies have made.
fn is_of_deletions(webhook: &Value) -> bool {
    webhook["clientConfig"]["service"]["path"] == deletions::PATH
}

fn is_of_scales(webhook: &Value) -> bool {
    webhook["clientConfig"]["service"]["path"] == scales::PATH
}

/// Those for objects in namespaces that have rules.
fn webhooks(objects: &[Value]) -> Vec<(Phase, &Value)> {
    let others = |webhook: &Value| is_of_extensions(webhook) || is_of_deletions(webhook) || is_of_scales(webhook);
    all_webhooks(objects).into_iter().filter(|(_, webhook)| !others(webhook)).collect()
}

fn kind_of(webhook: &Value) -> Kind {
    let resources = strings(&webhook["rules"][0]["resources"]);
    Kind::ALL.into_iter().chain(Kind::OF_MACHINES).find(|kind| resources == [kind.plural()]).unwrap()
}

/// Compares the webhooks of manifests with those of the program.
fn webhooks_are(objects: &[Value], hooks: Vec<WebhookRules>, name: &str) {
    let mut called = Vec::new();
    for (phase, webhook) in webhooks(objects) {
        let label = webhook["name"].as_str().unwrap();
        assert_eq!(list(&webhook["rules"]).len(), 1, "{label}");
        let rule = &webhook["rules"][0];
        assert_eq!(strings(&rule["apiGroups"]), [GROUP], "{label}");
        let versions = strings(&rule["apiVersions"]).join(" ");
        let policy = webhook["matchPolicy"].as_str().unwrap().to_owned();
        let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap().to_owned();
        called.push((phase, kind_of(webhook), path, versions, policy, strings(&rule["operations"]).join(" ")));
    }
    let want = hooks.into_iter().map(|hook| {
        let versions = hook.versions.iter().map(|version| version.name()).collect::<Vec<_>>().join(" ");
        let operations = hook.operations().iter().map(|operation| operation.name()).collect::<Vec<_>>().join(" ");
        let policy = if hook.is_exact { "Exact" } else { "Equivalent" };
        (hook.phase, hook.kind, hook.path.to_owned(), versions, policy.to_owned(), operations)
    });
    called.sort();
    let mut want: Vec<_> = want.collect();
    want.sort();
    assert_eq!(called, want, "{name}");
}

#[test]
fn webhooks_are_those_of_the_program_and_none_for_machines_without_their_controllers() {
    // ADM-001, ADM-002, DEC-3, MA-28
    for name in OVERLAYS {
        webhooks_are(&overlay(name), webhook_rules(false), name);
        webhooks_are(&overlay_with(name, &["lifecycle"], &[]), webhook_rules(true), name);
    }
}

#[test]
fn extension_configs_are_reviewed_where_no_other_manager_does_so() {
    // RH-2.4, RH-2.5
    for name in OVERLAYS {
        let objects = overlay(name);
        let all = all_webhooks(&objects).into_iter();
        let of_extensions = all.filter(|(_, webhook)| is_of_extensions(webhook)).map(|(phase, webhook)| {
            let rule = &webhook["rules"][0];
            let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
            assert_eq!(list(&webhook["rules"]).len(), 1, "{name}");
            assert_eq!((strings(&rule["resources"]), &rule["scope"]), (vec!["extensionconfigs"], &json!("Cluster")));
            assert_eq!(
                (strings(&rule["operations"]), &webhook["matchPolicy"]),
                (vec!["CREATE", "UPDATE"], &json!("Equivalent"))
            );
            assert_eq!(webhook["matchConditions"][0]["name"], "not-merely-released");
            (phase, rule["apiVersions"][0].as_str().unwrap(), path)
        });
        let newest = END_POINTS.into_iter().filter(|(_, version, _)| name == "alone" && *version == "v1beta2");
        assert_eq!(of_extensions.collect::<Vec<_>>(), newest.collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn the_list_of_hooks_is_the_one_that_rules_need() {
    // ADM-001, ADM-002, DEC-3
    let shown = |lifecycle: bool| -> Vec<String> {
        let versions =
            |hook: &WebhookRules| hook.versions.iter().map(|version| version.name()).collect::<Vec<_>>().join(",");
        webhook_rules(lifecycle).iter().map(|hook| format!("{} {}", hook.path, versions(hook))).collect()
    };
    let of_topologies = [
        "/mutate-cluster-x-k8s-io-v1beta2-cluster v1beta2",
        "/mutate-cluster-x-k8s-io-v1beta1-clusterclass v1beta1",
        "/validate-cluster-x-k8s-io-v1beta2-cluster v1beta2",
        "/validate-cluster-x-k8s-io-v1beta2-clusterclass v1beta1,v1beta2",
    ];
    assert_eq!(shown(false), of_topologies);
    let with_machines = shown(true);
    assert_eq!(with_machines.len(), 12, "two for each of four kinds");
    assert!(of_topologies.iter().all(|hook| with_machines.iter().any(|other| other == hook)));
    let phases: Vec<Phase> = webhook_rules(true).iter().map(|hook| hook.phase).collect();
    assert!(phases.is_sorted(), "all defaults are set before anything is judged");
}

#[test]
fn webhooks_fail_closed_and_have_no_side_effects() {
    for name in OVERLAYS {
        for (_, webhook) in all_webhooks(&overlay_with(name, &["lifecycle"], &[])) {
            let label = webhook["name"].as_str().unwrap();
            assert!(label.ends_with(".topologist.dev"), "{label}: the alerts go by this");
            // DEC-56: the review of a deletion writes the hold.
            let writes = name == "take-over" && label == "validation.cluster.topologist.dev";
            let is_scale = is_of_scales(webhook);
            let policy = if is_of_deletions(webhook) || is_scale { "Ignore" } else { "Fail" };
            let effects = if writes { "NoneOnDryRun" } else { "None" };
            assert_eq!(
                (&webhook["failurePolicy"], &webhook["sideEffects"]),
                (&policy.into(), &effects.into()),
                "{name} {label}"
            );
            assert_eq!(strings(&webhook["admissionReviewVersions"]), ["v1"], "{label}");
            let timeout = if is_scale { 2 } else { 10 };
            assert_eq!(webhook["timeoutSeconds"], timeout, "{label}: longer than the wait for a class");
            assert!(
                webhook["clientConfig"].get("caBundle").is_none(),
                "{label}: applying it again would undo the bundle"
            );
        }
    }
}

#[test]
fn only_after_a_take_over_deletions_are_held() {
    // DEC-56
    let file = scope("team-a");
    for name in OVERLAYS {
        let objects = overlay(name);
        let of_deletions = all_webhooks(&objects).into_iter().filter(|(_, webhook)| is_of_deletions(webhook));
        assert_eq!(of_deletions.count(), usize::from(name == "take-over"), "{name}");
        let defaults = &find(&objects, "MutatingWebhookConfiguration", "topologist")["webhooks"][0];
        let condition = defaults["matchConditions"][0]["expression"].as_str().unwrap();
        assert_eq!(condition.contains("skip-delete-hooks"), name == "take-over", "{name}");
    }
    for order in orders(&["namespaced", "deletion-hold"]) {
        let objects = overlay_with("beside", &order, &[("scope.yaml", &*file)]);
        let [(_, webhook)] =
            all_webhooks(&objects).into_iter().filter(|(_, one)| is_of_deletions(one)).collect::<Vec<_>>()[..]
        else {
            panic!("{order:?}");
        };
        let namespace = &webhook["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"];
        assert_eq!(namespace, "team-a", "{order:?}");
    }
}

#[test]
fn only_the_overlay_alone_has_the_crds_and_they_equal_those_of_the_program() {
    for name in OVERLAYS {
        let objects = overlay(name);
        let brought: Vec<_> = objects
            .into_iter()
            .filter(|object| object["kind"] == "CustomResourceDefinition")
            .map(|mut object| {
                let labels = object["metadata"]["labels"].as_object_mut().unwrap();
                labels.remove("app.kubernetes.io/name");
                if labels.is_empty() {
                    object["metadata"].as_object_mut().unwrap().remove("labels");
                }
                (object["metadata"]["name"].clone().to_string(), object)
            })
            .collect();
        let want = if name == "alone" { crd::cluster_api() } else { Vec::new() };
        let want: BTreeMap<_, _> =
            want.into_iter().map(|object| (object["metadata"]["name"].to_string(), object)).collect();
        assert_eq!(brought.into_iter().collect::<BTreeMap<_, _>>(), want, "{name}");
    }
    for (family, file) in [("cluster-api", "cluster.x-k8s.io.yaml"), ("embedded-provider", "topologist.dev.yaml")] {
        let printed = command(&["crds", "--only", family]).output().unwrap().stdout;
        let kept = fs::read(manifests().join("crds").join(file)).unwrap();
        assert!(kept == printed, "manifests/crds/{file} is out of date: run `make manifests`");
    }
}

#[test]
fn objects_are_converted_behind_the_service_that_answers_early() {
    let objects = overlay("alone");
    let definitions = objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition");
    let (converted, others): (Vec<_>, Vec<_>) =
        definitions.partition(|definition| list(&definition["spec"]["versions"]).len() > 1);
    assert!(others.iter().all(|definition| definition["spec"].get("conversion").is_none()));
    assert_eq!(converted.len(), Kind::ALL.len() + 1, "and ExtensionConfigs");
    for definition in converted {
        let conversion = &definition["spec"]["conversion"];
        assert_eq!(conversion["strategy"], "Webhook");
        let client = &conversion["webhook"]["clientConfig"];
        assert!(client.get("caBundle").is_none(), "applying it again would undo the bundle");
        let service = &client["service"];
        assert_eq!((&service["namespace"], &service["path"]), (&"topologist-system".into(), &PATH.into()));
        let service = find(&objects, "Service", service["name"].as_str().unwrap());
        assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
        let versions: Vec<_> = list(&definition["spec"]["versions"]).iter().map(|version| &version["name"]).collect();
        let is_config = definition["spec"]["names"]["kind"] == "ExtensionConfig";
        assert_eq!(versions, ["v1beta2", if is_config { "v1alpha1" } else { "v1beta1" }]);
    }
}

#[test]
fn every_object_can_be_applied_by_a_client() {
    // kubectl keeps the object in an annotation, and annotations have a limit.
    const ANNOTATIONS: usize = 256 * 1024;
    for name in OVERLAYS {
        for object in overlay(name) {
            assert!(object.to_string().len() < ANNOTATIONS, "{name}: {} is too large", object["metadata"]["name"]);
        }
    }
}

#[test]
fn everything_can_be_found_by_its_label_or_its_namespace() {
    // Which is how docs/operations.md uninstalls it.
    for name in OVERLAYS {
        for object in overlay(name) {
            let metadata = &object["metadata"];
            let what = format!("{name}: {} {}", object["kind"], metadata["name"]);
            assert_eq!(metadata["labels"]["app.kubernetes.io/name"], "topologist", "{what}");
        }
    }
}

#[test]
fn each_way_sets_its_flags() {
    let common = [("TOPOLOGIST_LOG_FORMAT", "json"), ("TOPOLOGIST_SHUTDOWN_GRACE", "10s")];
    let own = ("TOPOLOGIST_MANAGE_CERTIFICATES", "true");
    let templates = ("TOPOLOGIST_WATCH_TEMPLATES", "true");
    for (name, more) in [
        ("alone", vec![own, templates, ("TOPOLOGIST_CONTROLLERS", "all")]),
        ("beside", vec![own, ("TOPOLOGIST_CONTROLLERS", "none")]),
        (
            "cert-manager",
            vec![
                ("TOPOLOGIST_CONTROLLERS", "none"),
                ("TOPOLOGIST_TLS_CERT", "/certificates/tls.crt"),
                ("TOPOLOGIST_TLS_KEY", "/certificates/tls.key"),
            ],
        ),
        ("namespaced", vec![own, ("TOPOLOGIST_CONTROLLERS", "none"), ("TOPOLOGIST_NAMESPACE", "default")]),
        ("take-over", vec![own, templates, ("TOPOLOGIST_CONTROLLERS", "all"), ("TOPOLOGIST_TAKE_OVER", "true")]),
    ] {
        let want = common.into_iter().chain(more).map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(variables(&overlay(name)), want.collect(), "{name}");
    }
}

#[test]
fn variables_of_the_deployment_are_flags_of_the_program() {
    // An unknown variable is not an error to the program, so a mistake in a name would go unnoticed.
    let arguments = Arguments::command();
    let serve = arguments.find_subcommand("serve").unwrap();
    let known: BTreeSet<_> = serve.get_arguments().filter_map(|flag| flag.get_env()?.to_str()).collect();
    for name in OVERLAYS {
        for variable in variables(&overlay_with(name, &["lifecycle"], &[])).keys() {
            assert!(known.contains(&**variable), "{name}: {variable}");
        }
    }
}

#[test]
fn flags_of_each_way_go_together() {
    let with_machines = OVERLAYS.map(|name| overlay_with(name, &["lifecycle"], &[]));
    for (name, objects) in
        OVERLAYS.into_iter().zip(OVERLAYS.map(overlay)).chain(OVERLAYS.into_iter().zip(with_machines))
    {
        let container = &find(&objects, "Deployment", "topologist")["spec"]["template"]["spec"]["containers"][0];
        let mut arguments = strings(&container["args"]);
        arguments.extend(["--kubeconfig", "/does/not/exist"]);
        let output = command(&arguments).envs(variables(&objects)).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {text}");
        assert!(text.contains("cannot read /does/not/exist"), "{name}: {text}");
    }
}

#[test]
fn a_pod_has_time_to_finish_its_requests() {
    let objects = overlay("beside");
    let pod = &find(&objects, "Deployment", "topologist")["spec"]["template"]["spec"];
    let given = Duration::from_secs(pod["terminationGracePeriodSeconds"].as_u64().unwrap());
    let grace: u64 = variables(&objects)["TOPOLOGIST_SHUTDOWN_GRACE"].strip_suffix('s').unwrap().parse().unwrap();
    let needed = Duration::from_secs(grace) + ConnectionLimits::default().drain;
    assert!(given >= needed + Duration::from_secs(10), "{given:?} is not enough for {needed:?}");
}

#[test]
fn services_probes_and_policies_name_the_ports_of_the_program() {
    let help = String::from_utf8(command(&["serve", "--help"]).output().unwrap().stdout).unwrap();
    let objects = overlay("beside");
    let container = &find(&objects, "Deployment", "topologist")["spec"]["template"]["spec"]["containers"][0];
    for port in list(&container["ports"]) {
        assert!(help.contains(&format!("0.0.0.0:{}", port["containerPort"])), "{port}");
    }
    let named: Vec<_> = list(&container["ports"]).iter().map(|port| port["name"].as_str().unwrap()).collect();
    assert_eq!(named, ["webhook", "conversion", "admin"]);
    for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        let get = &container[probe]["httpGet"];
        assert_eq!((&get["port"], &get["path"]), (&"admin".into(), &path.into()));
    }
    for (name, port, is_early) in [("topologist", "webhook", false), ("topologist-conversion", "conversion", true)] {
        let service = &find(&objects, "Service", name)["spec"];
        assert_eq!((&service["ports"][0]["port"], &service["ports"][0]["targetPort"]), (&443.into(), &port.into()));
        assert_eq!(service["publishNotReadyAddresses"] == true, is_early, "{name}");
        let selector = &find(&objects, "Deployment", "topologist")["spec"]["selector"]["matchLabels"];
        assert_eq!(&service["selector"], selector, "{name}");
    }
    let ingress = list(&find(&objects, "NetworkPolicy", "topologist")["spec"]["ingress"]).to_vec();
    for rule in &ingress {
        let is_restricted = rule.get("from").is_some();
        let ports: Vec<_> = list(&rule["ports"]).iter().map(|port| port["port"].as_str().unwrap()).collect();
        assert_eq!(ports, if is_restricted { vec!["admin"] } else { vec!["webhook", "conversion"] });
    }
    assert_eq!(ingress.len(), 2);
}

#[test]
fn certificates_of_cert_manager_are_for_the_names_that_the_api_server_calls() {
    let objects = overlay("cert-manager");
    let names = strings(&find(&objects, "Certificate", "topologist")["spec"]["dnsNames"]).join(" ");
    for service in objects.iter().filter(|object| object["kind"] == "Service") {
        let host = format!("{}.topologist-system.svc", service["metadata"]["name"].as_str().unwrap());
        assert!(names.split(' ').any(|name| name == host), "{host} is not among {names}");
    }
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let source = &find(&objects, kind, "topologist")["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
        assert_eq!(source, "topologist-system/topologist", "{kind}");
    }
}

/// What a role grants: `group/resource[names]: verbs`, sorted.
fn grants(role: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for rule in list(&role["rules"]) {
        let names = rule.get("resourceNames").map(|names| format!("[{}]", strings(names).join(",")));
        for group in strings(&rule["apiGroups"]) {
            for resource in strings(&rule["resources"]) {
                let verbs = strings(&rule["verbs"]).join(" ");
                all.insert(format!("{group}/{resource}{}: {verbs}", names.as_deref().unwrap_or_default()));
            }
        }
    }
    all
}

/// What the ServiceAccount may do, by the namespace where it may; `*` is everywhere.
fn permissions(objects: &[Value]) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for binding in objects.iter().filter(|object| object["kind"].as_str().unwrap().ends_with("RoleBinding")) {
        let subject = &binding["subjects"][0];
        assert_eq!(list(&binding["subjects"]).len(), 1);
        assert_eq!((&subject["kind"], &subject["name"]), (&"ServiceAccount".into(), &"topologist".into()));
        assert_eq!(subject["namespace"], "topologist-system");
        let place = binding["metadata"]["namespace"].as_str().unwrap_or("*").to_owned();
        let (kind, name) = (&binding["roleRef"]["kind"], &binding["roleRef"]["name"]);
        // A RoleBinding of a ClusterRole grants its rules in one namespace.
        let of_role = if *kind == "Role" { binding["metadata"].get("namespace") } else { None };
        let is_it = |role: &&Value| {
            role["kind"] == *kind && role["metadata"]["name"] == *name && role["metadata"].get("namespace") == of_role
        };
        let found: Vec<_> = objects.iter().filter(is_it).collect();
        let [role] = found[..] else { panic!("{kind} {name} in {place}: {}", found.len()) };
        all.entry(place).or_default().extend(grants(role));
    }
    let roles = objects.iter().filter(|object| object["kind"].as_str().unwrap().ends_with("Role")).count();
    let bindings = objects.iter().filter(|object| object["kind"].as_str().unwrap().ends_with("RoleBinding")).count();
    assert_eq!(roles, bindings, "a role that nobody has");
    all
}

/// Follows Clusters, ClusterClasses and sizes of MachineDeployments, and looks at what belongs to a Cluster whose
/// version changes.
const READS: [&str; 8] = [
    "cluster.x-k8s.io/clusterclasses: list watch",
    "cluster.x-k8s.io/clusters: list watch",
    "cluster.x-k8s.io/machinedeployments: list watch",
    "cluster.x-k8s.io/machinepools: get list",
    "cluster.x-k8s.io/machines: list",
    "controlplane.cluster.x-k8s.io/*: get",
    "infrastructure.cluster.x-k8s.io/*: get",
    "/events: create patch",
];
/// Reaches workload clusters (DEC-40), with the component `workload-clusters`.
const KUBECONFIGS: &str = "/secrets: get";
/// Reads Namespaces before the deletion of a template is denied (DEC-110), with the component `templates`.
const NAMESPACES: &str = "/namespaces: get";
/// Watches the templates of classes (DEC-57), with the component `templates`.
const TEMPLATES: [&str; 9] = [
    "bootstrap.cluster.x-k8s.io/eksconfigtemplates: get list watch",
    "bootstrap.cluster.x-k8s.io/k0sworkerconfigtemplates: get list watch",
    "bootstrap.cluster.x-k8s.io/kubeadmconfigtemplates: get list watch",
    "bootstrap.cluster.x-k8s.io/microk8sconfigtemplates: get list watch",
    "bootstrap.cluster.x-k8s.io/nodeadmconfigtemplates: get list watch",
    "bootstrap.cluster.x-k8s.io/rke2configtemplates: get list watch",
    "bootstrap.cluster.x-k8s.io/talosconfigtemplates: get list watch",
    "controlplane.cluster.x-k8s.io/*: get list watch",
    "infrastructure.cluster.x-k8s.io/*: get list watch",
];
/// Watches labels of definitions and reads their schemas, which are in no namespace (CT-16.4), and the hooks of
/// ExtensionConfigs (RH-1.2).
const DEFINITIONS: [&str; 2] = [
    "apiextensions.k8s.io/customresourcedefinitions: get list watch",
    "runtime.cluster.x-k8s.io/extensionconfigs: list watch",
];
/// Elects a leader.
const LEADS: [&str; 2] = ["coordination.k8s.io/leases: create", "coordination.k8s.io/leases[topologist]: get update"];
/// Manages its certificates: in its namespace, and everywhere.
const CERTIFIES: [&str; 3] =
    ["/secrets: create", "/secrets[topologist-certificates]: list watch update", "/events: create patch"];
const BUNDLES: [&str; 3] = [
    "admissionregistration.k8s.io/mutatingwebhookconfigurations[topologist]: list watch patch",
    "admissionregistration.k8s.io/validatingwebhookconfigurations[topologist]: list watch patch",
    "apiextensions.k8s.io/customresourcedefinitions[\
     clusterclasses.cluster.x-k8s.io,clusters.cluster.x-k8s.io,\
     embeddedclusters.infrastructure.topologist.dev,\
     embeddedclustertemplates.infrastructure.topologist.dev,\
     embeddedconfigs.bootstrap.topologist.dev,embeddedconfigtemplates.bootstrap.topologist.dev,\
     embeddedcontrolplanes.controlplane.topologist.dev,\
     embeddedcontrolplanetemplates.controlplane.topologist.dev,\
     embeddedmachinepools.infrastructure.topologist.dev,\
     embeddedmachinepooltemplates.infrastructure.topologist.dev,\
     embeddedmachines.infrastructure.topologist.dev,\
     embeddedmachinetemplates.infrastructure.topologist.dev,\
     extensionconfigs.runtime.cluster.x-k8s.io]: \
     list watch patch",
];
/// Reconciles: in namespaces of Clusters.
const RECONCILES: [&str; 16] = [
    "/configmaps: create delete get",
    "/events: create patch",
    "bootstrap.cluster.x-k8s.io/*: create delete get list patch watch",
    "bootstrap.topologist.dev/*: create delete get list patch watch",
    "cluster.x-k8s.io/clusterclasses/status: patch",
    "cluster.x-k8s.io/clusters/status: patch",
    "cluster.x-k8s.io/clusters: get patch",
    "cluster.x-k8s.io/machinedeployments: create delete get list patch watch",
    "cluster.x-k8s.io/machinehealthchecks: create delete get list patch watch",
    "cluster.x-k8s.io/machinepools: create delete get list patch watch",
    "cluster.x-k8s.io/machines: list watch",
    "cluster.x-k8s.io/machinesets: get list patch watch",
    "controlplane.cluster.x-k8s.io/*: create delete get list patch watch",
    "controlplane.topologist.dev/*: create delete get list patch watch",
    "infrastructure.cluster.x-k8s.io/*: create delete get list patch watch",
    "infrastructure.topologist.dev/*: create delete get list patch watch",
];
/// Reconciles: what is in no namespace, or in that of Cluster API (CT-16.4).
const BEYOND: [&str; 5] = [
    "/namespaces: get",
    "apiextensions.k8s.io/customresourcedefinitions: list watch",
    "coordination.k8s.io/leases[controller-leader-election-capi]: list watch",
    "runtime.cluster.x-k8s.io/extensionconfigs/status: patch",
    "runtime.cluster.x-k8s.io/extensionconfigs: list watch patch",
];

/// Runs machines (CT-16.2, CT-16.3, CT-16.5), besides [`RECONCILES`], which includes the status of providers' kinds.
const RUNS_MACHINES: [&str; 20] = [
    "/secrets: create get patch",
    "bootstrap.cluster.x-k8s.io/*/finalizers: update",
    "bootstrap.topologist.dev/*/finalizers: update",
    "cluster.x-k8s.io/clusters/finalizers: update",
    "cluster.x-k8s.io/machinedeployments/finalizers: update",
    "cluster.x-k8s.io/machinedeployments/status: patch",
    "cluster.x-k8s.io/machinedrainrules: list watch",
    "cluster.x-k8s.io/machinehealthchecks/status: patch",
    "cluster.x-k8s.io/machinepools/finalizers: update",
    "cluster.x-k8s.io/machinepools/status: patch",
    "cluster.x-k8s.io/machines/finalizers: update",
    "cluster.x-k8s.io/machines/status: patch",
    "cluster.x-k8s.io/machines: create delete get patch",
    "cluster.x-k8s.io/machinesets/finalizers: update",
    "cluster.x-k8s.io/machinesets/status: patch",
    "cluster.x-k8s.io/machinesets: create delete get patch",
    "controlplane.cluster.x-k8s.io/*/finalizers: update",
    "controlplane.topologist.dev/*/finalizers: update",
    "infrastructure.cluster.x-k8s.io/*/finalizers: update",
    "infrastructure.topologist.dev/*/finalizers: update",
];

type Place<'a> = (&'a str, Vec<&'a str>);

fn places(places: Vec<Place<'_>>) -> BTreeMap<String, BTreeSet<String>> {
    let grants = |grants: Vec<&str>| grants.into_iter().map(str::to_owned).collect();
    places.into_iter().map(|(place, granted)| (place.to_owned(), grants(granted))).collect()
}

/// What the ServiceAccount may do in its own namespace where it manages its certificates.
fn own() -> Place<'static> {
    ("topologist-system", [&LEADS[..], &CERTIFIES].concat())
}

#[test]
fn permissions_are_exactly_those_that_each_way_needs() {
    // DEC-47: no Secret of tenants is read.
    let everywhere = "*";
    let reconciles = (everywhere, [&READS[..], &DEFINITIONS, &BUNDLES, &RECONCILES, &BEYOND].concat());
    for (name, want) in [
        ("alone", vec![reconciles.clone(), own()]),
        ("take-over", vec![reconciles, own()]),
        ("beside", vec![(everywhere, [&READS[..], &DEFINITIONS, &BUNDLES].concat()), own()]),
        ("cert-manager", vec![(everywhere, [&READS[..], &DEFINITIONS].concat())]),
        ("namespaced", vec![(everywhere, [&DEFINITIONS[..], &BUNDLES].concat()), ("default", READS.to_vec()), own()]),
    ] {
        assert_eq!(permissions(&overlay(name)), places(want), "{name}");
    }
}

#[test]
fn in_one_namespace_roles_grant_everything_except_cluster_scoped_objects() {
    // DEC-37: alone and take-over too.
    let file = scope("team-a");
    let files = [("scope.yaml", &*file)];
    let everywhere = ("*", [&DEFINITIONS[..], &BUNDLES, &BEYOND].concat());
    let want = places(vec![everywhere.clone(), ("team-a", [&READS[..], &RECONCILES].concat()), own()]);
    for name in ["alone", "take-over"] {
        let objects = overlay_with(name, &["namespaced"], &files);
        assert_eq!(permissions(&objects), want, "{name}");
        assert_eq!(variables(&objects)["TOPOLOGIST_NAMESPACE"], "team-a");
        assert!(!stream(&objects).contains(":\"scope\""), "{name}: the placeholder is left over");
    }
}

#[test]
fn templates_of_classes_are_watched_with_one_component_on_each_way() {
    // DEC-57
    let help = String::from_utf8(command(&["serve", "--help"]).output().unwrap().stdout).unwrap();
    assert!(help.contains("TOPOLOGIST_WATCH_TEMPLATES"));
    let objects = overlay_with("beside", &["templates"], &[]);
    let want = places(vec![("*", [&READS[..], &TEMPLATES, &[NAMESPACES], &DEFINITIONS, &BUNDLES].concat()), own()]);
    assert_eq!(permissions(&objects), want);
    assert_eq!(variables(&objects)["TOPOLOGIST_WATCH_TEMPLATES"], "true");
    assert!(!variables(&overlay("beside")).contains_key("TOPOLOGIST_WATCH_TEMPLATES"));
    let file = scope("team-a");
    let everywhere = ("*", [&[NAMESPACES][..], &DEFINITIONS, &BUNDLES].concat());
    let want = places(vec![everywhere, ("team-a", [&READS[..], &TEMPLATES].concat()), own()]);
    for components in [["namespaced", "templates"], ["templates", "namespaced"]] {
        let objects = overlay_with("beside", &components, &[("scope.yaml", &*file)]);
        assert_eq!(permissions(&objects), want, "{components:?}");
    }
}

#[test]
fn rules_of_providers_are_collected_where_controllers_run() {
    // CT-16.1
    let role = |objects: &[Value]| {
        let of_providers = |object: &&Value| object["metadata"]["name"] == "topologist-providers";
        let (role, binding) = (
            objects.iter().filter(of_providers).find(|object| object["kind"] == "ClusterRole"),
            objects.iter().filter(of_providers).find(|object| object["kind"] != "ClusterRole"),
        );
        let collects = role.unwrap()["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"].clone();
        (collects, binding.unwrap()["metadata"].get("namespace").cloned())
    };
    let label = json!({"cluster.x-k8s.io/aggregate-to-manager": "true"});
    for name in ["alone", "take-over"] {
        assert_eq!(role(&overlay(name)), (label.clone(), None), "{name}");
    }
    assert_eq!(role(&overlay("beside")), (Value::Null, None));
    let file = scope("team-a");
    for components in [["namespaced", "reconciler"], ["reconciler", "namespaced"]] {
        let objects = overlay_with("beside", &components, &[("scope.yaml", &*file)]);
        assert_eq!(role(&objects), (label.clone(), Some(json!("team-a"))), "{components:?}");
    }
}

/// All orders of some names.
fn orders<'a>(names: &[&'a str]) -> Vec<Vec<&'a str>> {
    if names.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = |first: usize| {
        let rest = [&names[..first], &names[first + 1..]].concat();
        orders(&rest).into_iter().map(move |rest| [&[names[first]][..], &rest].concat())
    };
    (0..names.len()).flat_map(with_first).collect()
}

#[test]
fn the_order_of_components_does_not_matter() {
    let file = scope("team-a");
    let files = [("scope.yaml", &*file)];
    let everywhere = ("*", [&DEFINITIONS[..], &BUNDLES, &BEYOND].concat());
    let in_namespace = ("team-a", [&READS[..], &RECONCILES, &[KUBECONFIGS], &RUNS_MACHINES].concat());
    let want = places(vec![everywhere, in_namespace, own()]);
    let orders = orders(&["namespaced", "reconciler", "workload-clusters", "lifecycle"]);
    assert_eq!(orders.len(), 24);
    let first = overlay_with("beside", &orders[0], &files);
    for order in orders {
        let objects = overlay_with("beside", &order, &files);
        assert_eq!(permissions(&objects), want, "{order:?}");
        assert_eq!(variables(&objects), variables(&first), "{order:?}");
        // The variables of the Deployment are in another order.
        let others = |objects: &[Value]| -> BTreeSet<String> {
            objects.iter().filter(|object| object["kind"] != "Deployment").map(Value::to_string).collect()
        };
        assert_eq!(others(&objects), others(&first), "{order:?}");
    }
}

#[test]
fn machines_are_run_with_one_component_on_each_way() {
    for (way, bring) in [("alone", true), ("take-over", true), ("beside", true), ("cert-manager", false)] {
        let objects = overlay_with(way, &["lifecycle"], &[]);
        assert_eq!(variables(&objects)["TOPOLOGIST_LIFECYCLE"], "on", "{way}");
        assert_eq!(variables(&objects)["TOPOLOGIST_CONTROLLERS"], "all", "{way}");
        let bundles = if bring { &BUNDLES[..] } else { &[] };
        let everywhere = [&READS[..], &DEFINITIONS, bundles, &RECONCILES, &BEYOND, &RUNS_MACHINES].concat();
        let want = places(vec![("*", everywhere)]);
        assert_eq!(permissions(&objects)["*"], want["*"], "{way}");
    }
}

#[test]
fn workload_clusters_are_reached_at_the_pod_that_has_them() {
    // DEC-54
    let help = String::from_utf8(command(&["serve", "--help"]).output().unwrap().stdout).unwrap();
    let objects = overlay_with("alone", &["lifecycle"], &[]);
    let container = &find(&objects, "Deployment", "topologist")["spec"]["template"]["spec"]["containers"][0];
    let port = list(&container["ports"]).iter().find(|port| port["name"] == "workloads").unwrap();
    assert!(help.contains(&format!("0.0.0.0:{}", port["containerPort"])), "{port}");
    let ingress = list(&find(&objects, "NetworkPolicy", "topologist")["spec"]["ingress"]);
    assert!(ingress.contains(&json!({"ports": [{"port": "workloads"}]})), "{ingress:?}");
    let entries = list(&container["env"]);
    let address = entries.iter().find(|entry| entry["name"] == "TOPOLOGIST_WORKLOAD_ADVERTISE_ADDRESS").unwrap();
    assert_eq!(address["valueFrom"], json!({"fieldRef": {"fieldPath": "status.podIP"}}));
}

#[test]
fn webhooks_of_machines_are_called_in_the_namespaces_of_the_others() {
    // DEC-37
    let file = scope("team-a");
    let files = [("scope.yaml", &*file)];
    for way in ["alone", "take-over"] {
        for order in orders(&["namespaced", "lifecycle"]) {
            let objects = overlay_with(way, &order, &files);
            let hooks = webhooks(&objects);
            assert_eq!(hooks.len(), 12, "{way}");
            for (_, webhook) in hooks {
                let name = &webhook["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"];
                assert_eq!(name, "team-a", "{way} {order:?}: {}", webhook["name"]);
            }
        }
    }
    for (_, webhook) in webhooks(&overlay_with("alone", &["lifecycle"], &[])) {
        assert_eq!(webhook["namespaceSelector"], json!({"matchExpressions": []}), "all namespaces");
    }
}

#[test]
fn secrets_of_tenants_are_readable_only_with_the_component_for_it() {
    // DEC-40, DEC-47
    for name in OVERLAYS {
        let granted = permissions(&overlay(name));
        let of_tenants = granted.iter().filter(|(place, _)| *place != "topologist-system");
        assert!(
            of_tenants.into_iter().all(|(_, grants)| !grants.iter().any(|grant| grant.contains("secrets"))),
            "{name}"
        );
        let place = if name == "namespaced" { "default" } else { "*" };
        let granted = permissions(&overlay_with(name, &["workload-clusters"], &[]));
        let with: Vec<_> = granted[place].iter().filter(|grant| grant.contains("secrets")).collect();
        assert_eq!(with, [KUBECONFIGS], "{name}");
    }
}

#[test]
fn a_list_of_namespaces_is_the_same_everywhere_and_has_a_role_in_each() {
    // DEC-37
    let objects = render("examples/list");
    assert_eq!(variables(&objects)["TOPOLOGIST_NAMESPACE"], "team-a,team-b");
    let expressions = serde_json::json!([
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a", "team-b"]}
    ]);
    let hooks = webhooks(&objects);
    assert_eq!(hooks.len(), 4);
    for (_, webhook) in hooks {
        assert_eq!(webhook["namespaceSelector"], serde_json::json!({"matchExpressions": expressions}));
    }
    let watches = || READS[..3].iter().chain(&DEFINITIONS).chain(&BUNDLES).copied().collect::<Vec<_>>();
    let both =
        |grants: Vec<&'static str>| vec![("*", watches()), ("team-a", grants.clone()), ("team-b", grants), own()];
    assert_eq!(permissions(&objects), places(both(READS.to_vec())));
    assert!(!stream(&objects).contains(":\"scope\""), "the placeholder is left over");
    let own = "resources: [manifests/examples/list]\ncomponents: [manifests/components/workload-clusters]\n";
    let with_nodes = places(both([&READS[..], &[KUBECONFIGS]].concat()));
    assert_eq!(permissions(&render_own(own, &[])), with_nodes);
}

#[test]
fn a_prefix_is_the_same_in_the_webhooks_and_keeps_the_permissions_of_all_namespaces() {
    // DEC-37
    let objects = render("examples/prefix");
    assert_eq!(variables(&objects)["TOPOLOGIST_NAMESPACE"], "team-*");
    let hooks = all_webhooks(&objects);
    assert_eq!(hooks.len(), 5);
    for (_, webhook) in hooks {
        let conditions = list(&webhook["matchConditions"]);
        assert_eq!(conditions.len(), 2, "{webhook}");
        assert_eq!(conditions[1]["expression"], "request.namespace.startsWith('team-')");
    }
    assert_eq!(permissions(&objects), permissions(&overlay("beside")));
}

#[test]
fn the_restricted_example_allows_no_egress_to_any_address_and_bounds_a_tenant() {
    let (objects, whole) = (render("examples/restricted"), overlay("take-over"));
    let policy = |objects: &[Value]| find(objects, "NetworkPolicy", "topologist")["spec"].clone();
    let egress = |objects: &[Value]| list(&policy(objects)["egress"]).to_vec();
    assert!(egress(&whole).iter().any(|rule| rule.get("to").is_none()), "the base does not know the addresses");
    let restricted = egress(&objects);
    assert!(restricted.iter().all(|rule| !list(&rule["to"]).is_empty()), "{restricted:?}");
    assert_eq!(policy(&objects)["ingress"], policy(&whole)["ingress"]);
    assert_eq!(policy(&objects)["podSelector"], policy(&whole)["podSelector"]);
    let quota = find(&objects, "ResourceQuota", "clusters");
    assert_eq!(quota["metadata"]["namespace"], "team-a");
    let counts = quota["spec"]["hard"].as_object().unwrap();
    assert!(counts.keys().all(|name| name.starts_with("count/")), "{counts:?}");
    assert!(["clusters", "machines"].iter().all(|name| counts.contains_key(&format!("count/{name}.cluster.x-k8s.io"))));
    assert_eq!(objects.len(), whole.len() + 1);
}

#[test]
fn a_namespace_is_named_in_one_place() {
    // DEC-37
    let objects = overlay_with("beside", &["namespaced"], &[("scope.yaml", &scope("team-a"))]);
    assert!(permissions(&objects)["team-a"].contains(READS[0]));
    assert_eq!(variables(&objects)["TOPOLOGIST_NAMESPACE"], "team-a");
    for (_, webhook) in webhooks(&objects) {
        assert_eq!(webhook["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], "team-a");
    }
    assert!(!stream(&objects).contains(":\"scope\""), "the placeholder is left over");
}

#[test]
fn ways_and_components_go_together_and_the_image_can_be_set() {
    let objects = render_own(
        "resources: [manifests/overlays/alone]
components: [manifests/components/cert-manager]
images: [{name: topologist, newName: registry.example/topologist, newTag: v1.2.3}]
",
        &[],
    );
    let container = &find(&objects, "Deployment", "topologist")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example/topologist:v1.2.3");
    let variables = variables(&objects);
    assert_eq!(variables["TOPOLOGIST_CONTROLLERS"], "all");
    assert!(!variables.contains_key("TOPOLOGIST_MANAGE_CERTIFICATES"), "--tls-cert excludes it");
    assert!(permissions(&objects)["topologist-system"].iter().all(|grant| LEADS.contains(&&**grant)));
    for definition in objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition") {
        let source = &definition["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
        let want = definition["spec"].get("conversion").map_or(Value::Null, |_| "topologist-system/topologist".into());
        assert_eq!(*source, want, "{}", definition["metadata"]["name"]);
    }
}

#[test]
fn kustomizations_in_the_documents_render() {
    let text = fs::read_to_string(manifests().with_file_name("docs").join("operations.md")).unwrap();
    let blocks: Vec<_> = text
        .split("```yaml\n")
        .skip(1)
        .map(|rest| {
            let block = rest.split("```").next().unwrap();
            let indent = block.len() - block.trim_start().len();
            block.lines().map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect::<String>()
        })
        .collect();
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        let objects = render_own(&block, &[]);
        if block.contains("components/lifecycle") {
            assert_eq!(variables(&objects)["TOPOLOGIST_LIFECYCLE"], "on");
            continue;
        }
        let pod = &find(&objects, "Deployment", "topologist")["spec"]["template"]["spec"];
        let labels = &find(&objects, "Namespace", "topologist-system")["metadata"]["labels"];
        match pod["hostNetwork"] == true {
            true => assert_eq!(labels["pod-security.kubernetes.io/enforce"], "privileged"),
            false => assert_eq!(pod["containers"][0]["image"], "registry.example/topologist:v1"),
        }
    }
}

#[test]
fn the_webhooks_of_a_laptop_are_called_by_address() {
    let folder = tempfile::tempdir().unwrap();
    crate::harness::server::make_certificates(folder.path());
    let objects = render_by_address("host.test:1234", folder.path());
    assert_eq!(objects.len(), 2, "nothing but the webhooks");
    let by_service = overlay("beside");
    let bundle = STANDARD.encode(fs::read(folder.path().join("ca.crt")).unwrap());
    let (at_laptop, in_cluster) = (all_webhooks(&objects), all_webhooks(&by_service));
    assert_eq!(at_laptop.len(), in_cluster.len());
    for ((_, webhook), (_, in_cluster)) in at_laptop.into_iter().zip(in_cluster) {
        let url = format!("https://host.test:1234{}", in_cluster["clientConfig"]["service"]["path"].as_str().unwrap());
        let mut same = webhook.clone();
        // kustomize breaks lines, which base64 allows.
        let shown = same["clientConfig"]["caBundle"].as_str().unwrap().replace('\n', "");
        same["clientConfig"]["caBundle"] = shown.into();
        assert_eq!(same["clientConfig"], json!({"url": url, "caBundle": bundle}));
        same["clientConfig"] = in_cluster["clientConfig"].clone();
        assert_eq!(same, *in_cluster);
    }
}
