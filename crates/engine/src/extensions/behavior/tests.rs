use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use model::hub::ObjectKey;
use model::world::{PatchCall, PatchHook};

/// A request with a template of machines, a template of a cluster, and the variables `size` and `zone`.
fn request(hook: PatchHook) -> PreparedPatchRequest {
    let item = |kind: &str| {
        let object = json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "small"},
            "spec": {"template": {"spec": {"list": ["a"]}}}});
        json!({"holderReference": {"kind": "Cluster", "fieldPath": "spec.infrastructureRef"}, "object": object})
    };
    let variables =
        json!([{"name": "size", "value": "large"}, {"name": "zone", "value": 1}, {"name": "builtin", "value": {}}]);
    let request = json!({"variables": variables, "items": [item("MachineTemplate"), item("ClusterTemplate")]});
    let (extension, cluster) = ("gen.ext".to_owned(), ObjectKey::new("ns", "c"));
    PreparedPatchRequest::new(&PatchCall { hook, extension, cluster, request: request.to_string() }, &BTreeMap::new())
        .unwrap()
}

/// The value of a variable.
fn variable(request: &Value, name: &str) -> Value {
    let all = request["variables"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).map(|one| one["value"].clone()).unwrap_or_default()
}

/// An answer with this JSON patch for each item of the kind.
fn patching(request: &Value, kind: &str, patch: impl Fn(&Value) -> Value) -> Value {
    let items = request["items"].as_array().unwrap().iter().filter(|item| item["object"]["kind"] == kind);
    let patch = |item: &Value| {
        let patch = STANDARD.encode(patch(&item["object"]).to_string());
        json!({"uid": item["uid"], "patchType": "JSONPatch", "patch": patch})
    };
    json!({"status": "Success", "items": items.map(patch).collect::<Vec<_>>()})
}

fn failure(message: &str) -> Value {
    json!({"status": "Failure", "message": message})
}

/// What a good extension answers: the size, which must be text, in all machines of the version that it knows.
fn good(request: &Value) -> Value {
    let size = variable(request, "size");
    if !size.is_string() {
        return failure("the variable size must be text");
    }
    let is_known =
        |item: &Value| item["object"]["kind"] != "MachineTemplate" || item["object"]["apiVersion"] == "example.com/v1";
    if !request["items"].as_array().unwrap().iter().all(is_known) {
        return failure("MachineTemplate is in an unknown version");
    }
    let mut answer = patching(
        request,
        "MachineTemplate",
        |_| json!([{"op": "add", "path": "/spec/template/spec/size", "value": size}]),
    );
    if request["items"][0]["object"]["spec"]["template"]["spec"]["size"] == size {
        answer["items"] = json!([]);
    }
    answer
}

fn reply(answer: &Value) -> Reply {
    Reply { outcome: Ok(RawValue::from_string(answer.to_string()).unwrap()), milliseconds: 1 }
}

/// The findings about an extension that answers in this way, a line for each.
fn findings(answer: impl Fn(&Value) -> Value) -> Vec<String> {
    found(PatchHook::GeneratePatches, |request| reply(&answer(request)))
}

fn found(hook: PatchHook, answer: impl Fn(&Value) -> Reply) -> Vec<String> {
    let always_set = BTreeSet::from(["size".to_owned()]);
    let send = |body: &str| answer(&serde_json::from_str(body).unwrap());
    let all = check_patch(&request(hook), &always_set, &send);
    all.into_iter().map(|finding| format!("{} {}: {}", finding.level, finding.rule, finding.message)).collect()
}

#[test]
fn nothing_is_found_about_a_good_extension() {
    // RH-23.5
    assert_eq!(findings(good), [""; 0]);
    assert_eq!(found(PatchHook::ValidateTopology, |_| reply(&json!({"status": "Success"}))), [""; 0]);
}

#[test]
fn equal_requests_must_get_equal_answers_quickly() {
    // RH-23.5
    let calls = Cell::new(0);
    let counted = |request: &Value| {
        calls.set(calls.get() + 1);
        patching(
            request,
            "MachineTemplate",
            |_| json!([{"op": "add", "path": "/spec/template/spec/size", "value": calls.get()}]),
        )
    };
    let all = findings(counted);
    let want =
        "error RH-23.5: two equal requests got different patches: MachineTemplate small /spec/template/spec/size";
    assert!(all.contains(&want.to_owned()), "{all:#?}");
    let message = |request: &Value| {
        calls.set(calls.get() + 1);
        let mut answer = good(request);
        answer["message"] = json!(calls.get().to_string());
        answer
    };
    assert_eq!(findings(message), ["error RH-23.5: two equal requests got answers with different texts"]);
    let slow = found(PatchHook::ValidateTopology, |_| Reply {
        milliseconds: SLOW + 1,
        ..reply(&json!({"status": "Success"}))
    });
    assert_eq!(slow, ["warning RH-23.5: a call takes 201 ms, and should take less than 200 ms"]);
}

#[test]
fn patches_must_change_something_and_only_once() {
    // RH-23.5, RH-23.6
    let idle = |request: &Value| {
        patching(
            request,
            "MachineTemplate",
            |_| json!([{"op": "replace", "path": "/spec/template/spec/list", "value": ["a"]}]),
        )
    };
    assert_eq!(findings(idle), ["warning RH-23.6: a patch of MachineTemplate small changes nothing"]);
    let appending = |request: &Value| {
        patching(
            request,
            "MachineTemplate",
            |_| json!([{"op": "add", "path": "/spec/template/spec/list/-", "value": "b"}]),
        )
    };
    let want = "error RH-23.5: objects that are patched already get another patch: MachineTemplate small \
                /spec/template/spec/list/2";
    assert_eq!(findings(appending), [want]);
    let refusing = |request: &Value| match request["items"][0]["object"]["spec"]["template"]["spec"]["size"].is_null() {
        true => good(request),
        false => failure("it has a size"),
    };
    let all = findings(refusing);
    assert_eq!(all, ["error RH-23.5: objects that are patched already got the answer Failure: it has a size"]);
}

