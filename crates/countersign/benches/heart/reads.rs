//! How long a decision takes while others read: alone, with 1,500 reads a second beside it, and right after a burst of reads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::Failure;
use crate::connection::Connection;
use crate::load::{TURNS, middle, rest_call};
use crate::report::{Bound, Report, Row};
use crate::side::Side;

const READS_PER_SECOND: u32 = 1_500;
const READERS: u32 = 15;
const BURST_READERS: usize = 32;
const BURST_EACH: usize = 100;
const DECISIONS: usize = 300;
/// Only these follow a burst closely.
const DECISIONS_AFTER_A_BURST: usize = 100;
/// Between two decisions, so that they meet the reads at different moments.
const PAUSE: Duration = Duration::from_millis(3);

pub(crate) async fn measure(report: &mut Report) -> Result<(), Failure> {
    let product = Side::start("product").await?;
    let (mut alone, mut beside, mut after) = (Vec::new(), Vec::new(), Vec::new());
    let answered = Arc::new(AtomicU64::new(0));
    let mut reading_for = Duration::ZERO;
    for _ in 0..TURNS {
        alone.push(p99(decisions(&product, DECISIONS).await?));
        let begun = Instant::now();
        let readers = Readers::start(&product, &answered);
        beside.push(p99(decisions(&product, DECISIONS).await?));
        reading_for += begun.elapsed();
        drop(readers);
        after.push(p99(after_bursts(&product).await?));
    }
    #[expect(clippy::cast_precision_loss, reason = "some thousand")]
    let rate = answered.load(Ordering::Relaxed) as f64 / reading_for.as_secs_f64();
    report.note(format!("reads beside the decisions: {rate:.0}/s answered (1,500/s sent)"));
    let (alone, beside, after) = (middle(alone), middle(beside), middle(after));
    for (work, with) in [
        ("decision answered, p99, with 1,500 reads/s (floor: without)", beside),
        ("  the same right after a burst of 3,200 reads", after),
    ] {
        report.add(Row {
            work,
            floor: format!("{alone:.1} ms"),
            product: format!("{with:.1} ms"),
            figure: with / alone,
            unit: " ×",
            bound: Bound::AtMost { must: 4.0, reach: 3.0 },
        });
    }
    Ok(())
}

/// Decides so many questions one after another. They are asked before anything is timed.
async fn decisions(side: &Side, count: usize) -> Result<Vec<f64>, Failure> {
    decide(side, side.ask_many(count).await?).await
}

async fn decide(side: &Side, pending: Vec<String>) -> Result<Vec<f64>, Failure> {
    let mut connection = Connection::open(side.address()).await?;
    let mut samples = Vec::with_capacity(pending.len());
    for id in pending {
        let approve = side.tokens.approve(&id);
        let begun = Instant::now();
        connection.ask(&approve).await?;
        samples.push(begun.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(samples)
}

/// Decisions that follow bursts, with the steady reads beside them.
async fn after_bursts(side: &Side) -> Result<Vec<f64>, Failure> {
    let mut samples = Vec::with_capacity(DECISIONS);
    for _ in 0..DECISIONS / DECISIONS_AFTER_A_BURST {
        let pending = side.ask_many(DECISIONS_AFTER_A_BURST).await?;
        burst(side).await?;
        let readers = Readers::start(side, &Arc::default());
        samples.extend(decide(side, pending).await?);
        drop(readers);
    }
    Ok(samples)
}

async fn burst(side: &Side) -> Result<(), Failure> {
    let mut readers = JoinSet::new();
    for _ in 0..BURST_READERS {
        let (read, address) = (rest_call(&side.tokens.agent, "bench.say"), side.address());
        readers.spawn(async move {
            let mut connection = Connection::open(address).await?;
            for _ in 0..BURST_EACH {
                // A read that is refused for want of room is an answer, too.
                let _ = connection.ask(&read).await;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(done) = readers.join_next().await {
        done??;
    }
    Ok(())
}

/// Clients that read at a steady rate until they are dropped.
struct Readers(#[expect(dead_code, reason = "dropping it ends them")] JoinSet<Result<(), Failure>>);

impl Readers {
    fn start(side: &Side, answered: &Arc<AtomicU64>) -> Self {
        let mut readers = JoinSet::new();
        for _ in 0..READERS {
            let token = side.tokens.agent.clone();
            readers.spawn(read_steadily(side.address(), token, Arc::clone(answered)));
        }
        Self(readers)
    }
}

async fn read_steadily(address: SocketAddr, token: String, answered: Arc<AtomicU64>) -> Result<(), Failure> {
    let mut connection = Connection::open(address).await?;
    let read = rest_call(&token, "bench.say");
    let mut tick = tokio::time::interval(Duration::from_secs(1) * READERS / READS_PER_SECOND);
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        tick.tick().await;
        if connection.ask(&read).await.is_ok() {
            answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn p99(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() * 99 / 100).copied().unwrap_or_default()
}
