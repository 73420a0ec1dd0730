//! Servers in processes of their own, and what the system says of them.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::connection::{Connection, Prepared};

/// Says which part a process of this program plays.
pub(crate) const PART: &str = "COUNTERSIGN_BENCH_PART";
/// Where it keeps its data, and says where it listens.
pub(crate) const FOLDER: &str = "COUNTERSIGN_BENCH_FOLDER";
/// The file in which it says so.
pub(crate) const ADDRESS: &str = "address";
const TICKS_PER_SECOND: f64 = 100.0;
const PATIENCE: Duration = Duration::from_secs(120);

/// Ends this process when the one that started it is gone, however that ended: its end of our input closes then.
pub(crate) fn end_with_the_parent() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
}

/// A server that runs. Killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// Held open apart from the child, because waiting for a child closes it.
    _input: Option<ChildStdin>,
    pub(crate) address: SocketAddr,
    /// From its start until it answered that it is ready.
    pub(crate) ready_after: Duration,
}

impl Server {
    /// Starts a part on a folder and waits until it answers.
    pub(crate) async fn start(part: &str, folder: &Path) -> Result<Self, Failure> {
        let said = folder.join(ADDRESS);
        let _ = std::fs::remove_file(&said);
        let begun = Instant::now();
        let mut child = Command::new(std::env::current_exe()?)
            .env(PART, part)
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let mut server =
            Self { child, _input: input, address: ([127, 0, 0, 1], 0).into(), ready_after: Duration::ZERO };
        while begun.elapsed() < PATIENCE {
            if let Some(address) =
                std::fs::read_to_string(&said).ok().and_then(|text| text.trim().parse().ok())
            {
                server.address = address;
                let mut connection = Connection::open(address).await?;
                connection.ask(&Prepared::get("/readyz", "none")).await?;
                server.ready_after = begun.elapsed();
                return Ok(server);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Err(format!("the server {part} did not start").into())
    }

    /// The processor time it used so far, as coarse as the system counts it.
    pub(crate) fn cpu(&self) -> Result<Duration, Failure> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        Ok(Duration::from_secs_f64(ticks / TICKS_PER_SECOND))
    }

    /// The memory that is its own, in kilobytes.
    pub(crate) fn resident_kb(&self) -> Result<u64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn terminate(mut self) -> Result<(), Failure> {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        )?;
        self.child.wait()?;
        Ok(())
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
