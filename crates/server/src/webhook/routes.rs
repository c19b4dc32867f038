//! The paths that are served for reviews.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use tower_http::catch_panic::CatchPanicLayer;

use super::deletions::DeletionReview;
use super::extension_configs::ExtensionConfigReview;
use super::plain_review::PlainReview;
use super::rejection::{PANICKED, error_response};
use super::review::ReviewHandler;
use super::scales::ScaleReview;
use super::template_deletions::TemplateDeletionReview;
use super::templates::TemplateReview;
use super::{deletions, extension_configs, scales, template_deletions, templates};
use engine::admission::{AdmissionSettings, END_POINTS, EndPoint, MACHINE_END_POINTS};
use model::wire::conversion_review;

/// The end points that are served; those for machines only if topologist runs their lifecycle (MA-28).
fn end_points(settings: &AdmissionSettings) -> impl Iterator<Item = EndPoint> {
    END_POINTS.into_iter().chain(MACHINE_END_POINTS.into_iter().filter(|_| settings.lifecycle))
}

/// Every end point as a router.
pub fn router(handler: Arc<ReviewHandler>) -> Router {
    let mut router = Router::new();
    for end_point in end_points(&handler.settings) {
        let answer =
            move |State(handler): State<Arc<ReviewHandler>>, request: HttpRequest| handler.answer(end_point, request);
        router = router.route(end_point.path, on(MethodFilter::POST, answer));
    }
    for (phase, _, path) in extension_configs::END_POINTS {
        router = with_plain_review(router, ExtensionConfigReview { phase, path });
    }
    let router = with_plain_review(router, TemplateReview);
    let router = with_plain_review(router, TemplateDeletionReview);
    let router = with_plain_review(router, DeletionReview);
    let router = with_plain_review(router, ScaleReview);
    let router = router.fallback(unknown_path).method_not_allowed_fallback(unknown_path);
    let metrics = handler.metrics.clone();
    router.with_state(handler).layer(CatchPanicLayer::custom(move |_| {
        metrics.panics.inc();
        error_response(StatusCode::INTERNAL_SERVER_ERROR, PANICKED)
    }))
}

/// Adds an end point whose reviews are answered without the admission rules.
fn with_plain_review(router: Router<Arc<ReviewHandler>>, end_point: impl PlainReview) -> Router<Arc<ReviewHandler>> {
    let answer =
        move |State(handler): State<Arc<ReviewHandler>>, request: HttpRequest| handler.answer_plain(end_point, request);
    router.route(end_point.path(), on(MethodFilter::POST, answer))
}

async fn unknown_path(State(handler): State<Arc<ReviewHandler>>, method: Method, uri: http::Uri) -> Response {
    let paths = end_points(&handler.settings).map(|end_point| end_point.path);
    let of_extensions = extension_configs::END_POINTS.into_iter().map(|(_, _, path)| path);
    let others = [templates::PATH, template_deletions::PATH, deletions::PATH, scales::PATH, conversion_review::PATH];
    let paths: Vec<&str> = paths.chain(of_extensions).chain(others).collect();
    error_response(
        StatusCode::NOT_FOUND,
        &format!("{method} {} is not served; send reviews to POST {}", uri.path(), paths.join(", ")),
    )
}
