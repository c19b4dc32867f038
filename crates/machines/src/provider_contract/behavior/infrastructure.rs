//! Behavior of infrastructure providers.

use serde_json::Value;

use super::{ObservedChange, RuleVerdict, has_flag};
use model::hub::{Object, paths};

/// An infrastructure cluster.
pub(super) fn cluster(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    endpoint(change, verdicts);
    failure(change, verdicts);
    if change.raises_flag()
        && let Some(domains) = change.at(paths::status::FAILURE_DOMAINS)[1]
    {
        let names =
            domains.as_array().map(|list| list.iter().filter_map(|domain| domain.get("name")).collect::<Vec<_>>());
        let is_unique =
            names.is_none_or(|names| names.iter().enumerate().all(|(at, name)| !names[..at].contains(name)));
        verdicts.push(RuleVerdict::kept_if(
            is_unique,
            "CT-6.6",
            "the names of the failure domains are unique",
            "two failure domains have the same name",
            "Report each failure domain once",
        ));
    }
}

/// An infrastructure machine.
pub(super) fn machine(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    let [was, is] = change.text(paths::PROVIDER_ID);
    if change.raises_flag() {
        verdicts.push(RuleVerdict::kept_if(
            !is.is_empty(),
            "CT-8.2",
            "spec.providerID is set with the flag, or before it",
            "the flag turned true before spec.providerID was set",
            "Set spec.providerID in the same request as the flag, or before it",
        ));
        begun(change, verdicts);
        placed(change, verdicts);
    }
    if change.after.is_some() && !was.is_empty() && was != is {
        let message = format!("spec.providerID was {was:?}, and is {is:?}");
        verdicts.push(RuleVerdict::broken("CT-8.2", message, "Never change the provider id of a machine"));
    }
    failure(change, verdicts);
}

/// Prerequisites of a machine (CT-18.3).
fn begun(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    const RULE: &str = "CT-18.3";
    let now = change.now();
    if now.cluster.is_some() {
        verdicts.push(RuleVerdict::kept_if(
            has_flag(now.cluster.as_ref(), paths::status::INFRASTRUCTURE_PROVISIONED),
            RULE,
            "the machine was made once the infrastructure of the Cluster was there",
            "the machine was made before the infrastructure of the Cluster was provisioned",
            "Wait for status.initialization.infrastructureProvisioned of the Cluster",
        ));
    }
    if let Some(machine) = &now.owner {
        verdicts.push(RuleVerdict::kept_if(
            machine.at(paths::machine::BOOTSTRAP_DATA_SECRET).is_some_and(Value::is_string),
            RULE,
            "the machine was made once there was bootstrap data",
            "the machine was made before the Machine had bootstrap data",
            "Wait for spec.bootstrap.dataSecretName of the Machine",
        ));
    }
}

/// A machine is in the failure domain of its Machine (CT-8.3).
fn placed(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    const RULE: &str = "CT-8.3";
    let text = |object: &Object| object.at(paths::FAILURE_DOMAIN).and_then(Value::as_str).map(str::to_owned);
    let Some(wanted) = change.now().owner.as_ref().and_then(text) else { return };
    let [_, reported] = change.text(paths::status::FAILURE_DOMAIN);
    let [_, older] = change.text(paths::FAILURE_DOMAIN);
    let there = if reported.is_empty() { older } else { reported };
    verdicts.push(match there {
        "" => RuleVerdict::disregarded(
            RULE,
            format!("the Machine asks for the failure domain {wanted:?}, and none is reported"),
            "Report where the machine is in status.failureDomain",
        ),
        there if there == wanted => RuleVerdict::kept(RULE, format!("the machine is in the failure domain {wanted:?}")),
        there => RuleVerdict::broken(
            RULE,
            format!("the Machine asks for the failure domain {wanted:?}, and the machine is in {there:?}"),
            "Place the machine in spec.failureDomain of the Machine, or report a failure",
        ),
    });
}

