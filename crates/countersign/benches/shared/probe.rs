//! A side door of the measured processes: how often handlers ran, when the last one did, and what the process used so far.
//!
//! Its threads sleep until they are asked, so that asking is no part of what is measured.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

use crate::Failure;

const ADDRESS: &str = "probe";

static RUNS: AtomicU64 = AtomicU64::new(0);
static LAST_RUN: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds of a clock that all processes of the machine share.
pub(crate) fn now() -> u64 {
    let Ok(time) = clock_gettime(ClockId::CLOCK_MONOTONIC) else { return 0 };
    u64::try_from(Duration::from(time).as_nanos()).unwrap_or_default()
}

/// Called by the handler of floor and product alike.
pub(crate) fn handler_runs() {
    LAST_RUN.store(now(), Ordering::Relaxed);
    RUNS.fetch_add(1, Ordering::Release);
}

/// Answers from a thread of its own for as long as the process lives.
pub(crate) fn answer(folder: &Path) -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    std::fs::write(folder.join(ADDRESS), listener.local_addr()?.to_string())?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever asks may hang up at any time.
            std::thread::spawn(move || answer_one(&stream).is_ok());
        }
    });
    Ok(())
}

fn answer_one(mut stream: &TcpStream) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    for asked in BufReader::new(stream.try_clone()?).lines() {
        asked?;
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let cpu =
            [usage.user_time(), usage.system_time()].map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
        let (runs, last) = (RUNS.load(Ordering::Acquire), LAST_RUN.load(Ordering::Relaxed));
        writeln!(stream, "{runs} {last} {}", cpu[0] + cpu[1])?;
    }
    Ok(())
}

/// What a process said of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) runs: u64,
    /// When the last handler ran, on the clock of [`now`].
    pub(crate) last_run: u64,
    /// User and system time of the process, without its children.
    pub(crate) cpu: Duration,
}

/// The asking end.
pub(crate) struct Probe(BufReader<TcpStream>);

impl Probe {
    pub(crate) fn open(folder: &Path) -> Result<Self, Failure> {
        let stream = TcpStream::connect(std::fs::read_to_string(folder.join(ADDRESS))?)?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    pub(crate) fn look(&mut self) -> Result<Seen, Failure> {
        self.0.get_mut().write_all(b"?\n")?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let mut words = line.split_whitespace().map(str::parse::<u64>);
        let mut next = || Ok::<u64, Failure>(words.next().ok_or("the probe said too little")??);
        Ok(Seen { runs: next()?, last_run: next()?, cpu: Duration::from_micros(next()?) })
    }

    /// Looks until so many handlers have run.
    pub(crate) async fn wait_for(&mut self, runs: u64) -> Result<Seen, Failure> {
        loop {
            let seen = self.look()?;
            if seen.runs >= runs {
                return Ok(seen);
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
}
