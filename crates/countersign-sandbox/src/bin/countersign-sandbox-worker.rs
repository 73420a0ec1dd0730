//! The sandbox's child as a program of its own, for hosts that do not use the gateway's program.

use std::process::ExitCode;

fn main() -> ExitCode {
    countersign_sandbox::worker_main()
}
