//! Upstream MCP servers: published ones over both transports, and a server that means harm.

mod fixture;
mod hostile;
mod hostile_http;
mod http;
mod lifetime;
mod published;
mod toolbox;
