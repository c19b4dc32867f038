//! The requests that each port answers.

use std::sync::Arc;

use axum::Router;
use tokio::task::JoinSet;

use crate::cli::args::ServeArgs;
use crate::cli::leading::ControllerContext;
use crate::cli::memory::Shares;
use crate::cli::tasks::supervise;
use crate::cli::watches::ReplicaWatches;
use server::kubernetes::gather::Gatherer;
use server::kubernetes::versions::ApiVersions;
use server::webhook::conversion::{self, Converter};
use server::webhook::limits::ReviewLimits;
use server::webhook::review::ReviewHandler;
use server::webhook::routes;

/// The router of each port.
pub(super) struct EndPoints {
    /// Everything, for callers in this process.
    pub all: Router,
    pub reviews: Router,
    pub conversions: Router,
}

impl EndPoints {
    pub(super) fn new(
        options: &ServeArgs,
        memory_shares: Shares,
        shared: &ControllerContext<'_>,
        watches: &ReplicaWatches,
        tasks: &mut JoinSet<&'static str>,
    ) -> EndPoints {
        let ControllerContext { client, cache, metrics, memory, .. } = *shared;
        let versions = ApiVersions::for_cluster(client.clone());
        let conversion_limits = conversion::ConversionLimits {
            held: memory_shares.conversions,
            blocking: memory_shares.converting,
            ..conversion::ConversionLimits::default()
        };
        let converter = Arc::new(Converter::new(versions, conversion_limits, metrics.clone()));
        let gatherer = Gatherer::with_api_server(cache.clone(), client.clone(), metrics.clone());
        let gatherer = match &watches.impacts {
            Some(impacts) => gatherer.watching(impacts.clone()),
            None => gatherer,
        };
        supervise(tasks, "the connections to workload clusters", gatherer.follow_clusters());
        let limits = ReviewLimits {
            blocking: memory_shares.threads,
            held: memory_shares.bodies,
            impact: options.impact_time,
            max_replaced_machines: options.max_replaced_machines,
            unknown_impact: options.impact_unknown,
            ..ReviewLimits::default()
        };
        let handler = ReviewHandler::new(gatherer, options.settings(), limits, metrics.clone())
            .with_memory(memory.clone())
            .with_events(client.clone())
            .with_namespaces(client.clone())
            .with_pools(client.clone());
        let handler = match watches.holds(options, client) {
            Some(holds) => handler.with_holds(holds),
            None => handler,
        };
        let reviews = routes::router(Arc::new(handler));
        let all = reviews.clone().merge(conversion::router(converter.clone()));
        // kube-apiserver shows no certificate when it asks for conversions.
        let reviews = if options.client_ca.is_some() { reviews.merge(conversion::elsewhere()) } else { all.clone() };
        EndPoints { all, reviews, conversions: conversion::router_alone(converter) }
    }
}
