//! Names of new objects (NAM-01 to NAM-06, DEC-24).

use super::DesiredInputs;
use crate::topology::Failure;
use model::hub::names::Names;
use model::hub::{NameSubject, default_name, name_from, prefixed_name};

/// The name from a naming template of the class, or the default name. `path` is that of the part in the class.
///
/// It is computed for existing objects as well, so that an invalid template fails immediately (NAM-01).
pub(super) fn templated(
    template: &str,
    part: NameSubject<'_>,
    path: &str,
    basis: DesiredInputs<'_>,
    names: &mut dyn Names,
) -> Result<String, Failure> {
    let cluster = basis.blueprint.cluster.metadata.key();
    let mut slot = match part {
        NameSubject::Cluster => path.to_owned(),
        NameSubject::MachineDeployment(name)
        | NameSubject::MachinePool(name)
        | NameSubject::Machine(name)
        | NameSubject::ControlPlaneMachine(name) => format!("{path}/{name}"),
    };
    let end = || {
        let end = names.suffix(&cluster, &slot);
        // A truncated name gets new random characters (NAM-05).
        slot.push_str("/cut");
        end
    };
    if template.is_empty() {
        return Ok(default_name(&cluster.name, part, end));
    }
    name_from(template, &cluster.name, part, end)
        .map_err(|error| Failure::Naming { path: format!("{path}.naming.template"), reason: error.to_string() })
}

/// A generated name with a prefix (NAM-06).
pub(super) fn prefixed(prefix: &str, slot: &str, basis: DesiredInputs<'_>, names: &mut dyn Names) -> String {
    prefixed_name(prefix, &names.suffix(&basis.blueprint.cluster.metadata.key(), slot))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use crate::topology::Failure;
    use crate::topology::testing::{Scene, objects};
    use model::hub::ObjectKey;
    use model::hub::names::Names;

    /// Counts, so that every end is another one.
    struct Counted(Vec<String>);

    impl Names for Counted {
        fn suffix(&mut self, cluster: &ObjectKey, slot: &str) -> String {
            assert_eq!(cluster.to_string(), "ns/blade");
            self.0.push(slot.to_owned());
            format!("{:05}", self.0.len())
        }
    }

    #[test]
    fn names_follow_from_cluster_and_place() {
        // NAM-02, NAM-06
        let mut names = Counted(Vec::new());
        let desired = Scene::new().compute_with(&mut names).unwrap().desired;
        let seen: Vec<_> = objects(&desired).iter().map(|one| one.object.name().to_owned()).collect();
        let want = [
            "blade-00001",
            "blade-00002",
            "blade-00003",
            "blade-md-00004",
            "blade-md-00005",
            "blade-md-00006",
            "blade-mp-00007",
            "blade-mp-00008",
            "blade-mp-00009",
        ];
        assert_eq!(seen, want);
        let slots: BTreeSet<_> = names.0.iter().collect();
        assert_eq!(slots.len(), names.0.len(), "each place has its own ends: {:?}", names.0);
    }

    #[test]
    fn classes_name_objects_with_templates() {
        // NAM-02, DEC-24
        let scene = Scene::new()
            .at(
                "ClusterClass",
                "/spec/infrastructure/naming",
                json!({"template": "{{ .random }}-of-{{ .cluster.name }}"}),
            )
            .at("ClusterClass", "/spec/controlPlane/naming", json!({"template": "{{ .cluster.name }}-brain"}))
            .at(
                "ClusterClass",
                "/spec/workers/machineDeployments/0/naming",
                json!({"template": "{{ .machineDeployment.topologyName }}-{{ .cluster.name }}"}),
            )
            .at(
                "ClusterClass",
                "/spec/workers/machinePools/0/naming",
                json!({"template": "{{ .machinePool.topologyName }}-{{ .cluster.name }}"}),
            );
        let desired = scene.compute_with(&mut Counted(Vec::new())).unwrap().desired;
        assert_eq!(desired.infrastructure.object.name(), "00001-of-blade");
        assert_eq!(desired.control_plane.control_plane.object.name(), "blade-brain");
        assert_eq!(desired.machine_deployments[0].worker.object.name(), "md-blade");
        assert_eq!(desired.machine_pools[0].worker.object.name(), "mp-blade");
    }

    #[test]
    fn the_engine_uses_an_invalid_name_unchanged() {
        // NAM-07
        let template = json!({"template": "{{ .cluster.name }}_Brain"});
        let scene = Scene::new().at("ClusterClass", "/spec/controlPlane/naming", template);
        assert_eq!(scene.desired().control_plane.control_plane.object.name(), "blade_Brain");
    }

    #[test]
    fn long_names_are_cut_and_get_fresh_ends() {
        // NAM-05, NAM-06
        let long = "a".repeat(63);
        let desired = Scene::new()
            .at("Cluster", "/metadata/name", json!(long))
            .at("ClusterClass", "/spec/controlPlane/naming", json!({"template": "{{ .cluster.name }}"}))
            .compute_with(&mut Long(0))
            .unwrap()
            .desired;
        let cut = |end: &str| format!("{}{end}", &long[..58]);
        assert_eq!(desired.infrastructure.object.name(), cut("00002"), "the first end was cut away");
        assert_eq!(desired.control_plane.machines.unwrap().object.name(), cut("00003"));
        assert_eq!(desired.control_plane.control_plane.object.name(), long, "63 characters are not too many");
    }

    struct Long(usize);

    impl Names for Long {
        fn suffix(&mut self, _: &ObjectKey, _: &str) -> String {
            self.0 += 1;
            format!("{:05}", self.0)
        }
    }

    #[test]
    fn a_naming_template_that_fails_also_fails_for_existing_objects() {
        // NAM-01, NAM-03
        let made = Scene::new().applied();
        for (at, template) in [
            ("/spec/infrastructure", "{{ .nope }}"),
            ("/spec/controlPlane", "{{ upper .cluster.name }}"),
            ("/spec/workers/machineDeployments/0", "{{ .machinePool.topologyName }}"),
            ("/spec/workers/machinePools/0", "{{"),
        ] {
            let scene = made.clone().at("ClusterClass", &format!("{at}/naming"), json!({"template": template}));
            let failure = scene.compute().unwrap_err();
            assert!(matches!(failure, Failure::Naming { .. }), "{at}: {failure}");
        }
    }
}
