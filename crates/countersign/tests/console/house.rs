//! A server of this process, on a folder of its own, with the lab's tools.

use std::sync::Arc;
use std::time::Duration;

use countersign_kernel::ports::Store;
use countersign_kernel::{Gateway, Settings};
use countersign_sdk::{ExposeSecret as _, Role};
use countersign_server::{Links, Options, Server};
use countersign_store::SqliteStore;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::desk::{Desk, Secrets};
use crate::lab::{self, Ran};

/// What cookies are sealed with here.
const KEY: [u8; 32] = [7; 32];

/// The server.
pub(crate) struct House {
    pub(crate) desk: Desk,
    pub(crate) ran: Ran,
    _server: Server,
    _folder: TempDir,
}

impl House {
    pub(crate) async fn open() -> Self {
        Self::with(Settings::default()).await
    }

    /// Where questions live this long.
    pub(crate) async fn expiring_after(expires: Duration) -> Self {
        Self::with(Settings { expires, ..Settings::default() }).await
    }

    async fn with(settings: Settings) -> Self {
        let (folder, ran) = (tempfile::tempdir().unwrap(), Ran::default());
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path()).unwrap());
        let gateway = Gateway::on(store).settings(settings).plugin(lab::plugin(&ran)).start().await.unwrap();
        let secret = async |name: &str, role| {
            let minted = gateway.create_token(name, role, None).await.unwrap();
            minted.secret.expose_secret().to_owned()
        };
        let secrets = Secrets {
            agent: secret("robot", Role::Agent).await,
            approver: secret("bob", Role::Approver).await,
            admin: secret("ann", Role::Admin).await,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Server::start(listener, gateway, Options::at(Links::below(&url), KEY), None).unwrap();
        Self { desk: Desk::new(&url, secrets), ran, _server: server, _folder: folder }
    }
}
