//! Runs the servers, loads them, checks every answer, and writes table and chart. `bench/run` builds everything and starts it.

mod build_cost;
mod chart;
mod counts;
mod error;
mod http;
mod machine;
mod message;
mod response;
mod rows;
mod sample;
mod server;
mod stdio;
mod table;
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
use rows::Measured;
use sample::Length;
use server::Maker;
use workload::{Programs, Samples};

/// The packages whose build is measured.
const SMALLEST: [&str; 4] = ["peer-stdio", "ours-stdio", "peer-http", "ours-http"];

/// The marks in the project's README.
const BEFORE_TABLE: &str = "<!-- the table of bench/run -->\n";
const AFTER_TABLE: &str = "<!-- its end -->\n";

/// How much is measured.
struct Plan {
    /// The folder `bench`.
    bench: PathBuf,
    /// Where the programs are.
    programs: PathBuf,
    /// Where results go.
    results: PathBuf,
    quick: bool,
    counts_only: bool,
    update_bounds: bool,
    builds: bool,
    rounds: usize,
    /// What the title of a load must contain to be measured, and nothing else is.
    only: Option<String>,
}

fn main() -> ExitCode {
    let outcome = Plan::parse(std::env::args().skip(1)).and_then(|plan| plan.run());
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("load: {failure}");
            ExitCode::FAILURE
        }
    }
}

impl Plan {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let (Some(bench), Some(programs)) = (words.next(), words.next()) else {
            return Err(Failure::new("expected the folders of the benchmark and of its programs"));
        };
        let bench = PathBuf::from(bench);
        let results = bench.join("results");
        let mut plan = Self {
            bench,
            programs: programs.into(),
            results,
            quick: false,
            counts_only: false,
            update_bounds: false,
            builds: true,
            rounds: 0,
            only: None,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| Failure::new(format!("{word} needs a value")));
            match word.as_str() {
                "--quick" => plan.quick = true,
                "--counts-only" => plan.counts_only = true,
                "--update-bounds" => plan.update_bounds = true,
                "--no-builds" => plan.builds = false,
                "--results" => plan.results = value()?.into(),
                "--only" => plan.only = Some(value()?),
                "--rounds" => plan.rounds = value()?.parse().map_err(|_| Failure::new("--rounds needs a number"))?,
                _ => return Err(Failure::new(format!("unknown option {word}"))),
            }
        }
        if plan.rounds == 0 {
            plan.rounds = if plan.quick { 1 } else { 9 };
        }
        Ok(plan)
    }

    fn run(&self) -> Result<ExitCode> {
        let cores = Cores::claim()?;
        let programs = Programs { folder: &self.programs };
        if self.counts_only {
            return self.check_counts(&programs, &cores);
        }
        workload::verify(&programs, &cores)?;
        eprintln!("every server answers everything");
        if let Some(part) = &self.only {
            let mut samples = Samples::default();
            for _ in 0..self.rounds {
                samples.round(&programs, &cores, self.length(), part)?;
            }
            print!("{}", table::write_details(&samples));
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

    /// Counts for our server, and compares with the bounds, or makes them.
    fn check_counts(&self, programs: &Programs<'_>, cores: &Cores) -> Result<ExitCode> {
        let path = self.bench.join("bounds.toml");
        let counts = Counts::take(programs, Maker::Ours, cores)?;
        if self.update_bounds {
            counts.write(&path, &machine::describe())?;
        }
        let broken = counts.check(&Counts::read(&path)?);
        println!("{} passed, {} failed", usize::from(broken == 0), usize::from(broken > 0));
        Ok(if broken > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn measure(&self, programs: &Programs<'_>, cores: &Cores) -> Result<Measured> {
        let (starts, sessions) = if self.quick { (5, 1000) } else { (10, 5000) };
        let mut measured = Measured::default();
        for round in 1..=self.rounds {
            eprintln!("round {round} of {}", self.rounds);
            measured.samples.round(programs, cores, self.length(), "")?;
            measured.starts.round(programs, cores, starts)?;
        }
        eprintln!("counts");
        for maker in Maker::ALL {
            measured.counts.insert(maker, Counts::take(programs, maker, cores)?);
        }
        for maker in [Maker::Peer, Maker::Ours] {
            let memory = workload::session_memory(programs, maker, cores, sessions)?;
            measured.sessions.insert(maker, memory);
        }
        Ok(measured)
    }

    fn length(&self) -> Length {
        match self.quick {
            true => Length { warm_up: ms(50), measured: ms(200) },
            false => Length { warm_up: ms(200), measured: ms(1000) },
        }
    }

    fn build(&self, measured: &mut Measured, cores: &Cores) -> Result<()> {
        for name in SMALLEST {
            eprintln!("build of {name}");
            measured.builds.insert(name, BuildCost::take(&self.bench, &self.programs, name, cores)?);
        }
        Ok(())
    }

    fn report(&self, measured: &Measured) -> Result<()> {
        let (rows, machine) = (measured.rows(), machine::describe());
        let table = table::write(&rows);
        print!("\n{table}");
        let text = format!(
            "# Results\n\n{machine}; {rounds} rounds, medians; server and load on a core each. `bench/README.md` tells how to read it.\n\n\
             {table}\n## Every load\n\n{details}",
            rounds = self.rounds,
            details = table::write_details(&measured.samples),
        );
        fs::create_dir_all(&self.results)?;
        write(&self.results.join("table.md"), &text)?;
        write(&self.results.join("chart.svg"), &chart::draw(&rows, &machine))?;
        match self.results == self.bench.join("results") && !measured.builds.is_empty() {
            true => self.tell_readers(&format!("{machine}:\n\n{table}")),
            false => Ok(()),
        }
    }

    /// Puts the table, with everything that there is to measure, into the project's README, between two marks.
    fn tell_readers(&self, text: &str) -> Result<()> {
        let path = self.bench.join("../README.md");
        let readme = fs::read_to_string(&path)?;
        let parts = readme.split_once(BEFORE_TABLE).zip(readme.split_once(AFTER_TABLE));
        let ((before, _), (_, after)) = parts.ok_or_else(|| Failure::new("README.md has no place for the table"))?;
        write(&path, &format!("{before}{BEFORE_TABLE}\n{text}{AFTER_TABLE}{after}"))
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Failure::from(error).during(path.display()))?;
    eprintln!("written: {}", path.display());
    Ok(())
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
