//! Start of a Machine.

use super::*;

#[test]
fn a_machine_comes_up_phase_by_phase() {
    // MA-2.3, MA-4.3, MA-6.5, MA-6.6, MA-7.3, MA-7.6, MA-8.3, MA-8.4, MA-13.7, DEC-6
    let mut simulator = setup();
    begin(&mut simulator);
    assert_eq!(phase(&simulator), "Pending");
    bootstrap(&mut simulator);
    assert_eq!(
        (phase(&simulator), field(&simulator, "spec.bootstrap.dataSecretName")),
        ("Provisioning".into(), "m1-data".into())
    );
    provision(&mut simulator);
    assert_eq!((phase(&simulator), field(&simulator, "spec.providerID")), ("Provisioned".into(), ID.into()));
    simulator.create(Some(&cluster_key()), node("n1", "test://m10")).unwrap();
    settle(&mut simulator);
    assert_eq!((phase(&simulator), field(&simulator, "status.nodeRef.name")), ("Provisioned".into(), String::new()));
    simulator.create(Some(&cluster_key()), node("n2", ID)).unwrap();
    settle(&mut simulator);
    assert_eq!((phase(&simulator), field(&simulator, "status.nodeRef.name")), ("Running".into(), "n2".into()));
    assert_eq!(field(&simulator, "status.nodeInfo.kubeletVersion"), "v1.34.0");
    assert_eq!(simulator.core("Machine", "m1").at("status.nodeInfo.swap"), None);
    for name in ["Ready", "Available", "BootstrapConfigReady", "InfrastructureReady", "NodeReady", "NodeHealthy"] {
        assert_eq!(condition(&simulator, name).0, "True", "{name}: {}", message(&simulator, name));
    }
    for name in ["Paused", "Deleting", "Updating"] {
        assert_eq!(condition(&simulator, name), ("False", format!("Not{name}")));
    }
    let machine = simulator.core("Machine", "m1");
    assert_eq!(machine.at("status.observedGeneration"), machine.at("metadata.generation"));
}

#[test]
fn the_phase_follows_the_conditions_of_the_same_step() {
    // MA-3.3
    let mut simulator = setup();
    begin(&mut simulator);
    bootstrap(&mut simulator);
    provision(&mut simulator);
    simulator.create(Some(&cluster_key()), node("n1", ID)).unwrap();
    edit_workload(&mut simulator, &node_id("n1"), |node| put(node, "Ready", "False"));
    settle(&mut simulator);
    assert_eq!((phase(&simulator), condition(&simulator, "Ready").0), ("Provisioned".into(), "False"));
    edit_workload(&mut simulator, &node_id("n1"), |node| put(node, "Ready", "True"));
    simulator.take(&ObjectId::core("Machine", NAMESPACE, "m1"));
    assert_eq!((phase(&simulator), condition(&simulator, "Ready").0), ("Running".into(), "True"));
    simulator.delete(&ObjectId::core("Machine", NAMESPACE, "m1"));
    simulator.take(&ObjectId::core("Machine", NAMESPACE, "m1"));
    assert_eq!((phase(&simulator), condition(&simulator, "Deleting").0), ("Deleting".into(), "True"));
}

#[test]
fn a_machine_that_is_as_it_should_be_is_not_written() {
    let mut simulator = running();
    pass(&mut simulator, 3600);
    let version = field(&simulator, "metadata.resourceVersion");
    simulator.take(&ObjectId::core("Machine", NAMESPACE, "m1"));
    settle(&mut simulator);
    assert_eq!(field(&simulator, "metadata.resourceVersion"), version);
}

