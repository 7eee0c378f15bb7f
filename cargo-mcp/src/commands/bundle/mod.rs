//! `cargo mcp bundle`: packs a server into one file that desktop clients install.

mod archive;
mod args;
mod manifest;

use std::{fs, path::Path, time::Duration};

use crate::{
    failure::Failure,
    output::{errln, outln},
    target::Target,
    temporary,
    workspace::{Server, Workspace},
};

use manifest::{Contents, Manifest};

use args::Setting;

pub(crate) use args::Args;

pub(crate) async fn run(mut args: Args) -> Result<(), Failure> {
    args.build.release = true;
    let workspace = Workspace::read(&args.build)?;
    let server = workspace.server(args.package.as_deref(), args.build.bin.as_deref())?;
    // Validate everything before a build that may take minutes.
    let settings = Setting::all(&args.env, &args.default, &args.secret)?;
    let icon = args.icon.as_deref().map(read_icon).transpose()?;
    let mut manifest = Manifest::new(&server, settings, &args)?;
    let file_name = format!("{}.mcpb", server.package.name);
    let output = args.output.clone().unwrap_or_else(|| (&file_name).into());
    let output = std::path::absolute(&output).unwrap_or(output);
    if output.is_dir() {
        return Err(Failure::usage(format_args!("`{}` is a directory", output.display()))
            .help(format_args!("specify a file in it, such as `{}`", output.join(file_name).display())));
    }

    errln!("building `{}` in release mode", server.package.name);
    let program = workspace.build(&server, &args.build)?;
    let contents = ask(&server, &program, manifest.defaults(), Duration::from_secs(args.connect_timeout)).await?;
    let summary = contents.to_string();
    manifest.add_contents(contents);
    let unreadable = |error| Failure::connection(format_args!("cannot read `{}`: {error}", program.display()));
    let program = fs::read(&program).map_err(unreadable)?;
    let entry_point = manifest.entry_point.clone();
    let mut files = vec![
        archive::ArchiveFile {
            path: "manifest.json".to_owned(),
            mode: 0o644,
            content: manifest.into_json(&server.package.metadata["mcpb"]).into_bytes(),
        },
        archive::ArchiveFile { path: entry_point, mode: 0o755, content: program },
    ];
    if let Some(icon) = icon {
        files.push(archive::ArchiveFile { path: manifest::ICON.to_owned(), mode: 0o644, content: icon });
    }
    let size = archive::write(&output, &files)
        .map_err(|error| Failure::usage(format_args!("cannot write `{}`: {error}", output.display())))?;
    errln!("bundled `{}` with {summary}: {}", server.package.name, indicatif::HumanBytes(size));
    outln!("{}", output.display());
    Ok(())
}

/// Starts the server in an empty directory, as a client would, and requests its tools and prompts.
async fn ask(
    server: &Server,
    program: &Path,
    env: Vec<(String, String)>,
    timeout: Duration,
) -> Result<Contents, Failure> {
    let (name, program) = (server.package.name.to_string(), program.to_owned());
    let target = Target::Program { name, program, args: Vec::new(), env };
    let failed = |error| Failure::connection(format_args!("cannot create a directory to start the server in: {error}"));
    let empty = temporary::private_directory_in(&std::env::temp_dir(), "cargo-mcp-").map_err(failed)?;
    let here = std::env::current_dir();
    std::env::set_current_dir(&empty).map_err(failed)?;
    let contents = Contents::ask(&target, timeout).await;
    if let Ok(here) = here {
        std::env::set_current_dir(here).map_err(failed)?;
    }
    contents
}

fn read_icon(path: &Path) -> Result<Vec<u8>, Failure> {
    let content = fs::read(path)
        .map_err(|error| Failure::usage(format_args!("cannot read the icon `{}`: {error}", path.display())))?;
    if !content.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Err(Failure::usage(format_args!("the icon `{}` is not a PNG image", path.display()))
            .help("clients support only PNG, ideally 512 by 512 pixels"));
    }
    Ok(content)
}
