//! What every request can reach.

use std::sync::Arc;

use countersign_kernel::Gateway;
use countersign_kernel::ports::Sources;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;

use crate::access::{Logins, Pace, Places, Shares};
use crate::links::Links;
use crate::ops::Watched;
use crate::options::Limits;
use crate::rest::Feed;
use crate::wire;

/// By what a server proves which one it is.
pub(crate) struct Identity {
    pub(crate) key: [u8; 32],
    pub(crate) port: u16,
}

/// The parts of a running server.
pub(crate) struct Shared {
    pub(crate) gateway: Gateway,
    /// Where sources are managed; nothing where this server has none.
    pub(crate) sources: Option<Arc<dyn Sources>>,
    pub(crate) links: Links,
    pub(crate) limits: Limits,
    pub(crate) places: Places,
    pub(crate) pace: Pace,
    pub(crate) shares: Shares,
    pub(crate) logins: Logins,
    pub(crate) identity: Identity,
    /// What the event streams share.
    pub(crate) feed: Feed,
    pub(crate) configuration: wire::Configuration,
    pub(crate) prometheus: Option<PrometheusHandle>,
    /// What an operator asks for often.
    pub(crate) watched: Watched,
    /// Fires when the server is to stop: whoever waits for an execution is answered with how it stands.
    pub(crate) stop: CancellationToken,
}
