//! Upstream MCP servers: published ones over both transports, and a server that means harm.

mod fixture;
mod hostile;
mod lifetime;
mod published;
mod toolbox;
