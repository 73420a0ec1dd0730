//! GraphQL services as tools: each query and mutation field is one. Pure: a schema in, an offer and callable operations out.
//!
//! Values travel only as variables. The caller may choose what is answered with `fields`, a selection that is parsed, checked
//! against the schema and written anew, so that nothing of the caller's text reaches the request. Deliberately absent:
//! subscriptions, the network and credentials.

mod input;
mod introspection;
mod map;
mod operation;
mod schema;
mod sdl;
mod selection;

pub use input::FIELDS_ARGUMENT;
pub use introspection::INTROSPECTION_QUERY;
pub use map::{Mapped, Options};
pub use operation::{NoResult, Operation};
pub use schema::{MAX_ROOT_FIELDS, MAX_SCHEMA_BYTES, Schema, SchemaError};
pub use selection::{MAX_SELECTION_BYTES, MAX_SELECTION_DEPTH};
