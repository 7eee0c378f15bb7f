//! The arguments of a call as words of a command line.

use clap::{Arg, ArgAction, Command};
use serde_json::{Map, Value};

/// An argument as a property of the schema.
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) arg: Arg,
    pub(crate) style: ArgumentStyle,
}

/// A command on the way to the one that a tool calls.
pub(crate) struct CommandArguments {
    /// The word that selects the command; `None` for the program.
    pub(crate) name: Option<String>,
    /// Options first, then positional arguments in their order.
    pub(crate) properties: Vec<Property>,
    /// Whether all positional arguments may follow `--`.
    pub(crate) escapes: bool,
}

/// How the value of a property becomes words.
#[derive(Debug)]
pub(crate) enum ArgumentStyle {
    /// `--name` if the value is `true`.
    Flag,
    /// `--name` as often as the value says.
    Count,
    /// `--name=value`.
    Value,
    /// `--name=value` for each value.
    Each,
    /// `--name=a,b`.
    Joined(char),
    /// `--name a b`, once for each occurrence.
    Words,
    /// A positional argument, with one value or several.
    Positional { many: bool },
}

impl ArgumentStyle {
    /// Returns the style of an argument, or `None` if values could be taken for something else. `is_parent` means that a subcommand follows.
    pub(crate) fn of(arg: &Arg, command: &Command, is_parent: bool) -> Option<Self> {
        let range = arg.get_num_args().unwrap_or_default();
        let appends = matches!(arg.get_action(), ArgAction::Append);
        let many = appends || range.max_values() > 1 || arg.get_value_delimiter().is_some();
        if arg.is_positional() {
            // Before `--`, a value could be the name of a subcommand.
            let separate = escapes(command) || arg.is_last_set() || !command.has_subcommands();
            return (!is_parent && separate).then_some(Self::Positional { many });
        }
        let unescaped = !escapes(command) && command.get_positionals().any(|arg| !arg.is_last_set());
        if matches!(arg.get_action(), ArgAction::Count) {
            return Some(Self::Count);
        }
        if !range.takes_values() {
            return Some(Self::Flag);
        }
        // clap takes `-n=value` for a positional argument that may begin with `-`.
        let takes = |arg: &Arg| arg.is_allow_hyphen_values_set() && !arg.is_last_set();
        let attached = arg.get_long().is_some() || !command.get_positionals().any(takes);
        if !many {
            return attached.then_some(Self::Value);
        }
        // A command such as `--exec ls -l ;`, whose words belong together.
        let ends = arg.get_value_terminator().is_some();
        if appends && range.min_values() <= 1 && !ends {
            return attached.then_some(Self::Each);
        }
        if let Some(delimiter) = arg.get_value_delimiter() {
            return attached.then_some(Self::Joined(delimiter));
        }
        let fixed = range.min_values() == range.max_values();
        let bounded = fixed || ends || !(is_parent || unescaped || arg.is_allow_hyphen_values_set());
        let separate = !(arg.is_require_equals_set() || command.is_subcommand_precedence_over_arg_set());
        (bounded && separate).then_some(Self::Words)
    }

    pub(crate) fn is_array(&self) -> bool {
        matches!(self, Self::Each | Self::Joined(_) | Self::Words | Self::Positional { many: true })
    }
}

/// Whether `--` may precede all positional arguments. Otherwise, clap continues after it with the last of them, or with the one that
/// follows the argument that `--` ends.
pub(crate) fn escapes(command: &Command) -> bool {
    let moves = |arg: &Arg| arg.is_last_set() || arg.get_value_terminator().is_some_and(|end| end == "--");
    !command.is_allow_missing_positional_set() && !command.get_positionals().any(moves)
}

