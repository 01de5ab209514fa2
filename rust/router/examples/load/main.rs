//! Load on a router that is not slowed by its own client: a worker without a model and its clients, in one process.
//!
//! `load KIND --worker ADDRESS --grpc ADDRESS --model FOLDER --router PID [--streams N] [--rate N] [--seconds N]
//! [--ca FILE]` dials a router as its worker, asks it for N streams over one channel, and prints one line of JSON.
//! `python -m bench serving` runs it and says what the kinds mean.

mod channel;
mod clients;
mod process;
mod table;
mod worker;

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use clients::Clients;
use process::Process;
use table::{Table, percentile};
use worker::Worker;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Steps of which tokens may be under way, where as many are sent as a router takes.
const STEPS_UNDER_WAY: usize = 4;
/// Time before what counts.
const WARM_UP: Duration = Duration::from_secs(1);
/// Time between two steps that are timed alone.
const STEP_PAUSE: Duration = Duration::from_millis(50);

/// What the command line says.
struct Options(HashMap<String, String>);

impl Options {
    fn text(&self, name: &str) -> Result<&str, Failure> {
        let found = self.0.get(name).map(String::as_str);
        found.ok_or_else(|| format!("--{name} is missing").into())
    }

    fn number(&self, name: &str, default: f64) -> Result<f64, Failure> {
        let given = self.0.get(name).map(|text| text.parse()).transpose()?;
        Ok(given.unwrap_or(default))
    }
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_default();
    let mut options = Options(HashMap::new());
    while let (Some(name), Some(value)) = (arguments.next(), arguments.next()) {
        options
            .0
            .insert(name.trim_start_matches('-').to_owned(), value);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let found = runtime.block_on(run(&kind, &options))?;
    runtime.shutdown_background();
    writeln!(std::io::stdout(), "{found}")?;
    Ok(())
}

async fn run(kind: &str, options: &Options) -> Result<Value, Failure> {
    let streams = options.number("streams", 64.0)? as usize;
    let rate = options.number("rate", 1000.0)?;
    let seconds = options.number("seconds", 4.0)?;
    let router = Process(options.text("router")?.parse()?);
    let most = match kind {
        "paced" => (rate * (seconds + 2.0)) as usize / streams + 16,
        _ => 1 << 20 >> streams.ilog2(),
    };
    let table = Arc::new(Table::new(streams, most));
    let worker = Worker::join(
        options.text("worker")?,
        options.text("model")?,
        table.clone(),
    )
    .await?;
    let authority = options.0.get("ca").map(String::as_str);
    let channel = channel::connect(options.text("grpc")?, authority).await?;
    clients::wait_ready(&channel).await?;
    let before = router.memory_bytes()?;
    let clients = Clients::ask(&channel, &table);
    worker.has_all().await;
    let mut found = match kind {
        "paced" => paced(&worker, rate, seconds).await?,
        "steps" => steps(&worker, seconds).await?,
        "flood" => flood(&worker, &router, seconds).await?,
        "held" => {
            for _ in 0..16 {
                worker.step().await?;
            }
            table.has_come(16 * streams).await;
            json!({})
        }
        other => return Err(format!("{other:?} is no kind").into()),
    };
    found["memory_bytes"] = (router.memory_bytes()? - before).into();
    drop(clients);
    Ok(found)
}

/// One token at a time, evenly over time and streams: microseconds from worker to client.
async fn paced(worker: &Worker, rate: f64, seconds: f64) -> Result<Value, Failure> {
    let count = (rate * seconds) as usize;
    let skipped = (rate * WARM_UP.as_secs_f64()) as usize;
    tokio::task::block_in_place(|| worker.pace(rate, count + skipped))?;
    worker.table.has_come(count + skipped).await;
    let mut micros = worker.table.latencies(skipped);
    let missed = worker.table.latest_send_micros(rate, skipped);
    Ok(json!({
        "tokens": micros.len(),
        "p50_us": percentile(&mut micros, 0.5),
        "p99_us": percentile(&mut micros, 0.99),
        "late_p99_us": missed,
    }))
}

/// Steps that bring a token of every stream at once: milliseconds until the last of them has come.
async fn steps(worker: &Worker, seconds: f64) -> Result<Value, Failure> {
    let num_streams = worker.table.num_streams();
    let mut millis = Vec::new();
    let count = (seconds / STEP_PAUSE.as_secs_f64()) as usize;
    for number in 1..=count + 5 {
        worker.step().await?;
        worker.table.has_come(number * num_streams).await;
        if number > 5 {
            millis.push(worker.table.last_step_millis());
        }
        tokio::time::sleep(STEP_PAUSE).await;
    }
    Ok(
        json!({ "steps": millis.len(), "p50_ms": percentile(&mut millis, 0.5), "p99_ms": percentile(&mut millis, 0.99) }),
    )
}

/// As many tokens as the router takes, each in a message of its own.
async fn flood(worker: &Worker, router: &Process, seconds: f64) -> Result<Value, Failure> {
    let table = &worker.table;
    let per_step = table.num_streams();
    let begun = Instant::now();
    let (mut sent, mut warm) = (0, None);
    loop {
        worker.singles().await?;
        sent += per_step;
        table
            .has_come(sent.saturating_sub(STEPS_UNDER_WAY * per_step))
            .await;
        if warm.is_none() && begun.elapsed() >= WARM_UP {
            warm = Some((Instant::now(), table.num_come(), router.cpu_seconds()?));
        }
        if let Some((since, before, cpu)) = warm
            && since.elapsed().as_secs_f64() >= seconds
        {
            let tokens = table.num_come() - before;
            return Ok(json!({
                "tokens": tokens,
                "seconds": since.elapsed().as_secs_f64(),
                "cpu_s": router.cpu_seconds()? - cpu,
            }));
        }
    }
}
