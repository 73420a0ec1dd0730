//! A gateway with sources, as `countersign serve` has it: a durable store, the registry and the server.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_kernel::ports::{Acceptance, SecretPlace, SourceConfig, Sources as _};
use countersign_kernel::{Caller, Gateway, NewToken};
use countersign_sdk::{ExposeSecret as _, Role, SecretString};
use countersign_server::{Links, Options, Server};
use countersign_sources::{Reading, SecretReader, SourceRegistry};
use countersign_store::SqliteStore;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::Failure;
use crate::process::{ADDRESS, FOLDER};

/// Where the agent's token is written.
pub(crate) const AGENT: &str = "agent.secret";
/// Where the source's configuration is read, as JSON.
pub(crate) const SOURCE: &str = "source.json";

/// A gateway on a folder, its registry, and an admin.
pub(crate) struct Opened {
    pub(crate) gateway: Gateway,
    pub(crate) registry: SourceRegistry,
    pub(crate) admin: Caller,
}

impl Opened {
    pub(crate) async fn on(folder: &Path) -> Result<Self, Failure> {
        let gateway = Gateway::on(Arc::new(SqliteStore::open(folder)?)).start().await?;
        let operator = gateway.ensure_operator("admin").await?.id;
        let token = gateway.create_token(NewToken::new("admin", Role::Admin).of(operator), None).await?;
        let admin = gateway.authenticate(token.secret.expose_secret()).await?.ok_or("nobody is admin")?;
        let registry =
            SourceRegistry::start(gateway.clone(), vec![], Arc::new(OnlyPath), Reading::FromTheStart).await?;
        Ok(Self { gateway, registry, admin })
    }
}

/// Serves a gateway whose only source is the one that the folder names.
pub(crate) async fn serve() -> Result<(), Failure> {
    let folder = PathBuf::from(std::env::var(FOLDER)?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let opened = Opened::on(&folder).await?;
    let config: Value = serde_json::from_slice(&std::fs::read(folder.join(SOURCE))?)?;
    let config = SourceConfig::read(&config)?;
    let name = config.name.clone();
    opened.registry.put(&opened.admin, config).await?;
    opened.registry.accept(&opened.admin, &name, Acceptance::default()).await?;
    let agent = opened.gateway.create_token(NewToken::new("agent", Role::Agent), None).await?;
    std::fs::write(folder.join(AGENT), agent.secret.expose_secret())?;
    let mut options = Options::at(Links::below(&format!("http://{address}")), [7; 32]);
    // One client makes all requests here, more than one client may.
    options.limits.requests_per_second = NonZeroU32::MAX;
    options.sources = Some(Arc::new(opened.registry.clone()));
    let _server = Server::start(listener, opened.gateway.clone(), options, None)?;
    std::fs::write(folder.join(ADDRESS), address)?;
    std::future::pending().await
}

/// What a child process needs to be found, and no secret.
struct OnlyPath;

impl SecretReader for OnlyPath {
    fn read(&self, _: &SecretPlace) -> Result<SecretString, String> {
        Err("the bench has no secrets".to_owned())
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}