#[test]
fn a_variable_that_is_missing_or_of_another_type_is_no_success() {
    // RH-23.5
    let guessing = |request: &Value| {
        let size = variable(request, "size");
        patching(
            request,
            "MachineTemplate",
            |_| json!([{"op": "add", "path": "/spec/template/spec/size", "value": size}]),
        )
    };
    let all = findings(guessing);
    let start = "warning RH-23.5: without the variable \"size\", the answer is a success with other patches";
    assert!(all.contains(&start.to_owned()), "{all:#?}");
    let typed = "warning RH-23.5: with a variable \"size\" of another type, the answer is a success";
    assert!(all.contains(&typed.to_owned()), "{all:#?}");
    assert!(!all.iter().any(|one| one.contains("zone")), "it does not use that one: {all:#?}");
    let ends = |request: &Value| match variable(request, "zone").is_null() {
        true => Reply { outcome: Err(FailedCall("the connection was closed".to_owned())), milliseconds: 1 },
        false => reply(&good(request)),
    };
    let want = "error RH-23.4: without the variable \"zone\", the call failed: the connection was closed";
    assert_eq!(found(PatchHook::GeneratePatches, ends), [want]);
    let validating = |request: &Value| match ends(request).outcome {
        Ok(_) => reply(&json!({"status": "Success"})),
        Err(error) => Reply { outcome: Err(error), milliseconds: 1 },
    };
    assert_eq!(found(PatchHook::ValidateTopology, validating), [want]);
}

#[test]
fn unknown_kinds_are_skipped_and_unknown_versions_are_not_ignored() {
    // RH-10.4, RH-23.5
    let all_kinds = |request: &Value| {
        let kind = request["items"][0]["object"]["kind"].as_str().unwrap().to_owned();
        patching(request, &kind, |object| match object["spec"]["template"]["spec"]["size"].is_null() {
            true => json!([{"op": "add", "path": "/spec/template/spec/size", "value": 1}]),
            false => json!([]),
        })
    };
    let all = findings(all_kinds);
    assert!(all.contains(&"error RH-23.5: templates of an unknown kind are patched".to_owned()), "{all:#?}");
    let strict = |request: &Value| match request["items"][0]["object"]["kind"] == "MachineTemplate" {
        true => good(request),
        false => failure("unknown kind"),
    };
    assert_eq!(
        findings(strict),
        ["warning RH-23.5: templates of an unknown kind got the answer Failure: unknown kind"]
    );
    let by_version = |request: &Value| match request["items"][0]["object"]["apiVersion"] == "example.com/v1" {
        true => good(request),
        false => json!({"status": "Success"}),
    };
    let want = "warning RH-10.4: in an unknown version, MachineTemplate gets no patch, and the answer is a success";
    assert_eq!(findings(by_version), [want]);
}

#[test]
fn an_answer_that_cannot_be_used_or_refuses_ends_the_check() {
    // RH-23.2
    let calls = RefCell::new(0);
    let all = found(PatchHook::GeneratePatches, |_| {
        *calls.borrow_mut() += 1;
        reply(&json!({"status": "Maybe"}))
    });
    assert_eq!((all.len(), *calls.borrow()), (1, 2), "{all:#?}");
    assert!(all[0].starts_with("error RH-23.2: the call failed: unknown status \"Maybe\""), "{all:#?}");
    let refused = findings(|_| failure("no"));
    let want = "warning RH-23.5: the request got the answer Failure, so nothing else was checked: no";
    assert_eq!(refused, [want]);
}

#[test]
fn other_handlers_are_called_twice() {
    // RH-23.2, RH-23.5
    let calls = Cell::new(0);
    let counted = |_: &str| {
        calls.set(calls.get() + 1);
        reply(&json!({"status": "Success", "message": calls.get().to_string()}))
    };
    let [finding] = &check_call("{}", &counted)[..] else { panic!("one finding") };
    assert_eq!((finding.rule, &*finding.message), ("RH-23.5", "two equal requests got different answers"));
    assert_eq!(check_call("{}", &|_| reply(&json!({"status": "Success"}))), []);
    let [finding] = &check_call("{}", &|_| reply(&failure("no")))[..] else { panic!("one finding") };
    assert_eq!((finding.rule, &*finding.message), ("RH-23.2", "the answer is no success: no"));
}

#[test]
fn an_order_that_has_an_effect_is_found() {
    // RH-10.10
    let request = request(PatchHook::GeneratePatches);
    let adds = |field: &'static str, value: i32| {
        move |body: &str| {
            let request: Value = serde_json::from_str(body).unwrap();
            let path = format!("/spec/template/spec/{field}");
            reply(&patching(&request, "MachineTemplate", |_| json!([{"op": "add", "path": path, "value": value}])))
        }
    };
    let (size, other_size, zone) = (adds("size", 1), adds("size", 2), adds("zone", 1));
    assert_eq!(check_order((&request, &size), (&request, &zone)), None);
    let found = check_order((&request, &size), (&request, &other_size)).unwrap();
    let want = "the result depends on the order of the patches: MachineTemplate small /spec/template/spec/size";
    assert_eq!((found.level, &*found.message), (Level::Warning, want));
}
