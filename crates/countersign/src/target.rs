//! Which server or folder a command asks.
//!
//! The rule, in this order: `COUNTERSIGN_URL`; the server that runs for the data folder; where that folder was not named, the
//! server of the demo, which keeps its data in `demo` inside it; the data folder itself, with no server.
//!
//! Promise: a command that looks never makes a data folder, and says which one it looked for.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::config::{Choice, Config, Environment};
use crate::contact::Purpose;
use crate::exit::Problem;
use crate::invocation::{Invocation, quoted};
use crate::reach;
use crate::screen::Screen;

/// The store's file: a folder without it holds no data.
pub(crate) const DATABASE: &str = "countersign.db";
/// The demo's folder inside the data folder.
pub(crate) const DEMO_FOLDER: &str = "demo";

/// What a command asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// The server that `COUNTERSIGN_URL` names.
    Given { url: String },
    /// A server that runs for a folder, and proved it.
    Running { url: String, folder: PathBuf, owner: Owner },
    /// A folder that no server runs for.
    Folder(PathBuf),
}

/// Whose server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The data folder's.
    Own,
    /// The demo's; the data folder has none.
    Demo,
    /// The data folder's, while the demo's runs too.
    OwnBesideDemo,
}

impl Target {
    /// What a command of this configuration and environment asks.
    pub(crate) async fn find(config: &Config, environment: &Environment) -> Self {
        if let Some(url) = environment.text("COUNTERSIGN_URL") {
            return Self::Given { url: url.trim_end_matches('/').to_owned() };
        }
        let folder = config.data_dir.clone();
        let demo = folder.join(DEMO_FOLDER);
        let of_demo = match config.folder_choice {
            Choice::Usual => reach::running(&demo).await,
            Choice::Named => None,
        };
        match (reach::running(&folder).await, of_demo) {
            (Some(url), None) => Self::Running { url, folder, owner: Owner::Own },
            (Some(url), Some(_)) => Self::Running { url, folder, owner: Owner::OwnBesideDemo },
            (None, Some(url)) => Self::Running { url, folder: demo, owner: Owner::Demo },
            (None, None) => Self::Folder(folder),
        }
    }

    /// Says on standard error what is asked.
    pub(crate) fn say(&self, screen: Screen, invocation: &Invocation, purpose: Purpose) {
        if invocation.is_quiet() {
            return;
        }
        let line = match self {
            Self::Given { url } => format!("Asking the server at {url} (COUNTERSIGN_URL)."),
            Self::Running { url, folder, owner: Owner::Own } => {
                format!("Asking the server at {url} (data folder {}).", folder.display())
            }
            Self::Running { url, folder, owner: Owner::Demo } => {
                format!("Asking the demo's server at {url} (data folder {}).", folder.display())
            }
            Self::Running { url, folder, owner: Owner::OwnBesideDemo } => {
                let demo = quoted(&folder.join(DEMO_FOLDER).to_string_lossy());
                let own = folder.display();
                format!(
                    "Asking the server at {url} (data folder {own}). The demo's server runs too: --data-dir {demo}"
                )
            }
            // Tools and rules are looked at without the data.
            Self::Folder(folder) if purpose == Purpose::Catalog => format!(
                "No server runs for the data folder {}; showing this program's own tools and rules.",
                folder.display()
            ),
            Self::Folder(folder) => {
                format!("Working directly on the data folder {} (no server runs).", folder.display())
            }
        };
        screen.note(&screen.err.dim(&line));
    }
}

/// Refuses a folder without data, for commands that have nothing to do there.
pub(crate) fn check_data(folder: &Path, invocation: &Invocation) -> Result<(), Problem> {
    let place = folder.display();
    match folder.join(DATABASE).metadata() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let message = format!("the data folder {place} belongs to another Unix user");
            let hint = "Ask its server instead: set COUNTERSIGN_URL to its address and COUNTERSIGN_TOKEN to a token of yours.";
            Err(Problem::new("data_folder_unreadable", message).hint(hint))
        }
        // What is there and is no folder is told of where it is opened.
        Err(_) if folder.exists() && !folder.is_dir() => Ok(()),
        Err(_) => {
            let message = if folder.exists() {
                format!("the data folder {place} is empty, and no server runs for it")
            } else {
                format!("there is no data folder {place}, and no server runs for it")
            };
            let demo = folder.join(DEMO_FOLDER);
            let hint = if demo.join(DATABASE).exists() {
                format!("The demo's data is in {0}: add --data-dir {0}.", quoted(&demo.to_string_lossy()))
            } else {
                let serve = invocation.command("serve");
                format!("Start a server with `{serve}`, or name another folder with --data-dir FOLDER.")
            };
            Err(Problem::new("no_data_folder", message).hint(hint))
        }
    }
}
