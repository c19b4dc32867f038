//! A network between topologist and its API server: a proxy that passes bytes on until a test says otherwise.
//!
//! ```text
//!  topologist ──TLS──► Cut ──the same bytes──► kube-apiserver
//! ```

use std::path::{Path, PathBuf};
use std::pin::pin;

use kube::config::Kubeconfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    Works,
    /// Connections are open, and nothing passes.
    Silent,
    /// The same, and nothing will ever pass on these connections: something between both ends has forgotten them.
    Forgetful,
    /// Open connections have ended, and new ones end at once.
    Down,
}

/// A running proxy; it belongs to the runtime that started it.
pub struct Cut {
    /// A kubeconfig that leads through the proxy.
    pub kubeconfig: PathBuf,
    network: watch::Sender<Network>,
}

impl Cut {
    /// Listens on a free port in front of the API server of a kubeconfig; writes its own kubeconfig into the folder.
    pub async fn start(kubeconfig: &Path, folder: &Path) -> Self {
        let mut kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let cluster = kubeconfig.clusters[0].cluster.as_mut().unwrap();
        let behind: http::Uri = cluster.server.as_ref().unwrap().parse().unwrap();
        let behind = format!("{}:{}", behind.host().unwrap(), behind.port_u16().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        cluster.server = Some(format!("https://{}", listener.local_addr().unwrap()));
        let path = folder.join("cut.kubeconfig");
        std::fs::write(&path, serde_json::to_vec(&kubeconfig).unwrap()).unwrap();
        let network = watch::Sender::new(Network::Works);
        tokio::spawn(accept(listener, behind, network.subscribe()));
        Cut { kubeconfig: path, network }
    }

    /// From now on the network does this.
    pub fn set(&self, network: Network) {
        self.network.send_replace(network);
    }
}

async fn accept(listener: TcpListener, behind: String, network: watch::Receiver<Network>) {
    while let Ok((front, _)) = listener.accept().await {
        let (behind, mut network) = (behind.clone(), network.clone());
        tokio::spawn(async move {
            if *network.borrow() == Network::Down {
                return;
            }
            let Ok(back) = TcpStream::connect(behind).await else { return };
            let ((from_front, to_front), (from_back, to_back)) = (front.into_split(), back.into_split());
            let passes = network.clone();
            let mut passing = pin!(async {
                tokio::select! {
                    () = pass(from_front, to_back, passes.clone()) => {}
                    () = pass(from_back, to_front, passes.clone()) => {}
                }
            });
            tokio::select! {
                () = &mut passing => {}
                is_forgotten = is_forgotten(&mut network) => {
                    if is_forgotten {
                        // Neither end learns of it.
                        std::future::pending::<()>().await;
                    }
                }
            }
        });
    }
}

/// Whether the network forgets its connections, once it does that or ends them.
async fn is_forgotten(network: &mut watch::Receiver<Network>) -> bool {
    let changed = network.wait_for(|network| matches!(network, Network::Down | Network::Forgetful)).await;
    changed.is_ok_and(|network| *network == Network::Forgetful)
}

/// Passes on what comes while the network works.
async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut network: watch::Receiver<Network>,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(length @ 1..) = from.read(&mut buffer).await else { return };
        if network.wait_for(|network| *network == Network::Works).await.is_err()
            || to.write_all(&buffer[..length]).await.is_err()
        {
            return;
        }
    }
}
