//! Loads the servers, checks every response, and writes the table and the chart. `bench/run` builds and starts it.

mod build_cost;
mod chart;
mod counts;
mod error;
mod http;
mod machine;
mod message;
mod others;
mod replicas;
mod response;
mod rows;
mod sample;
mod scenario;
mod server;
mod stdio;
mod table;
mod telemetry;
mod workload;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use build_cost::BuildCost;
use counts::Counts;
use error::{Failure, Result};
use machine::Cores;
use replicas::Bench;
use rows::Measurements;
use sample::Durations;
use scenario::Costs;
use server::Implementation;
use workload::{Programs, Samples};

/// The packages whose build cost is measured.
const SMALLEST: [&str; 4] = ["peer-stdio", "ours-stdio", "peer-http", "ours-http"];

/// The markers around the table in `bench/README.md`.
const BEFORE_TABLE: &str = "<!-- the table of bench/run -->\n";
const AFTER_TABLE: &str = "<!-- end of the table -->\n";

/// The command-line options.
struct Options {
    /// The `bench` folder.
    bench: PathBuf,
    /// The folder of the executables.
    programs: PathBuf,
    /// The folder for the results.
    results: PathBuf,
    quick: bool,
    counts_only: bool,
    /// Whether to measure the CPU time of telemetry, and nothing else.
    telemetry: bool,
    /// Whether to measure the fastest other frameworks, and nothing else.
    others: bool,
    /// Whether to measure replicas that share Redis, and nothing else.
    replicas: bool,
    update_bounds: bool,
    builds: bool,
    rounds: usize,
    /// Restricts the measurement to the workloads whose titles contain this text.
    only: Option<String>,
}

