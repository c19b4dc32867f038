//! `check-provider --live`: follows objects of a running provider.
//!
//! ```text
//! watch ─► change of an object ─┬─► related_objects.rs: its Cluster, its owner, its Machines
//!                               └─► provider_contract::behavior: rules kept and broken ─► a line each ─► totals
//! ```

mod related_objects;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::api::{Api, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};

use self::related_objects::look_around;
use crate::cli::args::{CheckProviderArgs, FailOn, FindingsFormat, KindAndName, OutputFormat};
use crate::cli::live::{ClusterConnection, list};
use crate::cli::output::{self, Text};
use machines::provider_contract::behavior::{ObservedChange, RelatedObjects, RuleVerdict, check_change, shown};
use machines::provider_contract::{Level, ProviderRole, order};
use model::hub::contract::Contract;
use model::hub::contract::chosen;
use model::hub::{Object, ObjectKey};
use schema::field::{counted, enumerated};
use server::kubernetes::address::Resource;

/// Follows objects until they are deleted, the time is over, or a signal arrives.
pub(super) fn run(wanted: &KindAndName, options: &CheckProviderArgs) -> Result<ExitCode> {
    let format = match options.findings.output {
        FindingsFormat::Text => OutputFormat::Text,
        FindingsFormat::Json => OutputFormat::Json,
        _ => bail!("--live prints text or json: its findings are about changes, not about files"),
    };
    let connection = ClusterConnection::open(options.kubeconfig.as_deref())?;
    connection.block_on(async {
        let target = ObservedKind::find(wanted, options, &connection.client()).await?;
        let mut following = ProviderObserver::new(connection.client(), target, format);
        let lasts = async {
            match options.lasts {
                Some(lasts) => tokio::time::sleep(lasts).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            followed = following.follow() => followed?,
            () = lasts => {}
            stopped = tokio::signal::ctrl_c() => stopped?,
        }
        following.finish(options.findings.fail_on() == FailOn::Warning)
    })
}

/// The kind that is followed, or one object of it.
struct ObservedKind {
    kind: String,
    role: ProviderRole,
    contract: Contract,
    resource: Resource,
    /// None for all of the kind.
    name: Option<String>,
    namespace: Option<String>,
}

impl ObservedKind {
    /// Finds the kind among the definitions of the cluster.
    async fn find(wanted: &KindAndName, options: &CheckProviderArgs, client: &kube::Client) -> Result<Self> {
        let KindAndName { kind, name } = wanted;
        let resource = Resource::known("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let all = list(client, &resource, None).await.context("cannot list CustomResourceDefinitions")?;
        let of_providers: Vec<ProviderKind<'_>> = all.iter().filter_map(ProviderKind::from_definition).collect();
        let found: Vec<&ProviderKind<'_>> = of_providers.iter().filter(|one| one.is_called(kind)).collect();
        let provided = match *found {
            [provided] => provided,
            [] if of_providers.is_empty() => {
                bail!("this cluster has no kinds of providers: no CustomResourceDefinition names a contract")
            }
            [] => {
                let kinds: BTreeSet<&str> = of_providers.iter().map(|one| one.kind).collect();
                bail!(
                    "no provider has a kind {kind:?}; there are {}",
                    enumerated(kinds.into_iter().collect::<Vec<_>>())
                )
            }
            [..] => {
                let names: Vec<&str> = found.iter().map(|one| one.name).collect();
                bail!("several kinds are called {kind:?}; name one of {}", enumerated(&names))
            }
        };
        let by_name = name.as_ref().map(|_| "default".to_owned());
        Ok(ObservedKind {
            role: provided.role,
            contract: provided.contract,
            resource: Resource::new(provided.group, &provided.version, provided.kind)?,
            kind: provided.kind.to_owned(),
            name: name.clone(),
            namespace: options.namespace.clone().or(by_name),
        })
    }
}

/// A kind of a provider.
struct ProviderKind<'a> {
    name: &'a str,
    group: &'a str,
    kind: &'a str,
    definition: &'a Value,
    role: ProviderRole,
    contract: Contract,
    version: String,
}

impl<'a> ProviderKind<'a> {
    /// The kind of a definition; `None` for one without a contract.
    fn from_definition(definition: &'a Value) -> Option<Self> {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, kind) = (text("/spec/group"), text("/spec/names/kind"));
        let labels = definition.pointer("/metadata/labels").and_then(Value::as_object)?;
        let labels =
            labels.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
        let (contract, version) = chosen(&labels)?;
        let contract = if contract == "v1beta1" { Contract::V1Beta1 } else { Contract::V1Beta2 };
        let (role, version) = (ProviderRole::for_kind(group, kind)?, version.to_owned());
        Some(ProviderKind { name: text("/metadata/name"), group, kind, definition, role, contract, version })
    }

    /// Whether it has this kind, resource or full name, as kubectl reads it.
    fn is_called(&self, text: &str) -> bool {
        let name = |name: &str| self.definition.pointer(&format!("/spec/names/{name}")).and_then(Value::as_str);
        let is = |name: &str| name.eq_ignore_ascii_case(text);
        let names = ["kind", "plural", "singular"].into_iter().filter_map(name);
        names.into_iter().any(|name| is(name) || is(&format!("{name}.{}", self.group)))
    }
}

/// An object with its related objects.
struct KnownObject {
    object: Object,
    around: RelatedObjects,
}

/// The objects, and the counts of the rules.
struct ProviderObserver {
    client: kube::Client,
    target: ObservedKind,
    output: OutputFormat,
    known: BTreeMap<ObjectKey, KnownObject>,
    /// How often each rule was kept and broken.
    counts: BTreeMap<&'static str, [usize; 2]>,
    errors: usize,
    warnings: usize,
    steps: usize,
}

impl ProviderObserver {
    fn new(client: kube::Client, target: ObservedKind, output: OutputFormat) -> Self {
        let (known, counts) = (BTreeMap::new(), BTreeMap::new());
        ProviderObserver { client, target, output, known, counts, errors: 0, warnings: 0, steps: 0 }
    }

    /// Reports changes; ends when the one object is deleted.
    async fn follow(&mut self) -> Result<()> {
        let api: Api<DynamicObject> =
            self.target.resource.api(self.client.clone(), self.target.namespace.as_deref())?;
        let mut config = watcher::Config::default();
        if let Some(name) = &self.target.name {
            config = config.fields(&format!("metadata.name={name}"));
        }
        let mut events = watcher(api, config).default_backoff().boxed();
        let (mut listed, mut is_first) = (BTreeSet::new(), true);
        loop {
            let event = match events.try_next().await {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(()),
                Err(error) => {
                    output::message(format_args!("the watch is interrupted: {}", schema::field::chain(&error)))?;
                    continue;
                }
            };
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(object) => {
                    let object = whole(object)?;
                    listed.insert(object.key());
                    // Changes from before the start are unknown.
                    match is_first && !self.known.contains_key(&object.key()) {
                        true => self.remember(object).await,
                        false => self.update(object).await?,
                    }
                }
                Event::InitDone => {
                    if std::mem::take(&mut is_first) {
                        self.print_start()?;
                    }
                    let gone: Vec<ObjectKey> = self.known.keys().filter(|key| !listed.contains(key)).cloned().collect();
                    for key in gone {
                        self.gone(&key).await?;
                    }
                }
                Event::Apply(object) => self.update(whole(object)?).await?,
                Event::Delete(object) => {
                    let key = whole(object)?.key();
                    self.gone(&key).await?;
                    if self.target.name.is_some() {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn print_start(&self) -> Result<()> {
        let ObservedKind { kind, role, name, .. } = &self.target;
        let which = match name {
            Some(name) if self.known.is_empty() => format!("{kind} {name}, which is not there yet"),
            Some(name) => format!("{kind} {name}"),
            None => format!("{} of kind {kind}, and new ones", counted(self.known.len(), "object")),
        };
        Ok(output::message(format_args!("following {which} ({}); Ctrl-C ends", role.name()))?)
    }

    async fn remember(&mut self, object: Object) {
        let around = look_around(&self.client, self.target.role, &object).await;
        self.known.insert(object.key(), KnownObject { object, around });
    }

    async fn update(&mut self, object: Object) -> Result<()> {
        let key = object.key();
        // Another object of that name has nothing to do with the one before it.
        if self.known.get(&key).is_some_and(|known| known.object.uid() != object.uid()) {
            self.gone(&key).await?;
        }
        let before = self.known.remove(&key);
        let same = |known: &KnownObject| known.object.resource_version() == object.resource_version();
        let is_same = before.as_ref().is_some_and(same);
        let around = look_around(&self.client, self.target.role, &object).await;
        if !is_same {
            let what = if before.is_some() { "changed" } else { "created" };
            self.report(&key, what, before.as_ref(), Some(&object), &around)?;
        }
        self.known.insert(key, KnownObject { object, around });
        Ok(())
    }

    async fn gone(&mut self, key: &ObjectKey) -> Result<()> {
        let Some(before) = self.known.remove(key) else { return Ok(()) };
        let around = look_around(&self.client, self.target.role, &before.object).await;
        self.report(key, "gone", Some(&before), None, &around)
    }

    fn report(
        &mut self,
        key: &ObjectKey,
        what: &str,
        before: Option<&KnownObject>,
        after: Option<&Object>,
        now: &RelatedObjects,
    ) -> Result<()> {
        let ObservedKind { role, contract, .. } = self.target;
        let surroundings = [before.map_or(now, |known| &known.around), now];
        let before = before.map(|known| &known.object);
        let verdicts = check_change(&ObservedChange { role, contract, before, after, surroundings });
        self.print_change(key, what, &verdicts)
    }

    /// Prints a change, and counts its verdicts.
    fn print_change(&mut self, key: &ObjectKey, what: &str, verdicts: &[RuleVerdict]) -> Result<()> {
        self.steps += 1;
        for verdict in verdicts {
            let count = self.counts.entry(verdict.rule).or_default();
            match &verdict.broken {
                None => count[0] += 1,
                Some(broken) => {
                    count[1] += 1;
                    let total = if broken.level == Level::Error { &mut self.errors } else { &mut self.warnings };
                    *total += 1;
                }
            }
        }
        // Most changes are of a status that no rule is about.
        if verdicts.is_empty() && what == "changed" {
            return Ok(());
        }
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        match self.output {
            OutputFormat::Text => output::text(&text(&self.target.kind, key, &now, what, verdicts))?,
            OutputFormat::Json => {
                let verdicts: Vec<_> = verdicts.iter().map(row).collect();
                let (kind, key) = (&self.target.kind, key.to_string());
                let line = json!({"time": now, "kind": kind, "object": key, "what": what, "rules": verdicts});
                output::data(&format!("{line}\n"))?;
            }
        }
        Ok(())
    }

    /// The rules that were kept (0) or broken (1) by a change.
    fn counted_rules(&self, which: usize) -> Vec<&'static str> {
        let mut rules: Vec<&str> =
            self.counts.iter().filter(|(_, count)| count[which] > 0).map(|(rule, _)| *rule).collect();
        rules.sort_by_key(|rule| order(rule));
        rules
    }

    /// The rules that no change exercised, although one could have.
    fn unseen(&self) -> Vec<&'static str> {
        let ObservedKind { role, contract, .. } = self.target;
        shown(role, contract).iter().filter(|rule| !self.counts.contains_key(**rule)).copied().collect()
    }

    /// Prints the totals.
    fn finish(&self, fail_on_warnings: bool) -> Result<ExitCode> {
        let [kept, broken] = [0, 1].map(|which| self.counted_rules(which));
        let unseen = self.unseen();
        match self.output {
            OutputFormat::Json => {
                let line = json!({"changes": self.steps, "errors": self.errors, "warnings": self.warnings,
                    "kept": kept, "broken": broken, "notSeen": unseen});
                output::data(&format!("{line}\n"))?;
            }
            OutputFormat::Text => {
                let (errors, warnings) = (counted(self.errors, "error"), counted(self.warnings, "warning"));
                let mut text = Text::default();
                text.line(format_args!("{}, {errors}, {warnings}", counted(self.steps, "change")));
                for (name, rules) in [("kept", kept), ("broken", broken), ("not seen", unseen)] {
                    if !rules.is_empty() {
                        text.line(format_args!("  {name}: {}", rules.join(", ")));
                    }
                }
                output::text(&text)?;
            }
        }
        let fails = self.errors > 0 || (fail_on_warnings && self.warnings > 0);
        Ok(ExitCode::from(u8::from(fails)))
    }
}

/// A change with its verdicts.
fn text(kind: &str, key: &ObjectKey, now: &str, what: &str, verdicts: &[RuleVerdict]) -> Text {
    let mut text = Text::default();
    text.line(format_args!("{now} {kind} {key}: {what}"));
    for RuleVerdict { rule, broken, message } in verdicts {
        match broken {
            None => text.line(format_args!("  kept {rule}: {message}")),
            Some(broken) => {
                text.line(format_args!("  {} {rule}: {message}", broken.level));
                text.line(format_args!("    help: {}", broken.remediation));
            }
        }
    }
    text
}

fn row(verdict: &RuleVerdict) -> Value {
    let level = verdict.broken.as_ref().map(|broken| broken.level.to_string());
    let way_out = verdict.broken.as_ref().map(|broken| broken.remediation);
    json!({"rule": verdict.rule, "kept": verdict.broken.is_none(), "level": level, "message": verdict.message,
        "wayOut": way_out})
}

/// The object in the form that rules read.
fn whole(object: DynamicObject) -> Result<Object> {
    let mut value = serde_json::to_value(object)?;
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Object::try_from(value).ok().context("the API server returned an object without kind")
}
