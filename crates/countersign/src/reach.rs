//! Which server a command talks to: the one it was told, the one that runs for its data folder, or one of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use countersign_kernel::ports::{Entropy as _, SystemEntropy};
use countersign_sdk::SecretString;
use countersign_server::presence;

use crate::config::Environment;
use crate::exit::Problem;
use crate::key_files::{ADMIN_TOKEN, AGENT_TOKEN, known_seal_key, read_token};
use crate::local::Setup;
use crate::serving::{Mode, Notice, Serving};

/// How long a server that is said to run may take to say that it does.
const KNOCK: Duration = Duration::from_secs(2);
/// How long handlers of a server of our own may run on before they are left in doubt.
const LAST_HANDLERS: Duration = Duration::from_secs(600);
/// How long one request waits for somebody to decide; then it is made again.
pub(crate) const LONG_WAIT: Duration = Duration::from_secs(30);
/// Any free port of this machine.
const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What a command needs of the server it talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// It only looks.
    Look,
    /// It calls, decides or settles.
    Act,
    /// It stays, and others are to find the server meanwhile.
    Share,
}

/// A server within reach, and what to show it.
pub(crate) struct Reach {
    pub(crate) url: String,
    /// What calls are made with.
    pub(crate) agent: SecretString,
    /// What decisions are made with.
    pub(crate) operator: SecretString,
    serving: Option<Serving>,
}

impl Reach {
    /// `COUNTERSIGN_URL`; else the server that runs for the data folder; else one in this process, for as long as the
    /// command takes.
    pub(crate) async fn find(setup: Setup, environment: &Environment, need: Need) -> anyhow::Result<Self> {
        let token = environment.text("COUNTERSIGN_TOKEN").map(|token| SecretString::from(token.into_owned()));
        let folder = setup.config.data_dir.clone();
        let url = match environment.text("COUNTERSIGN_URL") {
            Some(url) => Some(url.trim_end_matches('/').to_owned()),
            None => running(&folder).await,
        };
        if let Some(url) = url {
            let of_file = |name: &str| match &token {
                Some(token) => Ok(token.clone()),
                // The tokens of this machine are for this machine's server: another would learn them.
                None if is_local(&url) => read_token(&folder, name)?.ok_or_else(|| no_token(&url)),
                None => Err(no_token(&url)),
            };
            let (agent, operator) = (of_file(AGENT_TOKEN)?, of_file(ADMIN_TOKEN)?);
            return Ok(Self { url, agent, operator, serving: None });
        }
        let mode = match need {
            Need::Look => Mode::Look,
            Need::Act => Mode::Private,
            Need::Share => Mode::Public,
        };
        Ok(Self::of(Serving::start(setup, ANYWHERE, mode).await?))
    }

    /// A server of our own.
    pub(crate) fn of(serving: Serving) -> Self {
        let (agent, operator) = (serving.tokens.agent.clone(), serving.tokens.admin.clone());
        Self { url: serving.url.clone(), agent, operator, serving: Some(serving) }
    }

    /// Whether the server is another process.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.serving.is_none()
    }

    /// Lets what runs in a server of our own come to its end: leaving earlier would leave it in doubt.
    pub(crate) async fn leave(self) {
        self.leave_within(LAST_HANDLERS).await;
    }

    /// The same, with a limit of one's own.
    pub(crate) async fn leave_within(self, handlers: Duration) {
        if let Some(serving) = self.serving {
            serving.stop(handlers).await;
        }
    }
}

/// The server that runs for a data folder, if it answers, and proves that it is the one: one that was killed leaves its notice
/// behind, and a stranger may listen at its address by now. No token is shown before.
pub(crate) async fn running(folder: &std::path::Path) -> Option<String> {
    let notice = Notice::read(folder)?;
    let key = known_seal_key(folder)?;
    let port = reqwest::Url::parse(&notice.url).ok()?.port_or_known_default()?;
    let challenge: String = SystemEntropy.bits()?.iter().map(|byte| format!("{byte:02x}")).collect();
    crate::client::choose_tls();
    let client = reqwest::Client::builder().no_proxy().timeout(KNOCK).build().ok()?;
    let knock = client.get(format!("{}/healthz", notice.url)).header(presence::CHALLENGE, &challenge);
    let answer = knock.send().await.ok()?;
    let proof = answer.headers().get(presence::PROOF)?.to_str().ok()?;
    presence::is_proven(&key, port, &challenge, proof).then_some(notice.url)
}

fn is_local(url: &str) -> bool {
    let host = reqwest::Url::parse(url).ok().and_then(|url| url.host_str().map(ToOwned::to_owned));
    host.is_some_and(|host| {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

fn no_token(url: &str) -> anyhow::Error {
    Problem::new("no_token", format!("there is no token for {url}"))
        .hint("Set COUNTERSIGN_TOKEN, or run this where the server's data folder is.")
        .into()
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn the_tokens_of_this_machine_go_to_no_other() {
        for local in ["http://127.0.0.1:7420", "http://localhost:1", "http://[::1]:1"] {
            assert!(is_local(local), "{local}");
        }
        for other in [
            "https://gate.example.com",
            "http://10.0.0.1",
            "http://localhost.example.com",
            "http://127.0.0.1@evil.example",
            "nonsense",
        ] {
            assert!(!is_local(other), "{other}");
        }
    }
}
