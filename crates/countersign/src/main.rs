//! The `countersign` program: the library's [`App`](countersign::App) with no plugins of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    countersign::App::new().run()
}