/// The infrastructure of a MachinePool.
pub(super) fn pool(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    if change.raises_flag() {
        let ids = change.at(paths::PROVIDER_ID_LIST)[1].and_then(Value::as_array).map_or(0, Vec::len);
        let replicas = change.at(paths::status::REPLICAS)[1].and_then(Value::as_u64);
        verdicts.push(RuleVerdict::kept_if(
            ids > 0 || replicas == Some(0),
            "CT-13.1",
            "spec.providerIDList lists the instances",
            "the flag turned true, and spec.providerIDList lists no instance",
            "List the provider ids of the instances with the flag, or before it",
        ));
        verdicts.push(RuleVerdict::kept_if(
            replicas.is_some(),
            "CT-13.1",
            "status.replicas is reported",
            "the flag turned true, and status.replicas is missing",
            "Report how many instances there are",
        ));
    }
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let ids = list(change.at(paths::PROVIDER_ID_LIST)[1]);
    if change.at(paths::PROVIDER_ID_LIST)[0] != change.at(paths::PROVIDER_ID_LIST)[1]
        && ids.iter().enumerate().any(|(at, id)| ids.get(..at).is_some_and(|before| before.contains(id)))
    {
        verdicts.push(RuleVerdict::broken(
            "CT-13.1",
            "spec.providerIDList has the same provider id twice",
            "List each instance once",
        ));
    }
    instances(change, verdicts);
    failure(change, verdicts);
}

/// A pool that names a kind of infrastructure machines creates one for each instance (CT-13.2).
fn instances(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    let Some(instances) = change.now().instances else { return };
    let [was, is] = change.at(paths::status::REPLICAS).map(|value| value.and_then(Value::as_u64).unwrap_or_default());
    let is_asked = change.raises_flag() || was < is;
    if change.after.is_none() || is == 0 || !is_asked {
        return;
    }
    verdicts.push(RuleVerdict::kept_if(
        instances > 0,
        "CT-13.2",
        &format!("{instances} infrastructure machines have the labels of the Cluster and of the pool"),
        "status.infrastructureMachineKind is set, and no object of this kind has the labels of the Cluster and of the \
         pool",
        "Create an infrastructure machine for each instance, with both labels",
    ));
}

/// A terminal failure is reported if the contract has fields for it, and is permanent (CT-6.7, CT-20.2).
fn failure(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    use model::hub::contract::Contract;
    let is_set = |at: usize| {
        [paths::status::FAILURE_REASON, paths::status::FAILURE_MESSAGE]
            .iter()
            .any(|path| !change.text(path)[at].is_empty())
    };
    if is_set(0) || !is_set(1) {
        return;
    }
    verdicts.push(match change.contract {
        Contract::V1Beta1 => {
            let complete = !change.text(paths::status::FAILURE_REASON)[1].is_empty()
                && !change.text(paths::status::FAILURE_MESSAGE)[1].is_empty();
            RuleVerdict::kept_if(
                complete,
                "CT-6.7",
                "a failure for good has a reason and a message",
                "a failure for good has only one of status.failureReason and status.failureMessage",
                "Report both",
            )
        }
        Contract::V1Beta2 => RuleVerdict::disregarded(
            "CT-20.2",
            "status.failureReason or status.failureMessage is set, which the contract v1beta2 does not have",
            "Report the failure in the condition Ready",
        ),
    });
}

/// Source and form of the endpoint (CT-6.2 to CT-6.4).
pub(super) fn endpoint(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    const RULE: &str = "CT-6.3";
    let valid = |object: Option<&Object>| {
        let endpoint = object?.at(paths::cluster::CONTROL_PLANE_ENDPOINT)?;
        let host = endpoint.get("host").and_then(Value::as_str).filter(|host| !host.is_empty())?;
        let port = endpoint.get("port").and_then(Value::as_u64).filter(|port| (1..=65535).contains(port))?;
        Some((host.to_owned(), port))
    };
    let (was, is) = (valid(change.before), valid(change.after));
    let of_cluster = change.surroundings[0].cluster.as_ref();
    match (was, is) {
        (None, Some(is)) => {
            let known = valid(of_cluster).filter(|known| *known != is);
            verdicts.push(match known {
                None => RuleVerdict::kept(RULE, format!("the endpoint is {}:{}", is.0, is.1)),
                Some(known) => RuleVerdict::broken(
                    RULE,
                    format!("the endpoint is {}:{}, and the Cluster has {}:{} already", is.0, is.1, known.0, known.1),
                    "Set no endpoint where the Cluster has one",
                ),
            });
        }
        (Some(was), is) if change.after.is_some() && is.as_ref() != Some(&was) => {
            let is = is.map_or_else(|| "gone".to_owned(), |(host, port)| format!("{host}:{port}"));
            verdicts.push(RuleVerdict::broken(
                RULE,
                format!("the endpoint was {}:{}, and is {is}", was.0, was.1),
                "Never change an endpoint: Cluster API does not copy it a second time",
            ));
        }
        _ => {}
    }
}
