//! Figures over time in SQLite, which a page draws as a chart. Clients without pages receive text.
//!
//! ```text
//! cargo run -p dashboard -- --db dashboard.db
//! cargo mcp app show_dashboard metric=revenue
//! ```

#[cfg(test)]
mod tests;

use std::{
    fmt::{self, Display, Formatter},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use mcp_runtime::{Json, Server, server, tool, ui};
use rusqlite::{Connection, Result, Row, params};
use schemars::JsonSchema;
use serde::Serialize;

/// The file with the figures.
struct Db(Mutex<Connection>);

/// A metric over a number of days that end today.
#[derive(Serialize, JsonSchema)]
struct Series {
    metric: String,
    days: u32,
    /// The values, oldest first. Days without a value are absent.
    figures: Vec<Figure>,
    /// The sum of the values.
    total: f64,
    /// The sum of the values of as many days before.
    total_before: f64,
    /// The names of all metrics.
    metrics: Vec<String>,
}

/// The value of a day.
#[derive(Serialize, JsonSchema)]
struct Figure {
    #[schemars(extend("format" = "date"))]
    day: String,
    value: f64,
}

/// A chart of one metric.
#[ui("ui://dashboard/chart", title = "Dashboard", file = "chart.html", prefers_border = true)]
fn chart();

/// Show the user a metric as a chart, in which the user can choose another metric or period.
#[tool(title = "Show the dashboard", read_only, ui = chart, visibility = [model], blocking)]
fn show_dashboard(
    db: &Db,
    /// The name of the metric.
    #[arg(default = "visitors")]
    metric: String,
    /// The number of days until today.
    #[arg(default = 30, range = 2..=365)]
    days: u32,
) -> Result<String> {
    Ok(db.series(&metric, days)?.to_string())
}

/// Record the value of a metric for a day. Replaces the value that the day has already.
#[tool(title = "Record a figure", idempotent, visibility = [model], blocking)]
fn record_figure(
    db: &Db,
    /// The name of the metric, which may be a new one.
    #[arg(length = 1..=40)]
    metric: String,
    #[arg(range = 0.0..)] value: f64,
    /// The day [default: today].
    #[arg(format = "date")]
    day: Option<String>,
) -> Result<String> {
    let day = db.record(&metric, value, day.as_deref())?;
    Ok(format!("{metric} is {value} on {day}"))
}

/// Return the values of a metric. The page draws them.
#[tool(read_only, visibility = [app], blocking)]
fn figures(
    db: &Db,
    #[arg(default = "visitors")] metric: String,
    #[arg(default = 30, range = 2..=365)] days: u32,
) -> Result<Json<Series>> {
    Ok(Json(db.series(&metric, days)?))
}

impl Db {
    fn open(file: &Path) -> Result<Self> {
        let db = Connection::open(file)?;
        db.execute_batch(include_str!("schema.sql"))?;
        Ok(Self(Mutex::new(db)))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, metric: &str, value: f64, day: Option<&str>) -> Result<String> {
        let sql = "INSERT OR REPLACE INTO figures VALUES (?1, coalesce(?3, date('now')), ?2) RETURNING day";
        self.lock().query_row(sql, params![metric, value, day], |row| row.get(0))
    }

    fn series(&self, metric: &str, days: u32) -> Result<Series> {
        let db = self.lock();
        let mut metrics = db.prepare_cached("SELECT DISTINCT metric FROM figures ORDER BY metric")?;
        let mut figures = db.prepare_cached(
            "SELECT day, value FROM figures WHERE metric = ?1
             AND day > date('now', -?2 || ' days') AND day <= date('now', -?3 || ' days') ORDER BY day",
        )?;
        let mut between = |from: u32, to: u32| -> Result<Vec<Figure>> {
            let read = |row: &Row<'_>| Ok(Figure { day: row.get(0)?, value: row.get(1)? });
            figures.query_map(params![metric, from, to], read)?.collect()
        };
        let (figures, before) = (between(days, 0)?, between(2 * days, days)?);
        Ok(Series {
            metric: metric.to_owned(),
            days,
            total: figures.iter().map(|figure| figure.value).sum(),
            total_before: before.iter().map(|figure| figure.value).sum(),
            figures,
            metrics: metrics.query_map([], |row| row.get(0))?.collect::<Result<_>>()?,
        })
    }
}

/// Describes the series to the model, and to users of clients without pages.
impl Display for Series {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { metric, days, figures, total, total_before, metrics } = self;
        let by_value = |a: &&Figure, b: &&Figure| a.value.total_cmp(&b.value);
        let (Some(low), Some(high)) = (figures.iter().min_by(by_value), figures.iter().max_by(by_value)) else {
            return write!(f, "no figures of {metric} in the last {days} days; the metrics are {}", metrics.join(", "));
        };
        let bars = figures.iter().map(|figure| {
            let height = (figure.value - low.value) / (high.value - low.value).max(f64::MIN_POSITIVE);
            ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][(height * 7.0).round() as usize]
        });
        writeln!(f, "{metric} in the last {days} days: {total}, and {total_before} in the {days} days before")?;
        writeln!(f, "lowest: {} on {}, highest: {} on {}", low.value, low.day, high.value, high.day)?;
        f.write_str(&bars.collect::<String>())
    }
}

#[server]
fn main(
    server: Server,
    /// The SQLite file; `:memory:` keeps the figures only while the server runs.
    #[arg(default = "dashboard.db", env = "DASHBOARD_DB")]
    db: PathBuf,
) -> Result<Server> {
    Ok(server.title("Dashboard").with_state(Db::open(&db)?))
}
