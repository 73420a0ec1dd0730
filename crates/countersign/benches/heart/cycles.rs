//! Ask, decide, run: how many a second, at what cost, and how soon after the decision the handler runs.
//!
//! A cycle is two requests on both sides. A round ends when all of its handlers have run.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Failure;
use crate::connection::Connection;
use crate::load::{TURNS, middle};
use crate::probe;
use crate::report::{Bound, Report, Row};
use crate::side::{Side, pending_id};

const AT_ONCE: usize = 64;
const ROUND: Duration = Duration::from_secs(3);
const ONE_AT_A_TIME: usize = 200;

/// What one round showed, or the medians of several.
struct Round {
    per_second: f64,
    cpu_micros: f64,
    commits: f64,
    /// From the decision's first byte to the handler, one at a time.
    to_handler_millis: f64,
}

impl Round {
    fn medians(rounds: &[Round]) -> Round {
        let of = |figure: fn(&Round) -> f64| middle(rounds.iter().map(figure).collect());
        Round {
            per_second: of(|round| round.per_second),
            cpu_micros: of(|round| round.cpu_micros),
            commits: of(|round| round.commits),
            to_handler_millis: of(|round| round.to_handler_millis),
        }
    }
}

pub(crate) async fn measure(report: &mut Report) -> Result<(), Failure> {
    let (floor, product) = (Side::start("floor").await?, Side::start("product").await?);
    let (mut of_floor, mut of_product) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        of_floor.push(round(&floor).await?);
        of_product.push(round(&product).await?);
    }
    let (floor, product) = (Round::medians(&of_floor), Round::medians(&of_product));
    report.add(Row {
        work: "ask + decide + run over REST, 64 at once, cycles/s",
        floor: format!("{:.0}/s", floor.per_second),
        product: format!("{:.0}/s", product.per_second),
        figure: product.per_second / floor.per_second,
        unit: " ×",
        bound: Bound::AtLeast { must: 0.35, reach: 0.5 },
    });
    report.add(Row {
        work: "  CPU of the server for each cycle",
        floor: format!("{:.0} µs", floor.cpu_micros),
        product: format!("{:.0} µs", product.cpu_micros),
        figure: product.cpu_micros / floor.cpu_micros,
        unit: " ×",
        bound: Bound::AtMost { must: 3.2, reach: 2.2 },
    });
    report.add(Row {
        work: "  fsyncs for each cycle",
        floor: format!("{:.3}", floor.commits),
        product: format!("{:.3}", product.commits),
        figure: product.commits,
        unit: "",
        bound: Bound::AtMost { must: 0.2, reach: 0.15 },
    });
    report.add(Row {
        work: "decision sent → handler runs, one at a time, p50",
        floor: format!("{:.2} ms", floor.to_handler_millis),
        product: format!("{:.2} ms", product.to_handler_millis),
        figure: product.to_handler_millis / floor.to_handler_millis,
        unit: " ×",
        bound: Bound::AtMost { must: 1.6, reach: 1.3 },
    });
    Ok(())
}

async fn round(side: &Side) -> Result<Round, Failure> {
    let mut probe = side.probe()?;
    let (before, commits) = (probe.look()?, side.commits().await?.unwrap_or_default());
    let begun = Instant::now();
    let cycles = many_at_once(side).await?;
    let after = probe.wait_for(before.runs + cycles).await?;
    let took = begun.elapsed();
    #[expect(clippy::cast_precision_loss, reason = "some ten thousand")]
    let count = cycles as f64;
    let commits = (side.commits().await?.ok_or("the server does not count its commits")? - commits) / count;
    Ok(Round {
        per_second: count / took.as_secs_f64(),
        cpu_micros: (after.cpu - before.cpu).as_secs_f64() * 1e6 / count,
        commits,
        to_handler_millis: one_at_a_time(side).await?,
    })
}

async fn many_at_once(side: &Side) -> Result<u64, Failure> {
    let mut cyclists = JoinSet::new();
    let until = Instant::now() + ROUND;
    for _ in 0..AT_ONCE {
        let (tokens, address) = (side.tokens.clone(), side.address());
        cyclists.spawn(async move {
            let mut connection = Connection::open(address).await?;
            let (ask, mut cycles) = (tokens.ask(), 0_u64);
            while Instant::now() < until {
                let id = pending_id(&connection.json(&ask).await?)?;
                connection.ask(&tokens.approve(&id)).await?;
                cycles += 1;
            }
            Ok::<_, Failure>(cycles)
        });
    }
    let mut cycles = 0;
    while let Some(done) = cyclists.join_next().await {
        cycles += done??;
    }
    Ok(cycles)
}

/// The median of the milliseconds from sending a decision to its handler.
async fn one_at_a_time(side: &Side) -> Result<f64, Failure> {
    let (mut probe, mut connection) = (side.probe()?, Connection::open(side.address()).await?);
    let (ask, mut samples) = (side.tokens.ask(), Vec::with_capacity(ONE_AT_A_TIME));
    for _ in 0..ONE_AT_A_TIME {
        let id = pending_id(&connection.json(&ask).await?)?;
        let (approve, runs) = (side.tokens.approve(&id), probe.look()?.runs);
        let sent = probe::now();
        connection.ask(&approve).await?;
        let ran = probe.wait_for(runs + 1).await?.last_run;
        samples.push(Duration::from_nanos(ran.saturating_sub(sent)).as_secs_f64() * 1e3);
    }
    Ok(middle(samples))
}
