//! A server of this process, on a folder of its own, with the lab's tools and room for sources.

use std::sync::Arc;
use std::time::Duration;

use countersign_kernel::ports::{SecretPlace, Store};
use countersign_kernel::{Gateway, NewToken, Settings};
use countersign_sdk::{ExposeSecret as _, Role, SecretString};
use countersign_server::{Links, Options, Server};
use countersign_sources::{Reading, SecretReader, SourceRegistry};
use countersign_store::SqliteStore;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::desk::{Desk, Secrets, console_at};
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
        let ann = gateway.ensure_operator("ann").await.unwrap().id;
        let bob = gateway.create_user("bob", vec![Role::Approver], None).await.unwrap().id;
        let secret = async |name: &str, role, user| {
            let minted = gateway.create_token(NewToken::new(name, role).of(user), None).await.unwrap();
            minted.secret.expose_secret().to_owned()
        };
        let secrets = Secrets {
            agent: secret("robot", Role::Agent, ann).await,
            approver: secret("bob's laptop", Role::Approver, bob).await,
            admin: secret("ann's laptop", Role::Admin, ann).await,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let sources =
            SourceRegistry::start(gateway.clone(), vec![], Arc::new(NoSecrets), Reading::FromTheStart);
        let mut options = Options::at(Links::below(&console_at(&url)), KEY);
        options.sources = Some(Arc::new(sources.await.unwrap()));
        let server = Server::start(listener, gateway, options, None).unwrap();
        Self { desk: Desk::new(&url, secrets), ran, _server: server, _folder: folder }
    }
}

struct NoSecrets;

impl SecretReader for NoSecrets {
    fn read(&self, place: &SecretPlace) -> Result<SecretString, String> {
        Err(format!("there is no secret at {place:?}"))
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }
}
