//! Scripts in real child processes: that they run, what ends them, and what a host believes.
#![cfg(target_os = "linux")]

mod hostile;
mod lifetime;
mod scene;
mod scripts;
