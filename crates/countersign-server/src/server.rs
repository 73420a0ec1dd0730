//! The server: every front over one gateway, on one address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use countersign_kernel::{Caller, Gateway};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::access::{Admission, Logins, Pace, Places, Shares};
use crate::options::Options;
use crate::shared::{Identity, Shared};
use crate::{console, listen, mcp, ops, rest, wire};

/// A running server. Dropping it stops nothing: see [`Server::stop`].
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The listener has no address.
    #[error("the listener cannot be used: {0}")]
    Listener(#[from] std::io::Error),
    /// MCP cannot be served as it was asked for.
    #[error("{0}")]
    Mcp(#[from] mcp::MountError),
}

impl Server {
    /// Serves a gateway on a listener. `prometheus` is what `/metrics` prints, where something records.
    pub fn start(
        listener: TcpListener,
        gateway: Gateway,
        options: Options,
        prometheus: Option<PrometheusHandle>,
    ) -> Result<Self, StartError> {
        let address = listener.local_addr()?;
        let Options { links, hosts, origins, key, mcp: mcp_options, limits, configuration, sources } =
            options;
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            places: Places::new(address, &hosts, &origins),
            pace: Pace::new(&limits),
            shares: Shares::new(&limits),
            logins: Logins::new(key, address.port()),
            identity: Identity { key, port: address.port() },
            feed: rest::Feed::new(),
            configuration,
            gateway: gateway.clone(),
            sources,
            links: links.clone(),
            limits: limits.clone(),
            prometheus,
            watched: ops::Watched::default(),
            stop: stop.clone(),
        });
        let mcp = mcp::service(gateway, links, mcp_options, &limits, stop.clone())?;
        let router = router(Arc::clone(&shared), mcp);
        tokio::spawn(rest::Feed::run(Arc::clone(&shared)));
        let serving = tokio::spawn(listen::serve(listener, router, limits, stop));
        Ok(Self { address, shared, serving })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A link that logs whoever holds this token in to the console, once.
    pub fn login_link(&self, by: &Caller) -> Option<wire::LoginLink> {
        rest::login_link(&self.shared, by)
    }

    /// Takes no more requests, answers those there are, and closes the gateway: what waits for people stays in the
    /// store, and handlers that run have this long to end.
    pub async fn stop(self, handlers: Duration) {
        self.shared.stop.cancel();
        if self.serving.await.is_err() {
            tracing::error!("the server's task ended badly");
        }
        self.shared.gateway.close(handlers).await;
    }
}

fn router(shared: Arc<Shared>, mcp: Router) -> Router {
    let console = console::routes(console::Api::over(rest::routes().with_state(Arc::clone(&shared))));
    let fronts = Router::new().merge(rest::routes()).merge(console).merge(ops::routes());
    fronts
        .with_state(Arc::clone(&shared))
        .merge(mcp)
        .fallback(rest::nothing_here)
        .method_not_allowed_fallback(rest::not_that_method)
        .layer(Admission(shared))
}
