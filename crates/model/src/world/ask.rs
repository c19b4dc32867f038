//! Questions with typed answers.
//!
//! The table in this file is the only place that connects a question with its [`Need`], its [`Answer`], and the lookup
//! in files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::need::{
    DefinitionName, DryRun, DryRunCall, HookAnswer, HookCall, Nodes, NodesOf, PatchAnswer, PatchCall, PlanCall,
    PlannedVersions, Selection, SettledClass,
};
use super::{Class, Facts, Found};
use crate::hub::{Object, ObjectRef, ResourceDefinition};

/// A question with a typed answer.
pub trait Ask: Sized {
    type Answer: Clone;

    /// The need to gather the answer.
    fn need(&self) -> Need;

    /// Wraps an answer to this question.
    fn answer(&self, found: Found<Self::Answer>) -> Answer;

    /// The answer if the facts are complete, as with files.
    fn in_facts(&self, facts: &Facts) -> Found<Self::Answer>;

    /// The pinned answer, if there is one.
    fn in_pinned<'a>(&self, pinned: &'a Pinned) -> Option<&'a Found<Self::Answer>>;
}

macro_rules! questions {
    ($($(#[$doc:meta])* $name:ident($question:ty) -> $answer:ty, |$this:pat_param, $facts:pat_param| $in_facts:expr;)*) => {
        /// A fact that must be gathered before the result of a run counts.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Need { $($(#[$doc])* $name($question),)* }

        /// The answer to a need.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Answer { $($name(Found<$answer>),)* }

        /// The pinned answers of a run, by question.
        #[derive(Debug, Default)]
        #[allow(non_snake_case, reason = "a field has the name of its need")]
        pub struct Pinned { $($name: BTreeMap<$question, Found<$answer>>,)* }

        impl Pinned {
            /// Pins an answer; an answer of another type is dropped, so that the need remains.
            pub(super) fn pin(&mut self, need: Need, answer: Answer) {
                match (need, answer) {
                    $((Need::$name(question), Answer::$name(found)) => drop(self.$name.insert(question, found)),)*
                    (need, answer) => debug_assert!(false, "{need} has the answer {answer:?}"),
                }
            }
        }

        $(impl Ask for $question {
            type Answer = $answer;

            fn need(&self) -> Need {
                Need::$name(self.clone())
            }

            fn answer(&self, found: Found<$answer>) -> Answer {
                Answer::$name(found)
            }

            fn in_facts(&self, $facts: &Facts) -> Found<$answer> {
                let $this = self;
                $in_facts
            }

            fn in_pinned<'a>(&self, pinned: &'a Pinned) -> Option<&'a Found<$answer>> {
                pinned.$name.get(self)
            }
        })*

        impl Need {
            /// The answer that the fact is unavailable, with the reason.
            pub fn unanswered(&self, reason: impl Into<String>) -> Answer {
                match self { $(Need::$name(question) => question.answer(Found::Unreadable(reason.into())),)* }
            }
        }

        impl fmt::Display for Need {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Need::$name(question) => question.fmt(f),)* }
            }
        }

        impl Answer {
            /// The reason why the fact is unavailable, if it is.
            pub fn unreadable(&self) -> Option<&str> {
                match self {
                    $(Answer::$name(Found::Unreadable(reason)))|* => Some(reason),
                    _ => None,
                }
            }
        }

        impl Facts {
            /// The answer if these facts are complete, as with files.
            pub fn answer(&self, need: &Need) -> Answer {
                match need { $(Need::$name(question) => question.answer(question.in_facts(self)),)* }
            }
        }
    };
}

questions! {
    /// A ClusterClass that is absent, or whose variables are still being discovered, and may arrive soon (CL-V-050).
    /// The gatherer decides how long to wait.
    Class(SettledClass) -> Arc<Class>, |SettledClass(key), facts| facts.class(key);
    /// An object in this version of its kind.
    Object(ObjectRef) -> Arc<Object>, |reference, facts| {
        facts.objects().map_or(Found::Absent, |objects| objects.object(reference))
    };
    /// The objects of a kind in a namespace with these labels, sorted by name.
    List(Selection) -> Vec<Arc<Object>>, |selection, facts| {
        facts.objects().map_or(Found::Absent, |objects| Found::Yes(objects.list(selection)))
    };
    /// The CustomResourceDefinition of that name (CT-2.1).
    Definition(DefinitionName) -> Arc<ResourceDefinition>, |DefinitionName(name), facts| {
        facts.objects().map_or(Found::Absent, |objects| objects.definition(name))
    };
    /// These Nodes of a workload cluster, without missing ones. Absent if they are unknown: files contain none of them
    /// (DEC-18), or kubeconfigs may not be read (DEC-47).
    Nodes(NodesOf) -> Nodes, |NodesOf { cluster, names }, facts| {
        match facts.objects().map(|objects| objects.nodes(cluster)).unwrap_or_default() {
            // Files with some Nodes of a cluster contain all that matter; without any, nothing is known.
            none if none.is_empty() && !names.is_empty() => Found::Absent,
            nodes => Found::Yes(some_of(nodes, names)),
        }
    };
    /// The combined answer of all extensions of a lifecycle hook (HK-04, HK-07). Absent if none is registered;
    /// unreadable if a call failed.
    Hook(HookCall) -> HookAnswer, |_, _| Found::Absent;
    /// The upgrade plan of an extension (UP-15). Unreadable if the call failed.
    GenerateUpgradePlan(PlanCall) -> PlannedVersions, |_, _| {
        Found::Unreadable("there is no API server; call the extension with --extension".to_owned())
    };
    /// The patches or the verdict of an extension for the templates of a topology (PE-23, PE-29). Unreadable if the
    /// call failed and failures are not ignored.
    Patch(PatchCall) -> PatchAnswer, |_, _| Found::Absent;
    /// The changes of an apply as computed by an API server (SSA-06 to SSA-14). Unreadable if the API server rejected
    /// it.
    DryRun(DryRunCall) -> DryRun, |_, _| Found::Absent;
}