#[test]
fn providers_of_the_older_contract_do_as_well() {
    // CT-5.4
    let mut simulator = setup();
    simulator.assumed = None;
    simulator.make(external("infrastructure.cluster.x-k8s.io/v1beta1", "TestMachine", "m1"));
    simulator.make(external("bootstrap.cluster.x-k8s.io/v1beta1", "TestConfig", "m1"));
    simulator.make(machine("m1"));
    edit(&mut simulator, &config(), "m1", |config| {
        set(config, "status", json!({"ready": true, "dataSecretName": "s"}));
    });
    edit(&mut simulator, &infrastructure(), "m1", |it| {
        set(it, "spec.providerID", json!(ID));
        set(it, "status", json!({"ready": true}));
    });
    settle(&mut simulator);
    assert_eq!(phase(&simulator), "Provisioned");
    // CT-15.10
    assert_eq!(condition(&simulator, "InfrastructureReady"), ("True", "Ready".into()));
}

#[test]
fn the_finalizer_comes_first() {
    // MA-1.8, MA-4.1
    let mut simulator = setup();
    let made = simulator.make(machine("m1"));
    simulator.take(&ObjectId::for_object(&made));
    let machine = simulator.core("Machine", "m1");
    assert_eq!(items(&machine, "metadata.finalizers"), [json!("machine.cluster.x-k8s.io")]);
    assert_eq!(machine.at("status"), None);
}

#[test]
fn a_machine_needs_its_cluster() {
    // MA-4.1
    let mut simulator = setup();
    simulator.delete(&ObjectId::core("Cluster", NAMESPACE, CLUSTER));
    simulator.make(machine("m1"));
    settle(&mut simulator);
    assert_eq!(failure(&simulator), "Cluster demo of Machine ns/m1 does not exist");
}

#[test]
fn a_paused_machine_is_left_alone() {
    // MA-4.1, CT-15.12
    let mut simulator = setup();
    let mut paused = machine("m1");
    fields::set_annotation(&mut paused, "cluster.x-k8s.io/paused", "");
    simulator.make(external(BOOTSTRAP, "TestConfig", "m1"));
    simulator.make(paused);
    settle(&mut simulator);
    assert_eq!(condition(&simulator, "Paused"), ("True", "Paused".into()));
    assert_eq!(phase(&simulator), "");
    edit(&mut simulator, &GroupKind::core("Machine"), "m1", |machine| {
        machine.remove("metadata.annotations");
    });
    settle(&mut simulator);
    assert_eq!((condition(&simulator, "Paused").0, phase(&simulator)), ("False", "Pending".into()));
}

#[test]
fn the_cluster_owns_only_machines_without_another_owner_to_come() {
    // MA-5.1, MA-5.2
    let labelled = |name: &str| Some((format!("metadata.labels.{name}"), name.to_owned()));
    for (case, label, want) in [
        ("alone", None, 1),
        ("of a set", labelled("cluster.x-k8s.io/set-name"), 0),
        ("of a pool", labelled("cluster.x-k8s.io/pool-name"), 0),
        ("of a control plane", labelled("cluster.x-k8s.io/control-plane-name"), 0),
    ] {
        let mut simulator = setup();
        let mut machine = machine("m1");
        machine.remove("metadata.labels");
        if let Some((_, label)) = &label {
            fields::set_label(&mut machine, label, "owner");
        }
        simulator.make(machine);
        settle(&mut simulator);
        let machine = simulator.core("Machine", "m1");
        let plain =
            machine.owner_references().iter().filter(|it| it["kind"] == "Cluster" && it.get("controller").is_none());
        assert_eq!(plain.count(), want, "{case}");
        assert_eq!(machine.label("cluster.x-k8s.io/cluster-name"), Some(CLUSTER), "{case}");
    }
}

#[test]
fn the_owning_set_must_exist() {
    // MA-4.2
    let mut simulator = setup();
    let mut machine = machine("m1");
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "s", "uid": "u"});
    set(&mut machine, "metadata.ownerReferences", json!([owner]));
    simulator.make(machine);
    settle(&mut simulator);
    assert_eq!(failure(&simulator), "MachineSet s of Machine ns/m1 does not exist");
}

