//! Commands.

use std::sync::Arc;

use mcp_process::Program;
use mcp_runtime::{Context, function::ToolEntry};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    arguments::{Arguments, names, with_defaults},
    mistake::Mistake,
};

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
    pub(crate) fn tool(self, name: &str, arguments: Arguments) -> Result<ToolEntry, Mistake> {
        let mut elements = Vec::new();
        for (index, group) in self.args.iter().enumerate() {
            for (inner, element) in group.elements().iter().enumerate() {
                let path = ["command", "args", &index.to_string(), &inner.to_string()].map(str::to_owned);
                elements.push((path.to_vec(), element, names(element).collect::<Vec<_>>()));
            }
        }
        if let Some((path, element, _)) = elements.iter().find(|(.., names)| names.len() > 1) {
            let message = format!("the element `{element}` of `args` names more than one argument");
            return Err(Mistake { path: path.clone(), message });
        }
        let texts: Vec<_> = elements.iter().map(|(path, _, names)| (path.clone(), names.clone())).collect();
        arguments.check_used(&texts)?;
        for (index, pair) in self.args.windows(2).enumerate() {
            let Some(option) = pair[0].elements().last() else { continue };
            let takes_value =
                option.starts_with('-') && !option.contains('=') && !ENDS_OF_OPTIONS.contains(&option.as_str());
            // A group is left out if any of its arguments is absent.
            let mut next = pair[1].elements().iter();
            let absent = next.find(|element| names(element).any(|name| arguments.may_be_absent(name)));
            if let Some(absent) = absent.filter(|_| takes_value) {
                let last = pair[0].elements().len() - 1;
                let list = [std::slice::from_ref(option), pair[1].elements()].concat();
                let message = format!("`{option}` would remain without `{absent}`: write both in a list, `{list:?}`");
                return Err(Mistake::at(&["command", "args", &index.to_string(), &last.to_string()], message));
            }
        }
        let defaults = arguments.defaults();
        let program = Arc::new(Program::new(self.program.into(), OUTPUT_LIMIT, MAX_PROCESSES));
        let groups = self.args;
        Ok(ToolEntry::new(name.to_owned(), arguments.schema(), move |given: Map<String, Value>, ctx: Context| {
            let (argv, program) = (argv(&groups, &with_defaults(&defaults, given)), Arc::clone(&program));
            async move { program.run(argv?, &ctx).await }
        }))
    }
}

/// Returns the command line of a call.
fn argv(groups: &[Group], arguments: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mut argv = Vec::new();
    for group in groups {
        let elements = group.elements();
        let values: Vec<_> =
            elements.iter().flat_map(|element| names(element)).map(|name| values(arguments, name)).collect();
        if values.iter().any(|values| values.is_empty()) {
            continue;
        }
        let mut lists = values.iter().filter(|values| values.len() != 1);
        let times = lists.next().map_or(1, |values| values.len());
        if lists.next().is_some() {
            return Err("only one argument of a group can be a list".to_owned());
        }
        for index in 0..times {
            for element in elements {
                argv.push(filled(element, index, arguments, &argv)?);
            }
        }
    }
    Ok(argv)
}

/// Returns the values of an argument: the items of a list, and none if it was not given.
fn values<'a>(arguments: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    match arguments.get(name) {
        None | Some(Value::Null) => &[],
        Some(Value::Array(items)) => items,
        Some(value) => std::slice::from_ref(value),
    }
}

/// Returns an element with a value in place of the name in braces. `before` is the command line so far.
fn filled(element: &str, index: usize, arguments: &Map<String, Value>, before: &[String]) -> Result<String, String> {
    let Some(name) = names(element).next() else { return Ok(element.to_owned()) };
    let values = values(arguments, name);
    let value = values.get(index).or(values.first()).unwrap_or(&Value::Null);
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (start, end) = element.split_once(&format!("{{{name}}}")).unwrap_or((element, ""));
    let is_protected = !start.is_empty() || before.iter().any(|it| ENDS_OF_OPTIONS.contains(&it.as_str()));
    if text.starts_with('-') && !is_protected {
        return Err(format!("`{name}` must not begin with `-`"));
    }
    Ok(format!("{start}{text}{end}"))
}
