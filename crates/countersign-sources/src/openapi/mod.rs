//! OpenAPI 3.0, 3.1 and Swagger 2 documents as tools. Pure: a document in, an offer and callable operations out.
//!
//! Read `map.rs` first: it walks the document once. `input.rs` describes arguments, `operation.rs` makes requests of them,
//! `answer.rs` makes results of answers. Deliberately absent: the network, credentials, retries and policy.

mod answer;
mod bodies;
mod cycles;
mod discriminator;
mod document;
pub(crate) mod effects;
mod encode;
mod input;
mod map;
mod media;
pub(crate) mod names;
mod operation;
mod parameters;
mod patterns;
mod pruned;
mod schema;
mod security;
mod servers;
mod style;
pub(crate) mod words;

pub use document::{Dialect, Document, DocumentError, MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_OPERATIONS};
pub use encode::MAX_FILE_BYTES;
pub use input::{MAX_DESCRIBED_INPUT_BYTES, MAX_INPUT_BYTES, MAX_OUTPUT_BYTES};
pub use map::{Mapped, Options};
pub use names::MAX_NAME_BYTES;
pub use operation::Operation;
pub(crate) use security::wanted_credentials;
pub use security::{CredentialKind, ProposedCredential};