/// Returns the command line of a call, without the program.
pub(crate) fn argv(levels: &[CommandArguments], arguments: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mut argv = Vec::new();
    for level in levels {
        argv.extend(level.name.clone());
        let (mut missing, mut escaped) = (None, false);
        for property in &level.properties {
            let (name, arg) = (&property.name, &property.arg);
            let Some(value) = arguments.get(name).filter(|value| !value.is_null()) else {
                missing = missing.or(arg.is_positional().then_some(name));
                continue;
            };
            let values = texts(name, value)?;
            if let Some((delimiter, value)) = arg
                .get_value_delimiter()
                .and_then(|delimiter| Some((delimiter, values.iter().find(|value| value.contains(delimiter))?)))
            {
                return Err(format!("`{name}`: {value:?} contains `{delimiter}`, which separates values"));
            }
            let range = arg.get_num_args().unwrap_or_default();
            let appends = matches!(arg.get_action(), ArgAction::Append);
            let option = || match (arg.get_long(), arg.get_short()) {
                (Some(long), _) => format!("--{long}"),
                (None, short) => format!("-{}", short.unwrap_or_default()),
            };
            match property.style {
                ArgumentStyle::Flag => argv.extend((value == true).then(option)),
                ArgumentStyle::Count => {
                    // The schema limits it.
                    let count = values.first().and_then(|count| count.parse::<u64>().ok()).unwrap_or_default();
                    argv.extend((0..count).map(|_| option()));
                }
                ArgumentStyle::Value | ArgumentStyle::Each => {
                    argv.extend(values.iter().map(|value| format!("{}={value}", option())))
                }
                ArgumentStyle::Joined(_) if values.is_empty() => {}
                ArgumentStyle::Joined(delimiter) => {
                    argv.push(format!("{}={}", option(), values.join(&delimiter.to_string())));
                }
                ArgumentStyle::Words => {
                    for values in values.chunks(range.max_values()) {
                        // With fewer values, clap would take the next word for one.
                        if !(range.min_values()..=range.max_values()).contains(&values.len()) {
                            let expected = match (range.min_values(), range.max_values()) {
                                (minimum, usize::MAX) => format!("at least {minimum}"),
                                (minimum, maximum) if minimum == maximum => minimum.to_string(),
                                (minimum, maximum) => format!("{minimum} to {maximum}"),
                            };
                            let found = values.len();
                            return Err(format!(
                                "`{name}`: expected {expected} values for each occurrence, found {found}"
                            ));
                        }
                        argv.push(option());
                        push_values(arg, name, values, arg.is_allow_hyphen_values_set(), &mut argv)?;
                        let end = arg.get_value_terminator().filter(|_| values.len() < range.max_values());
                        argv.extend(end.map(ToString::to_string));
                    }
                }
                ArgumentStyle::Positional { .. } if values.is_empty() => missing = missing.or(Some(name)),
                ArgumentStyle::Positional { .. } => {
                    if let Some(missing) = missing.filter(|_| !arg.is_last_set()) {
                        return Err(format!("`{name}` can only be given together with `{missing}`"));
                    }
                    if !escaped && (level.escapes || arg.is_last_set()) {
                        argv.push("--".to_owned());
                        escaped = true;
                    }
                    let several = appends || range.max_values() > 1;
                    let end = arg.get_value_terminator().filter(|_| several).map(ToString::to_string);
                    if escaped && arg.get_value_terminator().is_none() {
                        argv.extend(values);
                    } else {
                        push_values(arg, name, &values, escaped, &mut argv)?;
                    }
                    escaped |= end.as_deref() == Some("--");
                    argv.extend(end);
                }
            }
        }
    }
    Ok(argv)
}

/// Adds values as words of their own, if none of them could be taken for an option or for the end of the values.
fn push_values(arg: &Arg, name: &str, values: &[String], hyphens: bool, argv: &mut Vec<String>) -> Result<(), String> {
    let end = arg.get_value_terminator().map(ToString::to_string);
    for value in values {
        if !hyphens && value.len() > 1 && value.starts_with('-') {
            return Err(format!(
                "`{name}`: {value:?} begins with `-`, which is not possible in a value of this argument"
            ));
        }
        if end.as_ref() == Some(value) {
            return Err(format!("`{name}`: {value:?} ends the values of this argument, and cannot be one"));
        }
    }
    argv.extend_from_slice(values);
    Ok(())
}

/// Returns the values of an argument as text.
fn texts(name: &str, value: &Value) -> Result<Vec<String>, String> {
    let text = |value: &Value| match value {
        Value::String(text) if text.contains('\0') => Err(format!("`{name}` contains a NUL character")),
        Value::String(text) => Ok(text.clone()),
        // 2.0 is an integer in JSON Schema, and not in Rust.
        #[allow(clippy::cast_possible_truncation)]
        Value::Number(number) => Ok(match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) if float.fract() == 0.0 && float.abs() < 1e20 => (float as i128).to_string(),
            _ => number.to_string(),
        }),
        value => Ok(value.to_string()),
    };
    match value {
        Value::Array(values) => values.iter().map(text).collect(),
        value => Ok(vec![text(value)?]),
    }
}
