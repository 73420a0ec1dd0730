//! The fixtures of the official conformance suite, on the product's own server.

mod companion;
mod content;
mod plugin;

fn main() {
    let announcer = countersign_server::mcp::Announcer::default();
    let _ = (plugin::plugin(&announcer), companion::companion());
}
