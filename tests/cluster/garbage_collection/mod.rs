//! What is left when Clusters, classes and namespaces are deleted, where a real garbage collector runs.
//!
//! ```text
//!  kubectl delete ──► kube-apiserver ◄──── kube-controller-manager: garbage, namespaces
//!                        │    ▲  ▲
//!                reviews ▼    │  └──────── provider of the tests: status
//!                      topologist: all controllers, --lifecycle=off
//! ```
//!
//! All stories share these processes, on a kube-apiserver that no other test uses; each has a namespace of its own. The
//! same stories run on `topologist serve --embedded`, which has to leave the same behind.

/// Each story on both API servers.
macro_rules! on_both {
    ($($story:ident),+ $(,)?) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::$story(super::Server::Embedded).await;
            })+
        }

        mod real {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::$story(super::Server::Real).await;
            })+
        }
    };
}

mod clusters;
mod deletions;
mod demo;
mod story;
mod namespaces;
mod orphans;
mod templates;