#[test]
fn a_machine_controls_what_it_refers_to() {
    // MA-5.3, CT-15.3
    let mut simulator = setup();
    let cluster = simulator.core("Cluster", CLUSTER);
    simulator.edit(&cluster, |cluster| {
        set(
            cluster,
            "spec.controlPlaneRef",
            json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "TestPlane", "name": "p"}),
        );
    });
    let mut config = external(BOOTSTRAP, "TestConfig", "m1");
    let owner = |api: &str, kind: &str| {
        json!({"apiVersion": api, "kind": kind, "name": "first", "uid": kind,
            "controller": true})
    };
    set(&mut config, "metadata.ownerReferences", json!([owner("controlplane.cluster.x-k8s.io/v1beta1", "TestPlane")]));
    let mut infrastructure = external(INFRASTRUCTURE, "TestMachine", "m1");
    set(&mut infrastructure, "metadata.ownerReferences", json!([owner("cluster.x-k8s.io/v1beta1", "MachineSet")]));
    simulator.make(config);
    simulator.make(infrastructure);
    let mut machine = machine("m1");
    fields::set_label(&mut machine, "cluster.x-k8s.io/control-plane", "");
    let machine = simulator.make(machine);
    settle(&mut simulator);
    for kind in [super::config(), super::infrastructure()] {
        let object = simulator.find(&kind, "m1").unwrap();
        assert_eq!(object.owner_references(), [fields::owner(&machine, true)], "{kind}");
        assert_eq!(object.label("cluster.x-k8s.io/cluster-name"), Some(CLUSTER), "{kind}");
    }
}

#[test]
fn what_another_object_controls_stays_with_it() {
    // MA-5.3
    let mut simulator = setup();
    let mut config = external(BOOTSTRAP, "TestConfig", "m1");
    let other = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m2", "uid": "u",
        "controller": true});
    set(&mut config, "metadata.ownerReferences", json!([other]));
    simulator.make(config);
    simulator.make(machine("m1"));
    settle(&mut simulator);
    assert_eq!(failure(&simulator), "TestConfig ns/m1 has another controller: Machine m2");
    assert_eq!(condition(&simulator, "BootstrapConfigReady"), ("Unknown", "InternalError".into()));
}

#[test]
fn a_secret_of_the_user_counts_as_data() {
    // MA-2.4, MA-6.1, MA-6.3, MA-13.3, DEC-7
    for (secret, phase_then) in [("mine", "Provisioning"), ("", "Pending")] {
        let mut simulator = setup();
        let mut machine = machine("m1");
        set(&mut machine, "spec.bootstrap", json!({"dataSecretName": secret}));
        simulator.make(machine);
        settle(&mut simulator);
        assert_eq!(phase(&simulator), phase_then, "{secret:?}");
        assert_eq!(condition(&simulator, "BootstrapConfigReady"), ("True", "DataSecretProvided".into()));
    }
}

#[test]
fn missing_objects_are_looked_up_again() {
    // MA-6.2, MA-7.1, MA-13.3, MA-13.4
    let mut simulator = setup();
    simulator.make(machine("m1"));
    settle(&mut simulator);
    for name in ["BootstrapConfigReady", "InfrastructureReady"] {
        assert_eq!(condition(&simulator, name), ("False", "ObjectDoesNotExist".into()));
    }
    simulator.make(external(BOOTSTRAP, "TestConfig", "m1"));
    simulator.make(external(INFRASTRUCTURE, "TestMachine", "m1"));
    pass(&mut simulator, 31);
    assert_eq!(
        message(&simulator, "BootstrapConfigReady"),
        "TestConfig status.initialization.dataSecretCreated is false"
    );
    assert_eq!(message(&simulator, "InfrastructureReady"), "TestMachine status.initialization.provisioned is false");
}

#[test]
fn a_configuration_must_name_its_secret_and_only_once() {
    // MA-6.4, MA-6.6, MA-6.3, CT-12.3, CT-12.4
    let mut simulator = setup();
    begin(&mut simulator);
    edit(&mut simulator, &config(), "m1", |it| set(it, "status.initialization.dataSecretCreated", json!(true)));
    settle(&mut simulator);
    assert_eq!(failure(&simulator), "TestConfig says that the data Secret is created, and does not name it");
    bootstrap(&mut simulator);
    edit(&mut simulator, &config(), "m1", |it| set(it, "status.dataSecretName", json!("other")));
    settle(&mut simulator);
    assert_eq!(field(&simulator, "spec.bootstrap.dataSecretName"), "m1-data");
}

