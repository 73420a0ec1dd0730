//! Where sources find their credentials: the environment of the server, and files that only their owner can read.

use std::path::Path;

use countersign_kernel::ports::SecretPlace;
use countersign_sdk::SecretString;
use countersign_sources::SecretReader;

/// The largest file that is taken for a secret.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// Reads secrets for sources at the moment they are needed.
pub(crate) struct ServerSecrets;

impl SecretReader for ServerSecrets {
    fn read(&self, place: &SecretPlace) -> Result<SecretString, String> {
        match place {
            SecretPlace::Env(name) => self
                .variable(name)
                .map(SecretString::from)
                .ok_or_else(|| format!("the variable {name} is not set where the server runs")),
            SecretPlace::File(path) => from_file(path),
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the operator named the variable, in the server's configuration"
    )]
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }
}

fn from_file(path: &Path) -> Result<SecretString, String> {
    let shown = path.display();
    let facts = std::fs::metadata(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    if facts.len() > MAX_SECRET_BYTES {
        return Err(format!("{shown} has more than {MAX_SECRET_BYTES} bytes; it is no credential"));
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&facts.permissions()) & 0o077 != 0 {
        return Err(format!("{shown} can be read by others; `chmod 600 {shown}` first"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    match text.trim() {
        "" => Err(format!("{shown} is empty")),
        secret => Ok(SecretString::from(secret)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_sdk::ExposeSecret as _;

    fn read(text: &str, mode: u32) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        ServerSecrets.read(&SecretPlace::File(file)).map(|secret| secret.expose_secret().to_owned())
    }

    #[test]
    fn a_secret_is_read_from_a_file_that_only_its_owner_can_read() {
        assert_eq!(read("key-1\n", 0o600), Ok("key-1".to_owned()));
        assert!(read("key-1\n", 0o640).unwrap_err().contains("chmod 600"));
        assert!(read(" \n", 0o600).unwrap_err().contains("empty"));
        assert!(read(&"x".repeat(65 * 1024), 0o600).is_err());
    }

    #[test]
    fn a_variable_that_is_not_set_is_named() {
        let problem =
            ServerSecrets.read(&SecretPlace::Env("COUNTERSIGN_NO_SUCH_KEY".to_owned())).unwrap_err();
        assert!(problem.contains("COUNTERSIGN_NO_SUCH_KEY"), "{problem}");
    }
}
