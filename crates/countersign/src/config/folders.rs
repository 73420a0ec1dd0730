//! Where this platform keeps a user's data and configuration.

use std::path::PathBuf;

use super::Environment;

const NAME: &str = "countersign";

/// The folder for data.
pub(super) fn data(environment: &Environment) -> Option<PathBuf> {
    user_folder(environment, "XDG_DATA_HOME", ".local/share")
}

/// The folder for configuration.
pub(super) fn configuration(environment: &Environment) -> Option<PathBuf> {
    user_folder(environment, "XDG_CONFIG_HOME", ".config")
}

fn user_folder(environment: &Environment, xdg: &str, below_home: &str) -> Option<PathBuf> {
    // The specification has relative paths in these variables ignored.
    if let Some(folder) = environment.path(xdg).filter(|folder| folder.is_absolute()) {
        return Some(folder.join(NAME));
    }
    if cfg!(windows) {
        return Some(environment.path("APPDATA")?.join(NAME));
    }
    let home = environment.path("HOME")?;
    let below_home = if cfg!(target_os = "macos") { "Library/Application Support" } else { below_home };
    Some(home.join(below_home).join(NAME))
}

/// The home folder of this process's user, as the system's user database has it. The environment is not asked: whoever starts
/// this process may have set it.
#[cfg(unix)]
pub(super) fn operators_home(_: &Environment) -> Option<PathBuf> {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::effective()).ok()??;
    Some(user.dir).filter(|home| home.is_absolute())
}

/// This platform has no user database to ask.
#[cfg(not(unix))]
pub(super) fn operators_home(environment: &Environment) -> Option<PathBuf> {
    environment.path("HOME")
}
