//! A child and nothing else, for whoever does not want to use the gateway's own program as one.

use std::process::ExitCode;

fn main() -> ExitCode {
    countersign_sandbox::worker_main()
}