#[test]
fn a_configuration_that_is_deleted_gives_no_data() {
    // MA-6.4
    let mut simulator = setup();
    begin(&mut simulator);
    simulator.delete(&ObjectId::new(config(), ObjectKey::new(NAMESPACE, "m1")));
    bootstrap(&mut simulator);
    assert_eq!((field(&simulator, "spec.bootstrap.dataSecretName"), failure(&simulator)), (String::new(), ""));
}

#[test]
fn a_flag_of_another_type_is_an_error() {
    // CT-5.1, MA-13.3
    let mut simulator = setup();
    begin(&mut simulator);
    edit(&mut simulator, &config(), "m1", |it| set(it, "status.initialization.dataSecretCreated", json!("yes")));
    settle(&mut simulator);
    assert!(failure(&simulator).contains("is not a boolean"), "{}", failure(&simulator));
    assert_eq!(condition(&simulator, "BootstrapConfigReady"), ("Unknown", "InternalError".into()));
    // MA-1.9
    assert_eq!(simulator.core("Machine", "m1").at("status.observedGeneration").map(Value::to_string), Some("1".into()));
}

#[test]
fn infrastructure_is_taken_over_once_both_flag_and_id_are_there() {
    // MA-7.2, MA-7.3, MA-7.4, MA-7.5, MA-7.6, CT-8.3, CT-8.4, CT-8.6
    let mut simulator = setup();
    begin(&mut simulator);
    edit(&mut simulator, &infrastructure(), "m1", |it| {
        set(it, "status.initialization.provisioned", json!(true));
        set(it, "status.addresses", json!([{"type": "InternalIP", "address": "10.0.0.1"}]));
        set(it, "status.failureDomain", json!("b"));
        set(it, "spec.failureDomain", json!("a"));
    });
    settle(&mut simulator);
    assert_eq!((phase(&simulator), field(&simulator, "status.failureDomain")), ("Pending".into(), String::new()));
    edit(&mut simulator, &infrastructure(), "m1", |it| set(it, "spec.providerID", json!("test://1")));
    settle(&mut simulator);
    let machine = simulator.core("Machine", "m1");
    assert_eq!(machine.at("status.addresses"), Some(&json!([{"type": "InternalIP", "address": "10.0.0.1"}])));
    assert_eq!((text(&machine, "spec.failureDomain"), text(&machine, "status.failureDomain")), ("a", "b"));
    assert_eq!(text(&machine, "spec.providerID"), "test://1");
    edit(&mut simulator, &infrastructure(), "m1", |it| {
        set(it, "status.initialization.provisioned", json!(false));
        set(it, "spec.providerID", json!("test://2"));
    });
    settle(&mut simulator);
    assert_eq!(field(&simulator, "spec.providerID"), "test://2");
    simulator.delete(&ObjectId::new(infrastructure(), ObjectKey::new(NAMESPACE, "m1")));
    edit(&mut simulator, &infrastructure(), "m1", |it| set(it, "spec.providerID", json!("test://3")));
    settle(&mut simulator);
    assert_eq!(field(&simulator, "spec.providerID"), "test://2");
}

#[test]
fn lost_infrastructure_is_a_failure() {
    // MA-4.4, MA-7.1, MA-13.4
    let mut simulator = running();
    simulator.delete(&ObjectId::new(infrastructure(), ObjectKey::new(NAMESPACE, "m1")));
    release(&mut simulator, &infrastructure());
    assert_eq!(failure(&simulator), "TestMachine m1 was provisioned and does not exist any more");
    assert_eq!(field(&simulator, "status.deprecated.v1beta1.failureReason"), "InvalidConfiguration");
    assert_eq!(phase(&simulator), "Running", "no provider has reported a failure");
    assert_eq!(condition(&simulator, "InfrastructureReady"), ("False", "ObjectDeleted".into()));
    assert!(message(&simulator, "InfrastructureReady").contains("while the Machine still exists"));
}

