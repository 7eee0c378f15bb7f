//! Arguments as JSON Schema.

use std::{
    any::TypeId,
    error::Error as _,
    num::{NonZero, ParseFloatError, ParseIntError},
};

use clap::{Arg, Command, builder::PossibleValue};
use serde_json::{Value, json};

use crate::arguments::ArgumentStyle;

/// Returns the schema of an argument.
pub(crate) fn property(arg: &Arg, style: &ArgumentStyle) -> Value {
    let mut schema = match style {
        ArgumentStyle::Flag => json!({"type": "boolean"}),
        ArgumentStyle::Count => json!({"type": "integer", "minimum": 0, "maximum": u8::MAX}),
        style if style.is_array() => json!({"type": "array", "items": value(arg)}),
        _ => value(arg),
    };
    let range = arg.get_num_args().unwrap_or_default();
    // Of an option that may occur several times, these limit one occurrence.
    if style.is_array() && range.max_values() > 1 && !matches!(arg.get_action(), clap::ArgAction::Append) {
        if range.min_values() > 1 {
            schema["minItems"] = range.min_values().into();
        }
        if range.max_values() < usize::MAX {
            schema["maxItems"] = range.max_values().into();
        }
    }
    if let Some(default) = default(arg, style, &schema) {
        schema["default"] = default;
    }
    let description = description(arg);
    if !description.is_empty() {
        schema["description"] = description.into();
    }
    schema
}

fn possible_values(arg: &Arg) -> impl Iterator<Item = PossibleValue> {
    arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set())
}

/// Returns the help, with the meaning of the possible values.
fn description(arg: &Arg) -> String {
    let mut text = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    for value in possible_values(arg) {
        if let Some(help) = value.get_help() {
            text.push_str(&format!("\n- `{}`: {help}", value.get_name()));
        }
    }
    text.trim().to_owned()
}

fn default(arg: &Arg, style: &ArgumentStyle, schema: &Value) -> Option<Value> {
    let flag = matches!(style, ArgumentStyle::Flag | ArgumentStyle::Count);
    if flag || arg.is_hide_default_value_set() || arg.get_default_values().is_empty() {
        return None;
    }
    let texts = arg.get_default_values().iter().map(|text| text.to_str()).collect::<Option<Vec<_>>>()?;
    let typed = |schema: &Value, text: &str| match schema["type"].as_str() {
        Some("string") => {
            schema["enum"].as_array().is_none_or(|names| names.iter().any(|name| name == text)).then(|| text.into())
        }
        _ => serde_json::from_str(text).ok(),
    };
    if !style.is_array() {
        return typed(schema, texts.first()?);
    }
    let values = texts.iter().flat_map(|text| match arg.get_value_delimiter() {
        Some(delimiter) => text.split(delimiter).collect(),
        None => vec![*text],
    });
    values.map(|text| typed(&schema["items"], text)).collect()
}

/// Returns the schema of one value.
fn value(arg: &Arg) -> Value {
    let parser = arg.get_value_parser().type_id();
    if parser == TypeId::of::<bool>() {
        return json!({"type": "boolean"});
    }
    let names: Vec<_> = possible_values(arg).map(|value| value.get_name().to_owned()).collect();
    if !names.is_empty() {
        return json!({"type": "string", "enum": names});
    }
    macro_rules! is_any {
        ($($type:ty)*) => { false $(|| parser == TypeId::of::<$type>())* };
    }
    if !is_any!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize f32 f64 NonZero<u8> NonZero<u16> NonZero<u32> NonZero<u64> NonZero<usize>)
    {
        return json!({"type": "string"});
    }
    // A parser of sizes or durations also returns a number.
    let units = ["1k", "1s"].map(|text| probe(arg, text));
    if units.iter().all(|error| {
        error.as_ref().and_then(|error| error.source()).is_some_and(|source| source.is::<ParseFloatError>())
    }) {
        return json!({"type": "number"});
    }
    if !units
        .iter()
        .all(|error| error.as_ref().and_then(|error| error.source()).is_some_and(|source| source.is::<ParseIntError>()))
    {
        return json!({"type": "string"});
    }
    let mut schema = json!({"type": "integer"});
    let extremes = [i64::MIN.into(), 0, i64::MAX.into(), i128::from(u64::MAX)];
    if let Some((minimum, maximum)) = extremes.iter().find_map(|number| range(&probe(arg, &number.to_string())?)) {
        if minimum != i64::MIN.into() {
            schema["minimum"] = json!(i64::try_from(minimum).unwrap_or(i64::MAX));
        }
        // A range without an end ends before the greatest number in clap's message.
        if maximum < i128::from(i64::MAX) - 1 {
            schema["maximum"] = json!(i64::try_from(maximum).unwrap_or(i64::MIN));
        }
    } else if !is_any!(i8 i16 i32 i64 isize) {
        schema["minimum"] = json!(u8::from(probe(arg, "0").is_some()));
    }
    schema
}

/// Returns the error of the argument's parser for a text.
fn probe(arg: &Arg, text: &str) -> Option<clap::Error> {
    let value = Arg::new("value").allow_hyphen_values(true).value_parser(arg.get_value_parser().clone());
    Command::new("probe").no_binary_name(true).disable_help_flag(true).arg(value).try_get_matches_from([text]).err()
}

/// Returns the range that an error names, with both ends included: clap has no other way to ask for it.
fn range(error: &clap::Error) -> Option<(i128, i128)> {
    let message = error.source()?.to_string();
    let (minimum, maximum) = message.rsplit_once(" is not in ")?.1.split_once("..")?;
    let excluded = i128::from(!maximum.starts_with('='));
    Some((minimum.parse().ok()?, maximum.trim_start_matches('=').parse::<i128>().ok()? - excluded))
}
