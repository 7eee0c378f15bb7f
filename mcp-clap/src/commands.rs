//! The commands of a program as tools.

use std::{collections::HashSet, sync::Arc};

use clap::{Arg, ArgAction, Command};
use mcp_process::Program;
use mcp_runtime::{Context, function::ToolEntry};
use serde_json::{Map, Value, json};

use crate::{
    arguments::{ArgumentStyle, CommandArguments, Property, argv, escapes},
    schema,
};

type Configure = dyn Fn(ToolEntry, &Command) -> Option<ToolEntry> + Send;

/// Returns the tools of a program.
#[track_caller]
pub(crate) fn tools(command: Command, program: &Arc<Program>, configure: &Configure) -> Vec<ToolEntry> {
    let name = command.get_name().to_owned();
    let mut command =
        command.bin_name(name).disable_help_subcommand(true).disable_help_flag(true).disable_version_flag(true);
    command.build();
    let mut found = Vec::new();
    runnable_commands(&mut vec![&command], &mut found);
    let mut names = HashSet::new();
    let mut tools = Vec::new();
    for path in &found {
        let words: Vec<_> = path.iter().skip(usize::from(path.len() > 1)).map(|command| command.get_name()).collect();
        tools.extend(tool(unique(&words.join("_"), &mut names), path, program, configure));
    }
    tools
}

/// Collects the commands that can run, each with the commands above it.
fn runnable_commands<'a>(path: &mut Vec<&'a Command>, found: &mut Vec<Vec<&'a Command>>) {
    let Some(command) = path.last().copied() else { return };
    if !command.has_subcommands() || !(command.is_subcommand_required_set() || command.is_arg_required_else_help_set())
    {
        found.push(path.clone());
    }
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        path.push(subcommand);
        runnable_commands(path, found);
        path.pop();
    }
}

#[track_caller]
fn tool(name: String, path: &[&Command], program: &Arc<Program>, configure: &Configure) -> Option<ToolEntry> {
    let command = *path.last()?;
    let mut names = HashSet::new();
    let levels: Vec<_> = path
        .iter()
        .enumerate()
        .map(|(depth, command)| command_arguments(command, depth, path.len() - 1, &mut names))
        .collect();
    if let Some(missing) = unavailable(path, &levels) {
        let command = command.get_bin_name().unwrap_or_default();
        tracing::warn!(command, argument = missing, "no tool: a required argument cannot be passed by a tool");
        return None;
    }
    let properties = || levels.iter().flat_map(|level| &level.properties);
    let required: Vec<_> = path
        .iter()
        .zip(&levels)
        .enumerate()
        .filter(|(depth, (command, _))| depth + 1 == path.len() || !command.is_subcommand_negates_reqs_set())
        .flat_map(|(_, (_, level))| &level.properties)
        .filter(|property| is_required(&property.arg))
        .map(|property| property.name.clone())
        .collect();
    let schemas: Map<String, Value> = properties()
        .map(|property| (property.name.clone(), schema::property(&property.arg, &property.style)))
        .collect();
    let mut schema = json!({"type": "object", "properties": schemas});
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema["additionalProperties"] = false.into();
    let program = Arc::clone(program);
    let entry = ToolEntry::new(name, schema, move |arguments: Map<String, Value>, ctx: Context| {
        let (argv, program) = (argv(&levels, &arguments), Arc::clone(&program));
        async move { program.run(argv?, &ctx).await }
    });
    let about = command.get_long_about().or_else(|| command.get_about());
    configure(entry.description(about.map(ToString::to_string).unwrap_or_default()), command)
}

fn is_required(arg: &Arg) -> bool {
    arg.is_required_set() && arg.get_env().is_none()
}

/// Returns a required argument that is not a property, so that no call could succeed.
fn unavailable<'a>(path: &[&'a Command], levels: &[CommandArguments]) -> Option<&'a str> {
    let is_property = |arg: &Arg| {
        levels.iter().flat_map(|level| &level.properties).any(|property| property.arg.get_id() == arg.get_id())
    };
    path.iter()
        .enumerate()
        .filter(|(depth, command)| depth + 1 == path.len() || !command.is_subcommand_negates_reqs_set())
        .flat_map(|(_, command)| command.get_arguments())
        .find(|arg| is_required(arg) && !is_property(arg))
        .map(|arg| arg.get_id().as_str())
}

fn command_arguments(command: &Command, depth: usize, last: usize, names: &mut HashSet<String>) -> CommandArguments {
    let is_parent = depth < last;
    let mut args: Vec<_> = command
        .get_arguments()
        // Arguments of a command above are not accepted there, and global ones are below, too.
        .filter(|arg| !is_parent || !(arg.is_global_set() || command.is_args_conflicts_with_subcommands_set()))
        .filter(|arg| {
            arg.is_required_set()
                || !(arg.is_hide_set() || (arg.is_hide_short_help_set() && arg.is_hide_long_help_set()))
        })
        .filter(|arg| {
            !matches!(
                arg.get_action(),
                ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
            )
        })
        .filter_map(|arg| Some((arg, ArgumentStyle::of(arg, command, is_parent)?)))
        .collect();
    args.sort_by_key(|(arg, _)| arg.get_index());
    let properties = args.into_iter().map(|(arg, style)| {
        let name = unique(arg.get_long().unwrap_or(arg.get_id().as_str()), names);
        Property { name, arg: arg.clone(), style }
    });
    CommandArguments {
        name: (depth > 0).then(|| command.get_name().to_owned()),
        properties: properties.collect(),
        escapes: escapes(command),
    }
}

/// Returns a name that clients accept, and that is not taken yet.
fn unique(name: &str, names: &mut HashSet<String>) -> String {
    let name = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut candidates = std::iter::once(name.clone()).chain(numbered);
    candidates.find(|candidate| names.insert(candidate.clone())).unwrap_or(name)
}