fn some_of(nodes: Nodes, names: &BTreeSet<String>) -> Nodes {
    nodes.into_iter().filter(|(name, _)| names.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::{Hook, ObjectKey};
    use crate::world::{ObjectSet, PatchHook, World};

    fn needs() -> Vec<(Need, &'static str)> {
        let (cluster, request) = (ObjectKey::new("ns", "c"), "secret".to_owned());
        let object = ObjectRef::new("g/v1", "Thing", cluster.clone());
        let (extension, text) = ("e".to_owned(), |text: &str| text.to_owned());
        let (kind, labels) = (text("Thing"), BTreeMap::from([(text("a"), text("b"))]));
        let hook = HookCall { hook: Hook::BeforeClusterCreate, cluster: cluster.clone(), request: request.clone() };
        let plan = PlanCall { extension: extension.clone(), cluster: cluster.clone(), request: request.clone() };
        let patch_hook = PatchHook::GeneratePatches;
        let patch = PatchCall { hook: patch_hook, extension, cluster: cluster.clone(), request: request.clone() };
        let dry_run =
            DryRunCall { object: object.clone(), version: text("7"), current: request.clone(), sent: request };
        vec![
            (SettledClass(cluster.clone()).need(), "ClusterClass ns/c"),
            (object.need(), "Thing ns/c"),
            (
                Selection { api_version: text("g/v1"), kind, namespace: text("ns"), labels }.need(),
                "Things in namespace ns with labels {\"a\": \"b\"}",
            ),
            (DefinitionName(text("things.g")).need(), "CustomResourceDefinition things.g"),
            (NodesOf { cluster, names: [text("n")].into() }.need(), "Nodes {\"n\"} of Cluster ns/c"),
            (hook.need(), "BeforeClusterCreate for Cluster ns/c"),
            (plan.need(), "GenerateUpgradePlan of e for Cluster ns/c"),
            (patch.need(), "GeneratePatches of e for Cluster ns/c"),
            (dry_run.need(), "dry run of Thing ns/c at resourceVersion 7"),
        ]
    }

    #[test]
    fn needs_are_named_in_words_that_show_no_values() {
        // DEC-34
        for (need, words) in needs() {
            assert_eq!(need.to_string(), words);
            assert!(!format!("{need:?}").contains("secret"), "{need:?}");
        }
    }

    #[test]
    fn every_question_finds_the_answer_that_is_pinned_and_no_other() {
        fn ask(world: &World, need: &Need) -> String {
            match need {
                Need::Class(class) => format!("{:?}", world.class(&class.0)),
                Need::Object(reference) => format!("{:?}", world.object(reference)),
                Need::List(selection) => format!("{:?}", world.list(selection)),
                Need::Definition(name) => format!("{:?}", world.definition(&name.0)),
                Need::Nodes(nodes) => format!("{:?}", world.ask(nodes)),
                Need::Hook(call) => format!("{:?}", world.ask(call)),
                Need::GenerateUpgradePlan(call) => format!("{:?}", world.ask(call)),
                Need::Patch(call) => format!("{:?}", world.ask(call)),
                Need::DryRun(call) => format!("{:?}", world.dry_run(call.clone())),
            }
        }
        let mut world = World::new(Arc::new(Facts::default()));
        for (need, words) in needs() {
            assert_eq!(ask(&world, &need), "NotAsked", "{words}");
            assert_eq!(world.take_needs(), BTreeSet::from([need.clone()]));
            let answer = need.unanswered(words);
            assert_eq!(answer.unreadable(), Some(words));
            world.pin(need.clone(), answer);
            assert_eq!(ask(&world, &need), format!("Unreadable({words:?})"));
            assert!(!world.has_needs());
        }
        for facts in [Facts::default(), Facts::default().with_objects(ObjectSet::default())] {
            let mut world = World::closed(Arc::new(facts.clone()));
            for (need, words) in needs() {
                let (answer, found) = (format!("{:?}", facts.answer(&need)), ask(&world, &need));
                let is_awaited = matches!(need, Need::Class(_));
                assert_eq!(found == "NotAsked", is_awaited, "files wait only for the patience of a gatherer: {words}");
                assert!(is_awaited || answer.ends_with(&format!("({found})")), "{answer} and {found}");
                world.take_needs();
            }
        }
    }
}
