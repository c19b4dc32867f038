//! Topologies rolled out by our controllers, on the in-memory API and on a real kube-apiserver: the same stories.
//!
//! ```text
//! a user (site.rs) ──────► API server ◄──── wire (layer.rs) ──── our controllers (site.rs: Manager)
//! provider (provider.rs) ──────┘
//! ```

/// Each story on both API servers.
macro_rules! on_both {
    ($($story:ident),+ $(,)?) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::$story(super::Site::embedded().await).await;
            })+
        }

        mod real {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::$story(super::Site::real().await).await;
            })+
        }
    };
}

mod agreement;
mod crash;
mod deletions;
mod extensions;
mod foreseen;
mod instances;
mod late;
mod layer;
mod many;
mod names;
mod process;
pub(crate) mod provider;
mod requests;
pub(crate) mod site;
mod stories;
mod templates;