fn main() -> ExitCode {
    let outcome = Options::parse(std::env::args().skip(1)).and_then(|options| options.run());
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("load: {failure}");
            ExitCode::FAILURE
        }
    }
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let (Some(bench), Some(programs)) = (words.next(), words.next()) else {
            return Err(Failure::new("expected the folders of the benchmark and of its executables"));
        };
        let bench = PathBuf::from(bench);
        let results = bench.join("results");
        let mut options = Self {
            bench,
            programs: programs.into(),
            results,
            quick: false,
            counts_only: false,
            telemetry: false,
            others: false,
            replicas: false,
            update_bounds: false,
            builds: true,
            rounds: 0,
            only: None,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| Failure::new(format!("`{word}` requires a value")));
            match word.as_str() {
                "--quick" => options.quick = true,
                "--counts-only" => options.counts_only = true,
                "--telemetry" => options.telemetry = true,
                "--others" => options.others = true,
                "--replicas" => options.replicas = true,
                "--update-bounds" => options.update_bounds = true,
                "--no-builds" => options.builds = false,
                "--results" => options.results = value()?.into(),
                "--only" => options.only = Some(value()?),
                "--rounds" => {
                    options.rounds = value()?.parse().map_err(|_| Failure::new("`--rounds` requires a number"))?
                }
                _ => return Err(Failure::new(format!("unknown option `{word}`"))),
            }
        }
        if options.rounds == 0 {
            options.rounds = match (options.quick, options.replicas) {
                (true, _) => 1,
                (false, true) => 3,
                (false, false) => 9,
            };
        }
        Ok(options)
    }

    fn run(&self) -> Result<ExitCode> {
        let cores = Cores::claim()?;
        let programs = Programs { folder: &self.programs };
        if self.counts_only {
            return self.check_counts(&programs, &cores);
        }
        if self.telemetry {
            let table = telemetry::cpu_times(&programs, &cores, self.rounds)?;
            return self.write_table("telemetry.md", "Telemetry", "minima", &table);
        }
        if self.others {
            let table = others::measure(&programs, &cores, self.durations(), self.rounds)?;
            return self.write_table("others.md", "Other frameworks", "medians", &table);
        }
        if self.replicas {
            let (programs, cores, durations) = (&programs, &cores, self.durations());
            let (clients, tasks, changes) = if self.quick { (200, 100, 1) } else { (10_000, 2_000, 5) };
            let bench = Bench { programs, cores, durations, clients, tasks, changes };
            replicas::run(&bench, self.rounds, self.only.as_deref(), &self.results)?;
            return Ok(ExitCode::SUCCESS);
        }
        workload::verify(&programs, &cores)?;
        eprintln!("all servers respond correctly");
        if let Some(part) = &self.only {
            let (mut samples, mut costs) = (Samples::default(), Costs::default());
            for _ in 0..self.rounds {
                samples.round(&programs, &cores, self.durations(), part)?;
                costs.round(&programs, &cores, self.quick, part)?;
            }
            print!("{}\n{}", table::write_details(&samples), table::write_scenarios(&costs));
            return Ok(ExitCode::SUCCESS);
        }
        let mut measured = self.measure(&programs, &cores)?;
        self.report(&measured)?;
        if self.builds && !self.quick {
            self.build(&mut measured, &cores)?;
            self.report(&measured)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Counts allocations and instructions of our server, and compares them with the bounds or updates the bounds.
    fn check_counts(&self, programs: &Programs<'_>, cores: &Cores) -> Result<ExitCode> {
        let path = self.bench.join("bounds.toml");
        if self.only.is_some() && self.update_bounds {
            return Err(Failure::new("`--update-bounds` requires all counts, so it excludes `--only`"));
        }
        let part = self.only.as_deref().unwrap_or_default();
        let counts = Counts::measure(programs, Implementation::Ours, cores, part)?;
        if self.update_bounds {
            counts.write(&path, &machine::describe())?;
        }
        let exceeded = counts.check(&Counts::read(&path)?);
        println!("{} passed, {} failed", usize::from(exceeded == 0), usize::from(exceeded > 0));
        Ok(if exceeded > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn measure(&self, programs: &Programs<'_>, cores: &Cores) -> Result<Measurements> {
        let starts = if self.quick { 5 } else { 10 };
        let mut measured = Measurements::default();
        for round in 1..=self.rounds {
            eprintln!("round {round} of {}", self.rounds);
            measured.samples.round(programs, cores, self.durations(), "")?;
            measured.starts.round(programs, cores, starts)?;
            measured.costs.round(programs, cores, self.quick, "")?;
        }
        eprintln!("counting allocations and instructions");
        for implementation in Implementation::ALL {
            measured.counts.insert(implementation, Counts::measure(programs, implementation, cores, "")?);
        }
        Ok(measured)
    }

    /// Prints a table of its own and writes it to the results.
    fn write_table(&self, file: &str, title: &str, statistic: &str, table: &str) -> Result<ExitCode> {
        print!("{table}");
        let (machine, rounds) = (machine::describe(), self.rounds);
        let text = format!("# {title}\n\n{machine}; {statistic} of {rounds} rounds.\n\n{table}");
        write(&self.results.join(file), &text)?;
        Ok(ExitCode::SUCCESS)
    }

    fn durations(&self) -> Durations {
        if self.quick {
            Durations { warm_up: ms(50), measured: ms(200) }
        } else {
            Durations { warm_up: ms(200), measured: ms(1000) }
        }
    }

    fn build(&self, measured: &mut Measurements, cores: &Cores) -> Result<()> {
        for name in SMALLEST {
            eprintln!("building {name}");
            measured.builds.insert(name, BuildCost::measure(&self.bench, &self.programs, name, cores)?);
        }
        Ok(())
    }

    fn report(&self, measured: &Measurements) -> Result<()> {
        let (rows, machine) = (measured.rows(), machine::describe());
        let table = table::write(&rows);
        print!("\n{table}");
        let text = format!(
            "# Results\n\n{machine}; medians of {rounds} rounds; the server and the load generator have one core each. `bench/README.md` explains how to read it.\n\n\
             {table}\n## All workloads\n\n{details}\n{scenarios}",
            rounds = self.rounds,
            details = table::write_details(&measured.samples),
            scenarios = table::write_scenarios(&measured.costs),
        );
        fs::create_dir_all(&self.results)?;
        write(&self.results.join("table.md"), &text)?;
        write(&self.results.join("chart.svg"), &chart::draw(&rows, &machine))?;
        if self.results == self.bench.join("results") && !measured.builds.is_empty() {
            self.update_readme(&format!("{machine}:\n\n{table}"))?;
        }
        Ok(())
    }

    /// Replaces the table between the markers in `bench/README.md`.
    fn update_readme(&self, text: &str) -> Result<()> {
        let path = self.bench.join("README.md");
        let readme = fs::read_to_string(&path)?;
        let parts = readme.split_once(BEFORE_TABLE).zip(readme.split_once(AFTER_TABLE));
        let ((before, _), (_, after)) =
            parts.ok_or_else(|| Failure::new("bench/README.md has no markers for the table"))?;
        write(&path, &format!("{before}{BEFORE_TABLE}\n{text}{AFTER_TABLE}{after}"))
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Failure::from(error).during(path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
