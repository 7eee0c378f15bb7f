//! Commands.

use std::sync::Arc;

use mcp_clap::__private::Program;
use mcp_runtime::{Context, function::ToolEntry};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::definition::{Arguments, with_defaults};

/// The number of processes of a tool that run at the same time. Further calls wait.
const MAX_PROCESSES: usize = 8;
/// The maximum number of bytes of stdout, and of stderr, in a result.
const OUTPUT_LIMIT: usize = 64 << 10;

/// Options after which a program takes everything as a value.
const ENDS_OF_OPTIONS: [&str; 2] = ["--", "--end-of-options"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Command {
    program: String,
    #[serde(default)]
    args: Vec<Group>,
}

/// Elements that are left out together.
#[derive(Deserialize)]
#[serde(untagged)]
enum Group {
    One(String),
    All(Vec<String>),
}

impl Group {
    fn elements(&self) -> &[String] {
        match self {
            Self::One(element) => std::slice::from_ref(element),
            Self::All(elements) => elements,
        }
    }
}

impl Command {
    pub(crate) fn tool(self, name: &str, arguments: Arguments) -> Result<ToolEntry, String> {
        let elements = || self.args.iter().flat_map(Group::elements);
        if let Some(element) = elements().find(|element| names(element).count() > 1) {
            return Err(format!("the element `{element}` of `args` names more than one argument"));
        }
        arguments.check_used(elements().flat_map(|element| names(element)))?;
        let defaults = arguments.defaults();
        let program = Arc::new(Program::new(self.program.into(), OUTPUT_LIMIT, MAX_PROCESSES));
        let groups = self.args;
        Ok(ToolEntry::new(name.to_owned(), arguments.schema(), move |given: Map<String, Value>, _: Context| {
            let (argv, program) = (argv(&groups, &with_defaults(&defaults, given)), Arc::clone(&program));
            async move { program.run(argv?).await }
        }))
    }
}

/// Returns the names in braces.
pub(crate) fn names(element: &str) -> impl Iterator<Item = &str> {
    element.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

/// Returns the command line of a call.
fn argv(groups: &[Group], arguments: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mut argv = Vec::new();
    for group in groups {
        let elements = group.elements();
        let is_given = |name| arguments.get(name).is_some_and(|value: &Value| !value.is_null());
        if !elements.iter().flat_map(|element| names(element)).all(is_given) {
            continue;
        }
        for element in elements {
            let Some(name) = names(element).next() else {
                argv.push(element.clone());
                continue;
            };
            let (before, after) = element.split_once(&format!("{{{name}}}")).unwrap_or((element, ""));
            let is_protected = !before.is_empty() || argv.iter().any(|it| ENDS_OF_OPTIONS.contains(&it.as_str()));
            let value = &arguments[name];
            for value in value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                if text.starts_with('-') && !is_protected {
                    return Err(format!("`{name}` must not begin with `-`"));
                }
                argv.push(format!("{before}{text}{after}"));
            }
        }
    }
    Ok(argv)
}
