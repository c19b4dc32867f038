//! Templates of a class stay as long as Clusters use it, and go with them.

use super::*;

/// Everything that the class consists of, templates last or first.
fn class_and_templates(templates_first: bool) -> Vec<Value> {
    let mut all: Vec<Value> = [class()].into_iter().chain(templates()).collect();
    if templates_first {
        all.reverse();
    }
    all
}

impl Fleet {
    /// `kubectl delete -f` of these objects in this order.
    fn delete_all(&self, objects: &[Value], more: &[&str]) -> Outcome {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.kubectl.try_give(&list, &[&["delete"], more].concat())
    }

    /// The objects of the class that are left, as `kind/name`.
    fn left(&self) -> Vec<String> {
        let mut kinds: Vec<String> =
            templates().iter().map(|template| template["kind"].as_str().unwrap().to_lowercase()).collect();
        kinds.push("clusterclass".to_owned());
        let names = self.kubectl.out(&["get", &kinds.join(","), "-o", "name"]);
        names
            .lines()
            .map(|name| name.split('.').next().unwrap().to_owned() + &name[name.find('/').unwrap()..])
            .collect()
    }

    fn clusters(&self) -> Vec<Value> {
        (0..self.clusters).map(|i| cluster(&format!("blue-{i}"))).collect()
    }

    /// Keeps Clusters that are deleted.
    fn hold_clusters(&self, finalizers: &Value) {
        let patch = json!({"metadata": {"finalizers": finalizers}}).to_string();
        for cluster in self.clusters() {
            let name = cluster["metadata"]["name"].as_str().unwrap();
            self.kubectl.out(&["patch", "cluster", name, "--type=merge", "-p", &patch]);
        }
    }
}

fn denied(kind: &str, name: &str, number: &str) -> String {
    format!(
        "{kind} NS/{name} cannot be deleted because it is used by ClusterClass NS/base ({number}); to delete it \
         anyway, set the annotation unsafe.topologist.dev/delete-template-in-use on it"
    )
}

#[test]
fn kubectl_delete_of_a_class_in_use_deletes_none_of_its_templates() {
    // DEC-110, CC-V-140
    let fleet = Fleet::of(2, &class());
    for (templates_first, more) in [(true, &["--dry-run=server"][..]), (true, &[]), (false, &[])] {
        let outcome = fleet.delete_all(&class_and_templates(templates_first), more);
        assert_ne!(outcome.code, 0, "{outcome:#?}");
        assert!(outcome.err.contains("cannot be deleted because it is used by"), "{outcome:#?}");
        for template in templates() {
            let [kind, name] = ["/kind", "/metadata/name"].map(|at| template.pointer(at).unwrap().as_str().unwrap());
            let want = fleet.named(&denied(kind, name, "2 Clusters"));
            assert!(outcome.err.contains(&want), "{want}: {outcome:#?}");
        }
        assert_eq!(fleet.left().len(), 6, "{outcome:#?}");
    }
    // In any version of the kind.
    let older = ["delete", "devmachinetemplates.v1beta1.infrastructure.cluster.x-k8s.io", "worker"];
    assert!(fleet.kubectl.err(&older).contains(&fleet.named(&denied("DevMachineTemplate", "worker", "2 Clusters"))));
    // A clone, and a template of no class.
    for (name, labels) in [("clone", json!({"topology.cluster.x-k8s.io/owned": ""})), ("spare", json!({}))] {
        let mut other = template("infrastructure", "DevMachineTemplate", name);
        other["metadata"]["labels"] = labels;
        fleet.apply(&other).unwrap();
        fleet.delete_all(&[other], &[]).unwrap();
    }
    let annotation = "unsafe.topologist.dev/delete-template-in-use=";
    fleet.kubectl.out(&["annotate", "devmachinetemplate", "worker", annotation]);
    fleet.kubectl.out(&["delete", "devmachinetemplate", "worker"]);
    was_never_refused();
}

#[test]
fn kubectl_delete_of_everything_deletes_templates_together_with_the_clusters() {
    // DEC-110: the watches see the Clusters some milliseconds after kubectl has deleted them.
    let fleet = Fleet::of(3, &class());
    fleet.hold_clusters(&json!(["example.com/hold"]));
    let all: Vec<Value> = fleet.clusters().into_iter().chain(class_and_templates(true)).collect();
    let outcome = fleet.delete_all(&all, &["--wait=false"]);
    assert_ne!(outcome.code, 0, "the class waits for its Clusters: {outcome:#?}");
    assert_eq!(fleet.left(), ["clusterclass/base"], "{outcome:#?}");
    assert!(!outcome.err.contains("Template"), "{outcome:#?}");
    fleet.hold_clusters(&json!(null));
    fleet.kubectl.eventually(&["delete", "clusterclass", "base"]);
    was_never_refused();
}

#[test]
fn kubectl_delete_of_a_class_without_clusters_deletes_everything_in_any_order() {
    // DEC-110
    for templates_first in [false, true] {
        let fleet = Fleet::of(1, &class());
        fleet.delete_all(&fleet.clusters(), &[]).unwrap();
        // The guard of the class does not wait for the watches.
        if !templates_first {
            fleet.kubectl.eventually(&["delete", "clusterclass", "base", "--dry-run=server"]);
        }
        fleet.delete_all(&class_and_templates(templates_first), &[]).unwrap();
        assert_eq!(fleet.left(), [""; 0]);
    }
    was_never_refused();
}

#[test]
fn templates_go_with_their_namespace() {
    // DEC-110: no controller deletes the objects of the namespace here, so its Clusters stay.
    let fleet = Fleet::of(1, &class());
    fleet.kubectl.out(&["delete", "namespace", &fleet.kubectl.namespace, "--wait=false"]);
    fleet.delete_all(&templates(), &[]).unwrap();
    assert_eq!(fleet.left(), ["clusterclass/base"]);
    was_never_refused();
}
