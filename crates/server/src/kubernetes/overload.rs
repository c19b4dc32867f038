//! Requests that a busy API server rejected, or did not answer. They say nothing about the objects (DEC-106).

use std::time::Duration;

use super::address::{AnotherObject, InvalidSegment};
use super::describe;

/// Maximum delay that the API server may request.
const LONGEST: Duration = Duration::from_mins(1);

/// A request without a response, which is sent again later.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ApiOverload {
    pub reason: String,
    /// How long the API server wants to be left alone.
    pub retry_after: Duration,
}

impl ApiOverload {
    /// The overload that caused an error of a client; `None` if the API server has handled the request.
    pub(crate) fn from_error(error: &kube::Error) -> Option<Self> {
        let retry_after = match error {
            kube::Error::Api(status) if matches!(status.code, 429 | 502..=504) => {
                let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                Duration::from_secs(seconds.into()).min(LONGEST)
            }
            kube::Error::Service(cause) if cause.is::<InvalidSegment>() || cause.is::<AnotherObject>() => return None,
            kube::Error::HyperError(_) | kube::Error::Service(_) => Duration::ZERO,
            _ => return None,
        };
        Some(ApiOverload { reason: describe(error), retry_after })
    }

    /// The overload of a request that timed out.
    pub(super) fn late(error: &impl ToString) -> Self {
        ApiOverload { reason: error.to_string(), retry_after: Duration::ZERO }
    }

    /// The same with a reason that names the request.
    #[must_use]
    pub(crate) fn because(self, reason: String) -> Self {
        ApiOverload { reason, ..self }
    }

    /// Combines two overloads.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        ApiOverload { retry_after: self.retry_after.max(other.retry_after), ..self }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_answers_of_a_busy_api_server_are_overloads() {
        // DEC-106
        let response = |code: u16, seconds: u32| {
            let status = json!({"status": "Failure", "code": code, "reason": "r", "message": "later",
                "details": {"retryAfterSeconds": seconds}});
            ApiOverload::from_error(&kube::Error::Api(serde_json::from_value(status).unwrap()))
        };
        let after =
            |seconds| Some(ApiOverload { reason: "later".to_owned(), retry_after: Duration::from_secs(seconds) });
        for (code, seconds, want) in [
            (429, 7, after(7)),
            (503, 0, after(0)),
            (502, 1, after(1)),
            (504, 1, after(1)),
            (429, u32::MAX, after(60)),
            (500, 7, None),
            (409, 7, None),
            (403, 7, None),
            (404, 7, None),
            (422, 7, None),
        ] {
            assert_eq!(response(code, seconds), want, "{code}");
        }
        assert!(ApiOverload::from_error(&kube::Error::Service("connection refused".into())).is_some());
    }
}
