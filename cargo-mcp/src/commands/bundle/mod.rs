//! `cargo mcp bundle`: a server as one file, which desktop clients install.

mod archive;
mod contents;
mod manifest;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    commands::wait,
    failure::Failure,
    target::{Target, pair},
    workspace::{BuildArgs, Server, Workspace},
};

use contents::Contents;
use manifest::{Manifest, Setting};

const EXAMPLES: &str = "\
Examples:
  cargo mcp bundle                                  the server of this package, as `NAME.mcpb`
  cargo mcp bundle notes --icon icon.png --author 'Ada Lovelace'
  cargo mcp bundle notes --env 'NOTES_DB=Notes file' --default 'NOTES_DB=${HOME}/notes.db'
  cargo mcp bundle weather --env 'WEATHER_KEY=Your key of weather.example'

Where the server needs variables to start, set them: it is asked for its tools and prompts, in an
empty directory. What else a manifest can say stands in `[package.metadata.mcpb]` of Cargo.toml:
`display_name`, `long_description`, `privacy_policies`, `user_config.notes_db.type = \"file\"`.";

/// Make an .mcpb bundle of a server, for desktop clients
///
/// Builds the server in release, and writes a zip archive with the program and a manifest: what Cargo.toml says of the package,
/// the tools and prompts that the server has, and what its user is to be asked for. The same program gives the same bytes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("release", |release| release.hide(true)))]
pub(crate) struct Args {
    /// A package of this workspace; without it the only server here
    package: Option<String>,
    /// Where the bundle is written [default: NAME.mcpb]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A variable that the user is asked for when the bundle is installed, and what it is (may be repeated)
    #[arg(long, value_name = "NAME=DESCRIPTION", value_parser = description)]
    env: Vec<(String, String)>,
    /// What such a variable is if the user says nothing, so that it need not be said (may be repeated)
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    default: Vec<(String, String)>,
    /// Such a variable that is a secret, whatever it is called; those that look like one are anyway (may be repeated)
    #[arg(long, value_name = "NAME")]
    secret: Vec<String>,
    /// A picture in PNG, of 512 by 512 pixels at best
    #[arg(long, value_name = "FILE")]
    icon: Option<PathBuf>,
    /// Whose it is [default: the first of `authors` in Cargo.toml, or git's `user.name`]
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    /// How many seconds the server may take to tell its tools and prompts
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    connect_timeout: u64,
    #[command(flatten)]
    build: BuildArgs,
}

pub(crate) fn run(mut args: Args) -> Result<(), Failure> {
    args.build.release = true;
    let workspace = Workspace::read(&args.build)?;
    let server = workspace.server(args.package.as_deref(), args.build.bin.as_deref())?;
    // All that can be wrong with the words is said before minutes of building.
    let settings = Setting::all(&args.env, &args.default, &args.secret)?;
    let icon = args.icon.as_deref().map(icon).transpose()?;
    let mut manifest = Manifest::new(&server, settings, &args)?;
    let output = args.output.clone().unwrap_or_else(|| format!("{}.mcpb", server.package.name).into());
    let output = std::path::absolute(&output).unwrap_or(output);
    if output.is_dir() {
        return Err(Failure::usage(format_args!("`{}` is a directory", output.display()))
            .help(format_args!("name a file in it, such as `{}`", output.join(manifest.file_name()).display())));
    }

    anstream::eprintln!("building `{}` with optimisations", server.package.name);
    let program = workspace.build(&server, &args.build)?;
    let contents = ask(&server, &program, &manifest.defaults(), Duration::from_secs(args.connect_timeout))?;
    let summary = contents.to_string();
    manifest.offer(contents);
    let unreadable = |error| Failure::connection(format_args!("`{}` cannot be read: {error}", program.display()));
    let program = fs::read(&program).map_err(unreadable)?;
    let mut files = vec![
        archive::File {
            path: "manifest.json".to_owned(),
            mode: 0o644,
            content: manifest.to_json(&server.package.metadata["mcpb"]).into_bytes(),
        },
        archive::File { path: manifest.entry_point(), mode: 0o755, content: program },
    ];
    if let Some(icon) = icon {
        files.push(archive::File { path: manifest::ICON.to_owned(), mode: 0o644, content: icon });
    }
    let size = archive::write(&output, &files)
        .map_err(|error| Failure::usage(format_args!("`{}` cannot be written: {error}", output.display())))?;
    anstream::eprintln!("bundled `{}` with {summary}: {}", server.package.name, indicatif::HumanBytes(size));
    anstream::println!("{}", output.display());
    Ok(())
}

/// Starts the server as a client would, where there is nothing, and asks what it offers.
fn ask(server: &Server, program: &Path, env: &[(String, String)], patience: Duration) -> Result<Contents, Failure> {
    let mut env = env.to_vec();
    if std::env::var_os("RUST_LOG").is_none() && !env.iter().any(|(name, _)| name == "RUST_LOG") {
        // That it starts is of no interest here, what goes wrong is.
        env.push(("RUST_LOG".to_owned(), "warn".to_owned()));
    }
    let target =
        Target::Program { name: server.package.name.to_string(), program: program.to_owned(), args: Vec::new(), env };
    let nowhere = |error| Failure::connection(format_args!("there is no directory to start the server in: {error}"));
    let empty = std::env::temp_dir().join(format!("cargo-mcp-{}", std::process::id()));
    fs::create_dir_all(&empty).map_err(nowhere)?;
    let here = std::env::current_dir();
    std::env::set_current_dir(&empty).map_err(nowhere)?;
    let contents = wait(Contents::ask(&target, patience));
    if let Ok(here) = here {
        std::env::set_current_dir(here).map_err(nowhere)?;
    }
    let _ = fs::remove_dir_all(&empty);
    contents
}

fn icon(path: &Path) -> Result<Vec<u8>, Failure> {
    let content = fs::read(path)
        .map_err(|error| Failure::usage(format_args!("the icon `{}` cannot be read: {error}", path.display())))?;
    match content.starts_with(b"\x89PNG\r\n\x1a\n") {
        true => Ok(content),
        false => Err(Failure::usage(format_args!("the icon `{}` is no PNG", path.display()))
            .help("clients show pictures in PNG only, best of 512 by 512 pixels")),
    }
}

fn description(text: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    match text.split_once('=') {
        Some((name, what)) if is_name(name) && !what.trim().is_empty() => Ok((name.to_owned(), what.trim().to_owned())),
        Some((name, _)) if !is_name(name) => {
            Err(format!("`{name}` is no name of a variable: letters, digits and `_`, as in `API_KEY=Your key`"))
        }
        _ => {
            Err("expected NAME=DESCRIPTION, as in `API_KEY=Your key`: the user is to know what is asked for".to_owned())
        }
    }
}
