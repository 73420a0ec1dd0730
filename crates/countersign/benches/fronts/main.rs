//! What the fronts cost, as a table. Run by `cargo xtask bench`; nothing here is asserted.
//!
//! Servers run in processes of their own: this program, started again with a part to play. The load comes from here, over
//! loopback. Durable rates follow the disk, so each stands beside the same with `synchronous=OFF` in the same run.
#![expect(clippy::disallowed_methods, reason = "a bench measures with the real clock and starts processes")]

mod connection;
mod load;
mod measures;
mod parts;
mod process;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match std::env::var(process::PART) {
        Ok(part) => runtime.block_on(parts::play(&part)),
        Err(_) => {
            println!("{:<70} {:>22}   reach", "what", "seen");
            runtime.block_on(async { tokio::spawn(measures::all()).await? })
        }
    }
}
