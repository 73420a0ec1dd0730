//! A server on the data folder, in this process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use countersign_kernel::ports::Sources;
use countersign_kernel::{Caller, Gateway};
use countersign_sdk::ExposeSecret as _;
use countersign_server::{CONSOLE_HOST, Links, Options, Server, wire};
use countersign_sources::{Reading, SourceRegistry};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::config::{CONFIGURATION_LOADED, Config, in_force_line};
use crate::data_folder::{DataFolder, IN_USE};
use crate::exit::Problem;
use crate::key_files::{self, LocalTokens};
use crate::local::Setup;
use crate::open_files;
use crate::reach;
use crate::source_secrets::ServerSecrets;

/// Says which server runs for a data folder.
const NOTICE: &str = "server.json";
/// How long a command that serves itself waits for sources.
const SOURCES_WAIT: Duration = Duration::from_secs(60);
/// How long a server that everybody can ask waits for sources before it answers. Decisions that come right after a restart
/// then find their tools; a source that takes longer must not keep people out.
const SOURCES_WAIT_OF_A_SERVER: Duration = Duration::from_secs(5);
/// Where the times of commits and of waiting people are worth telling apart, in seconds.
const COMMIT_BUCKETS: &[f64] = &[0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0];
const WAITING_BUCKETS: &[f64] = &[1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0];

/// What a server in this process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// For everybody: other commands find it, and it says how it fares.
    Public,
    /// For one command that acts, for as long as that takes.
    Private,
    /// For one command that looks: nothing is taken up and nothing runs.
    Look,
}

/// Where a server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listen {
    /// Here, or it does not start.
    At(SocketAddr),
    /// Here; on a port of the system's choice where another has it.
    AtOrElsewhere(SocketAddr),
}

/// A running server, and what its clients on this machine need.
pub(crate) struct Serving {
    pub(crate) url: String,
    pub(crate) tokens: LocalTokens,
    /// The configuration it runs with.
    pub(crate) in_force: wire::Configuration,
    server: Server,
    notice: Option<PathBuf>,
    gateway: Gateway,
    // The last to go: it keeps the folder ours.
    _folder: DataFolder,
}

/// Which server runs for a data folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Notice {
    /// Where it listens.
    pub(crate) url: String,
    /// Its process.
    pub(crate) pid: u32,
    /// Its version.
    pub(crate) version: String,
}

impl Notice {
    /// What was last said of a server for this folder. It may be gone.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(folder.join(NOTICE)).ok()?).ok()
    }

    /// Whether the process that wrote it still runs.
    pub(crate) fn is_of_a_process(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::fs::MetadataExt as _;
            // One that ended may wait a while for its parent to notice; it is gone all the same.
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
            let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            // Another user's process has its number by chance.
            let owner = std::fs::metadata(format!("/proc/{}", self.pid)).map(|of| of.uid());
            let is_ours = owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw());
            is_ours && state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
        }
        #[cfg(all(unix, not(target_os = "linux")))]
        {
            let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
            // A process of somebody else's is one, too.
            pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
        }
        #[cfg(not(unix))]
        true
    }
}

impl Serving {
    /// Opens the data folder, starts a gateway on it and serves it.
    pub(crate) async fn start(setup: Setup, listen: Listen, mode: Mode) -> anyhow::Result<Self> {
        let config = setup.config.clone();
        let folder = match DataFolder::open(&config.data_dir) {
            Ok(folder) => folder,
            Err(problem) if problem.code == IN_USE => {
                return Err(already_running(&setup, problem).await.into());
            }
            Err(problem) => return Err(problem.into()),
        };
        // Before the address is taken: whoever finds it taken must not have run anything.
        let listener = bind(listen).await?;
        let address = listener.local_addr()?;
        let gateway = setup.gateway(&folder, mode).await?;
        let in_force = config.in_force();
        if mode != Mode::Look {
            gateway.record_in_audit(CONFIGURATION_LOADED, in_force_line(&in_force)).await?;
        }
        let tokens = LocalTokens::ensure(&gateway, &config.data_dir).await?;
        let url = format!("http://{}", reachable(address));
        let mut options = options(&config, &url)?;
        if mode == Mode::Public {
            options.limits = options.limits.within_open_files(open_files::raise_bound());
        }
        options.configuration = in_force.clone();
        options.sources = Some(sources(&config, &gateway, mode).await?);
        let prometheus = (mode == Mode::Public).then(record_figures).transpose()?;
        let server = Server::start(listener, gateway.clone(), options, prometheus)?;
        let mut serving = Self { url, tokens, in_force, server, notice: None, gateway, _folder: folder };
        if mode == Mode::Public {
            serving.announce(&config.data_dir)?;
        }
        Ok(serving)
    }

    /// A link that logs the operator in to the console.
    pub(crate) async fn login_link(&self) -> anyhow::Result<Option<wire::LoginLink>> {
        let operator = self.gateway.authenticate(self.tokens.admin.expose_secret()).await?;
        Ok(operator.and_then(|operator: Caller| self.server.login_link(&operator)))
    }