#[test]
fn a_failure_of_a_provider_is_final() {
    // MA-5.4, CT-5.5, DEC-6
    let mut simulator = running();
    simulator.objects.set_listed(&infrastructure(), Some(Contract::V1Beta1));
    edit(&mut simulator, &infrastructure(), "m1", |it| {
        set(it, "status.failureReason", json!("CreateError"));
        set(it, "status.failureMessage", json!("quota exceeded"));
    });
    settle(&mut simulator);
    assert_eq!(phase(&simulator), "Failed");
    assert_eq!(field(&simulator, "status.deprecated.v1beta1.failureReason"), "CreateError");
    assert_eq!(field(&simulator, "status.deprecated.v1beta1.failureMessage"), "TestMachine m1 failed: quota exceeded");
    assert!(simulator.events.iter().any(|(_, _, event)| event.is_warning && event.message.contains("quota exceeded")));
    edit(&mut simulator, &config(), "m1", |it| set(it, "status.failureMessage", json!("another")));
    settle(&mut simulator);
    assert_eq!(simulator.events.iter().filter(|(_, _, event)| event.reason == "ProviderFailure").count(), 1);
    assert_eq!(field(&simulator, "status.deprecated.v1beta1.failureMessage"), "TestMachine m1 failed: quota exceeded");
    edit(&mut simulator, &infrastructure(), "m1", |it| {
        it.remove("status.failureReason");
        it.remove("status.failureMessage");
    });
    settle(&mut simulator);
    assert_eq!((phase(&simulator), failure(&simulator)), ("Failed".into(), ""));
}

#[test]
fn a_failure_in_the_contract_v1beta2_is_copied_and_has_no_effect() {
    // CT-5.5, CT-6.7, CT-20.2, DEC-6
    let mut simulator = running();
    edit(&mut simulator, &infrastructure(), "m1", |it| set(it, "status.failureMessage", json!("quota exceeded")));
    settle(&mut simulator);
    assert_eq!(field(&simulator, "status.deprecated.v1beta1.failureMessage"), "TestMachine m1 failed: quota exceeded");
    assert!(simulator.events.iter().any(|(_, _, event)| event.is_warning && event.message.contains("quota exceeded")));
    assert_eq!(phase(&simulator), "Running");
    simulator.objects.set_listed(&config(), Some(Contract::V1Beta1));
    edit(&mut simulator, &config(), "m1", |it| set(it, "status.failureReason", json!("NoImage")));
    settle(&mut simulator);
    assert_eq!(phase(&simulator), "Failed", "the other part follows the contract v1beta1");
}

#[test]
fn certificates_of_a_control_plane_have_an_end() {
    // MA-4.5
    const EXPIRY: &str = "machine.cluster.x-k8s.io/certificates-expiry";
    for (label, of_config, of_machine, want) in [
        (true, Some("2031-01-01T00:00:00Z"), None, "2031-01-01T00:00:00Z"),
        (true, Some("2031-01-01T00:00:00Z"), Some("2032-01-01T00:00:00Z"), "2032-01-01T00:00:00Z"),
        (true, Some("soon"), None, ""),
        (true, None, None, ""),
        (false, Some("2031-01-01T00:00:00Z"), None, ""),
    ] {
        let mut simulator = setup();
        let (mut config, mut machine) = (external(BOOTSTRAP, "TestConfig", "m1"), machine("m1"));
        of_config.into_iter().for_each(|time| fields::set_annotation(&mut config, EXPIRY, time));
        of_machine.into_iter().for_each(|time| fields::set_annotation(&mut machine, EXPIRY, time));
        if label {
            fields::set_label(&mut machine, "cluster.x-k8s.io/control-plane", "");
        }
        simulator.make(config);
        simulator.make(machine);
        settle(&mut simulator);
        assert_eq!(field(&simulator, "status.certificatesExpiryDate"), want);
        assert_eq!(failure(&simulator).contains("not a time"), of_config == Some("soon"));
    }
}
