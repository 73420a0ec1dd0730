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
use crate::serving::{Listen, Mode, Notice, Serving};
use crate::target::Target;

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
    /// Reaches what a command asks. A folder that no server runs for is served in this process, for as long as the command
    /// takes.
    ///
    /// A token of the data folder is shown only to a server that proved to have the folder's key. A server that
    /// `COUNTERSIGN_URL` names is shown the token that was given for it, and no other: whoever listens there would learn it.
    pub(crate) async fn find(
        target: &Target,
        setup: Setup,
        environment: &Environment,
        need: Need,
    ) -> anyhow::Result<Self> {
        let token = environment.text("COUNTERSIGN_TOKEN").map(|token| SecretString::from(token.into_owned()));
        match (target, token) {
            (Target::Given { url } | Target::Running { url, .. }, Some(token)) => {
                Ok(Self { url: url.clone(), agent: token.clone(), operator: token, serving: None })
            }
            (Target::Given { url }, None) => Err(no_token(url)),
            (Target::Running { url, folder, .. }, None) => {
                let of_file =
                    |name: &str| read_token(folder, name)?.ok_or_else(|| no_token_file(folder, name));
                let (agent, operator) = (of_file(AGENT_TOKEN)?, of_file(ADMIN_TOKEN)?);
                Ok(Self { url: url.clone(), agent, operator, serving: None })
            }
            (Target::Folder(folder), token) => {
                // An empty folder in its place knows no token.
                let token = token.filter(|_| setup.config.data_dir == *folder);
                let mode = match need {
                    Need::Look => Mode::Look,
                    Need::Act => Mode::Private,
                    Need::Share => Mode::Public,
                };
                let reach = Self::of(Serving::start(setup, Listen::At(ANYWHERE), mode).await?);
                // Whoever gives a token acts as its holder here too, and as nobody else.
                Ok(match token {
                    Some(token) => Self { agent: token.clone(), operator: token, ..reach },
                    None => reach,
                })
            }
        }
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

fn no_token(url: &str) -> anyhow::Error {
    let message = format!("COUNTERSIGN_URL is {url}, and no token was given for it");
    Problem::new("no_token", message)
        .hint(
            "Set COUNTERSIGN_TOKEN to a token of that server, or name a file with --token-file. Unset COUNTERSIGN_URL to use \
             the server of the data folder.",
        )
        .into()
}

fn no_token_file(folder: &std::path::Path, name: &str) -> anyhow::Error {
    let path = folder.join(name);
    Problem::new("no_token", format!("{} is missing", path.display()))
        .hint("Set COUNTERSIGN_TOKEN to a token of this server, or start the server again: it makes the file anew.")
        .into()
}
