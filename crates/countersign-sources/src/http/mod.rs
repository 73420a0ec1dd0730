//! The guarded HTTP client through which every source is reached.
//!
//! Promises:
//! - A connection is made only to an address that passed [`AddressPolicy`], checked between resolving and connecting.
//! - No proxy but the configured one, no referrer, TLS always verified. A redirect is followed only for reads and only
//!   within the same origin, so that credentials and bodies never go elsewhere.
//! - Time and size are bounded. Reads are sent again where the source asked for that or the connection broke; writes are sent at most once.
//! - [`Exchange`] says whether the source can have acted.
//! - No secret is in an answer, an error or a log.

mod address;
mod breaker;
mod client;
mod credentials;
mod exchange;
mod resolver;
mod retry;

pub use address::{AddressKind, AddressPolicy, AddressRefused, PrivateAddresses};
pub use breaker::{Breaker, FAILURES_TO_OPEN, FIRST_PAUSE, LONGEST_PAUSE, Open, Report};
pub use client::{HttpClient, HttpLimits, HttpOptions, SetupError};
pub(crate) use credentials::secrets as secrets_of;
pub use credentials::{BadCredential, Credential};
pub use exchange::{Answer, Exchange, Extent, Intent, Lost, LostStage, NotSent};
pub use retry::{LONGEST_WAIT, MAX_ATTEMPTS};
