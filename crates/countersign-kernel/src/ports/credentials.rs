//! The caller's credentials for outside systems.

use async_trait::async_trait;
use countersign_sdk::{AuthProvider, Principal, SecretString};

/// Finds the caller's credential for a provider.
#[async_trait]
pub trait Credentials: Send + Sync + 'static {
    /// The token or key, or nothing where the caller has connected none.
    async fn token(
        &self,
        provider: &AuthProvider,
        principal: &Principal,
    ) -> Result<Option<SecretString>, CredentialsError>;
}

/// Credentials could not be looked up.
#[derive(Debug, thiserror::Error)]
#[error("credentials could not be looked up")]
pub struct CredentialsError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Credentials from the environment, the same for every caller: `GITHUB_TOKEN`, else `GITHUB_API_KEY`, for `github`.
#[derive(Debug, Clone, Copy, Default)]
pub struct EnvCredentials;

impl EnvCredentials {
    /// The variables that hold a provider's credential; the first that is set counts.
    pub fn variables(provider: &AuthProvider) -> [String; 2] {
        let name = provider.id.to_ascii_uppercase().replace(['-', '.'], "_");
        ["TOKEN", "API_KEY"].map(|kind| format!("{name}_{kind}"))
    }
}

#[async_trait]
impl Credentials for EnvCredentials {
    #[expect(clippy::disallowed_methods, reason = "this is the implementation that owns these variables")]
    async fn token(
        &self,
        provider: &AuthProvider,
        _: &Principal,
    ) -> Result<Option<SecretString>, CredentialsError> {
        let found = Self::variables(provider).iter().find_map(|name| std::env::var(name).ok());
        Ok(found.filter(|value| !value.is_empty()).map(SecretString::from))
    }
}