    /// Takes nothing more, answers what is being answered, and lets handlers end, up to a limit.
    pub(crate) async fn stop(self, handlers: Duration) {
        if let Some(notice) = &self.notice
            && let Err(error) = std::fs::remove_file(notice)
        {
            tracing::warn!(%error, "the notice of this server could not be removed");
        }
        self.server.stop(handlers).await;
    }

    fn announce(&mut self, folder: &Path) -> anyhow::Result<()> {
        let notice = Notice {
            url: self.url.clone(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let (path, beside) = (folder.join(NOTICE), folder.join("server.json.new"));
        let written = std::fs::write(&beside, serde_json::to_vec(&notice)?)
            .and_then(|()| std::fs::rename(&beside, &path));
        written.with_context(|| format!("{} cannot be written", path.display()))?;
        self.notice = Some(path);
        Ok(())
    }
}

/// Where the server runs that has the folder; where it is not one that others can ask, that it is in use.
async fn already_running(setup: &Setup, problem: Problem) -> Problem {
    let folder = &setup.config.data_dir;
    match (reach::running(folder).await, Notice::read(folder)) {
        (Some(url), Some(notice)) => {
            let login = setup.invocation.command("login");
            Problem::new("already_running", format!("already running at {url} (pid {})", notice.pid))
                .hint(format!("Console: `{login}`."))
        }
        _ => problem,
    }
}

async fn bind(listen: Listen) -> anyhow::Result<TcpListener> {
    let listen = match listen {
        Listen::At(address) => address,
        // Tried and kept at once: whoever looked first and bound later could find it taken in between.
        Listen::AtOrElsewhere(address) => match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(_) => SocketAddr::new(address.ip(), 0),
        },
    };
    TcpListener::bind(listen).await.map_err(|error| {
        Problem::new("address_in_use", format!("{listen} cannot be listened on: {error}"))
            .hint("Choose another address with --listen, such as --listen 127.0.0.1:0 for any free port.")
            .into()
    })
}

/// An address that a client on this machine can connect to.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        std::net::IpAddr::V4(ip) if ip.is_unspecified() => std::net::Ipv4Addr::LOCALHOST.into(),
        std::net::IpAddr::V6(ip) if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn options(config: &Config, url: &str) -> anyhow::Result<Options> {
    let links = Links::below(&config.public_url.clone().unwrap_or_else(|| console_url(url)));
    let mut options = Options::at(links, key_files::seal_key(&config.data_dir)?);
    options.hosts.clone_from(&config.hosts);
    if let Some(public) = &config.public_url {
        let host = public.split_once("://").map_or(public.as_str(), |(_, rest)| rest);
        options.hosts.push(host.split('/').next().unwrap_or(host).to_owned());
        options.origins.push(public.clone());
    }
    options.origins.extend(config.origins.iter().cloned());
    options.mcp.surface = config.surface;
    options.mcp.hold = config.hold.unwrap_or(options.mcp.hold);
    options.mcp.agent_may_decide = config.approvals.agent_may_decide;
    options.mcp.client_elicitation = config.approvals.client_elicitation;
    Ok(options)
}

/// The sources that this server manages: those of the configuration file, and those that admins added. They are waited for,
/// because a call of one of their tools, or a decision about one, may be the first thing that comes.
async fn sources(config: &Config, gateway: &Gateway, mode: Mode) -> anyhow::Result<Arc<dyn Sources>> {
    let (reading, longest_wait) = match mode {
        Mode::Public => (Reading::FromTheStart, SOURCES_WAIT_OF_A_SERVER),
        Mode::Private => (Reading::FromTheStart, SOURCES_WAIT),
        Mode::Look => (Reading::WhenAsked, Duration::ZERO),
    };
    let (gateway, configured) = (gateway.clone(), config.sources.clone());
    let registry = SourceRegistry::start(gateway, configured, Arc::new(ServerSecrets), reading).await?;
    if mode != Mode::Look && tokio::time::timeout(longest_wait, registry.read_all()).await.is_err() {
        tracing::warn!("some sources are still being read; their tools cannot be called yet");
    }
    Ok(Arc::new(registry))
}

/// Where browsers on this machine reach the console: a loopback server has a host of its own there.
fn console_url(url: &str) -> String {
    let is_loopback =
        |port: &str| url == format!("http://127.0.0.1:{port}") || url == format!("http://[::1]:{port}");
    match url.rsplit_once(':') {
        Some((_, port)) if is_loopback(port) => format!("http://{CONSOLE_HOST}:{port}"),
        _ => url.to_owned(),
    }
}

fn record_figures() -> anyhow::Result<PrometheusHandle> {
    use metrics_exporter_prometheus::Matcher;
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full("countersign_commit_seconds".to_owned()), COMMIT_BUCKETS)
        .and_then(|b| {
            b.set_buckets_for_metric(Matcher::Full("countersign_waiting_seconds".to_owned()), WAITING_BUCKETS)
        })
        .context("the figures' buckets")?;
    builder.install_recorder().context("figures are already being recorded in this process")
}
