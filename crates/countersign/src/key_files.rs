//! Files beside the database that prove who somebody is: `admin.token`, `agent.token`, and the key that seals cookies and
//! MCP request states.
//!
//! Promises: each is written once, whole, and readable only by its owner. A token that was revoked stays revoked: only
//! a file that is not there, or a store without any token, makes a new one.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use countersign_kernel::ports::{Entropy as _, SystemEntropy};
use countersign_kernel::{Gateway, NewToken, UserError};
use countersign_sdk::{ExposeSecret as _, Role, SecretString};

/// What the operator acts with.
pub(crate) const ADMIN_TOKEN: &str = "admin.token";
/// What agents on this machine call with, where they have no token of their own. It is never attended.
pub(crate) const AGENT_TOKEN: &str = "agent.token";
/// The first user, whom the first start makes.
const OPERATOR: &str = "operator";
const SEAL_KEY: &str = "seal.key";
const KEY_BYTES: usize = 32;

/// The tokens of this machine's own clients.
pub(crate) struct LocalTokens {
    pub(crate) admin: SecretString,
    pub(crate) agent: SecretString,
}

impl LocalTokens {
    /// Reads them, or makes those that are not there.
    pub(crate) async fn ensure(gateway: &Gateway, folder: &Path) -> anyhow::Result<Self> {
        let none_known = gateway.list_tokens().await?.recorded() == 0;
        let operator = match gateway.ensure_operator(OPERATOR).await {
            Ok(operator) => Some(operator.id),
            // Everybody else goes on; the operator's tokens count for nothing until a backup is restored.
            Err(error @ UserError::OperatorDamaged) => {
                tracing::error!(%error, "the operator may do nothing");
                None
            }
            Err(error) => return Err(error.into()),
        };
        let of = |name, role| NewToken { user: operator, ..NewToken::new(name, role) };
        let admin = token(gateway, folder, of(ADMIN_TOKEN, Role::Admin), none_known).await?;
        let agent = token(gateway, folder, of(AGENT_TOKEN, Role::Agent), none_known).await?;
        Ok(Self { admin, agent })
    }
}

/// The token in a file; nothing where there is none.
pub(crate) fn read_token(folder: &Path, name: &str) -> anyhow::Result<Option<SecretString>> {
    let path = folder.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(SecretString::from(text.trim().to_owned()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// The key of a folder in which a server ran.
pub(crate) fn known_seal_key(folder: &Path) -> Option<[u8; KEY_BYTES]> {
    fs::read(folder.join(SEAL_KEY)).ok()?.try_into().ok()
}

/// The key that seals cookies and request states and proves whose server this is, made on first use.
pub(crate) fn seal_key(folder: &Path) -> anyhow::Result<[u8; KEY_BYTES]> {
    let path = folder.join(SEAL_KEY);
    match fs::read(&path) {
        Ok(bytes) => bytes.try_into().map_err(|_| {
            anyhow::anyhow!(
                "{} is damaged; delete it and start again: people will have to log in anew",
                path.display()
            )
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let bits = || SystemEntropy.bits().context("the system has no entropy for a key");
            let key = [bits()?, bits()?].concat();
            write_private(&path, &key)?;
            key.try_into().map_err(|_| anyhow::anyhow!("a key has {KEY_BYTES} bytes"))
        }
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

async fn token(
    gateway: &Gateway,
    folder: &Path,
    new: NewToken,
    none_known: bool,
) -> anyhow::Result<SecretString> {
    let path = folder.join(&new.name);
    if let Some(known) = read_token(folder, &new.name)?.filter(|_| !none_known) {
        return Ok(known);
    }
    // Without an operator it would be a principal of its own.
    if new.user.is_none() {
        anyhow::bail!(
            "{} is missing, and the operator's record is damaged, so that no other can be made; restore a backup",
            path.display()
        );
    }
    let minted = gateway.create_token(new, None).await?;
    write_private(&path, format!("{}\n", minted.secret.expose_secret()).as_bytes())?;
    Ok(minted.secret)
}

/// Where a client's own token is kept in a data folder. The name is a client's, which has no separators.
pub(crate) fn client_token(client: &str) -> String {
    format!("clients/{client}.token")
}

/// Keeps a client's own token in a data folder, readable only by its owner.
pub(crate) fn keep_client_token(folder: &Path, client: &str, secret: &str) -> anyhow::Result<()> {
    let path = folder.join(client_token(client));
    let clients = path.parent().unwrap_or(folder);
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(clients).with_context(|| format!("{} cannot be made", clients.display()))?;
    write_private(&path, format!("{secret}\n").as_bytes())
}

/// Writes a file that only its owner can read: beside its place first, so that nobody ever sees half of it.
fn write_private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let beside: PathBuf = path.with_extension("new");
    let written = || -> std::io::Result<()> {
        // What a crash left there may have other permissions.
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    written().with_context(|| format!("{} cannot be written", path.display()))
}
