//! What the fronts cost, as a table: REST beside MCP, and how soon a server answers. Run by `cargo xtask bench`; nothing here is
//! asserted. What a call costs beside a floor is in the bench `heart`.
//!
//! The server runs in a process of its own: this program, started again with a part to play. The load comes from here, over
//! loopback.
#![expect(clippy::disallowed_methods, reason = "a bench measures with the real clock and starts processes")]

#[path = "../shared/connection.rs"]
mod connection;
#[path = "../shared/load.rs"]
mod load;
mod measures;
#[path = "../shared/probe.rs"]
#[expect(dead_code, reason = "the bench of the heart asks it")]
mod probe;
#[path = "../shared/process.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod process;
#[path = "../shared/product.rs"]
#[expect(dead_code, reason = "the bench of the heart uses the rest")]
mod product;
#[path = "../shared/side.rs"]
#[expect(dead_code, reason = "the bench of the heart uses the rest")]
mod side;
#[path = "../shared/table.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod table;

use std::path::PathBuf;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if std::env::var_os(process::PART).is_some() {
        process::end_with_the_parent();
        let folder = PathBuf::from(std::env::var(process::FOLDER)?);
        return runtime.block_on(product::serve(&folder, product::settings()));
    }
    table::heading();
    runtime.block_on(async { tokio::spawn(measures::all()).await? })
}
