//! `serve`: the gateway for everybody, until it is told to stop.

use std::time::Duration;

use countersign_server::CONSOLE_HOST;

use crate::args::ServeArgs;
use crate::exit::Exit;
use crate::local::Setup;
use crate::screen::{Audience, Format, Screen};
use crate::serving::{Listen, Mode, Serving};

/// How long handlers may run on once the server is told to stop; after that they are in doubt.
pub(super) const LAST_HANDLERS: Duration = Duration::from_secs(30);

pub(super) async fn run(setup: Setup, args: ServeArgs) -> anyhow::Result<Exit> {
    let (screen, listen) = (setup.screen, args.listen.unwrap_or(setup.config.listen));
    let mut wish = Wish::expect()?;
    let serving = Serving::start(setup, Listen::At(listen), Mode::Public).await?;
    tell(&serving, screen).await?;
    tell_how_to_stop(screen);
    wish.come_true().await;
    screen.note("Stopping: answering what is being answered. What waits for a person is kept.");
    serving.stop(LAST_HANDLERS).await;
    Ok(Exit::Done)
}

/// Says where it listens, and how a person gets in.
pub(super) async fn tell(serving: &Serving, screen: Screen) -> anyhow::Result<()> {
    // A link logs its bearer in: it is for a person's eyes, and not for files that others read.
    let link = match screen.audience {
        Audience::Person | Audience::Reader => serving.login_link().await?,
        Audience::Program => None,
    };
    if screen.format == Format::Json {
        let (url, mcp) = (&serving.url, format!("{}/mcp", serving.url));
        return screen.print_json(&serde_json::json!({ "url": url, "mcp": mcp }));
    }
    screen.print(&format!("Countersign listens on {}", serving.url))?;
    screen.note(&format!("  MCP      {}/mcp", serving.url));
    screen.note(&format!("  data     {}", serving.in_force.data_folder));
    let file = serving.in_force.file.as_deref().unwrap_or("none: built-in defaults");
    screen.note(&format!("  config   {file}"));
    match link {
        Some(link) => tell_link(&link.url, &serving.url, screen),
        None => screen.note("  console  `countersign login` prints a link"),
    }
    Ok(())
}

/// A link alone on its line, so that it can be copied whole, and what to do where the browser does not know its host.
pub(super) fn tell_link(link: &str, address: &str, screen: Screen) {
    screen.note(&format!("  console  {link}"));
    screen.note("           (single use, expires in 10 min)");
    if link.contains(&format!("://{CONSOLE_HOST}:")) {
        screen
            .note(&format!("           If your browser does not find {CONSOLE_HOST}, {address} works too."));
    }
}

pub(super) fn tell_how_to_stop(screen: Screen) {
    if screen.format == Format::Text {
        screen.note("Stop with Ctrl-C; what waits for a person is kept.");
    }
}

/// Somebody's wish that this process end. It is expected before anybody is told that the server runs: whoever hears of it
/// may wish it stopped at once, and that must not kill it halfway.
pub(super) struct Wish {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

impl Wish {
    #[cfg(unix)]
    pub(super) fn expect() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { signals: [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?] })
    }

    #[cfg(not(unix))]
    pub(super) fn expect() -> std::io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(unix)]
    pub(super) async fn come_true(&mut self) {
        let [interrupted, terminated] = &mut self.signals;
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    }

    #[cfg(not(unix))]
    pub(super) async fn come_true(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a way to be told, it runs until it is killed.
            std::future::pending().await
        }
    }
}
