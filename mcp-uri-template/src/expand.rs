//! Expands templates.

use crate::{
    part::{Operator, Part},
    percent::{encode, encode_reserved},
};

/// Expands a template. Omits variables without a value. If several values have the same name, uses the first.
pub fn expand<S: AsRef<str>, V: AsRef<[S]>>(parts: &[Part<S, V>], values: &[(&str, &str)]) -> String {
    let mut uri = String::new();
    for part in parts {
        match part {
            Part::Literal(text) => encode_reserved(text.as_ref(), &mut uri),
            Part::Expression { operator, variables } => expression(*operator, variables.as_ref(), values, &mut uri),
        }
    }
    uri
}

fn expression<S: AsRef<str>>(operator: Operator, variables: &[S], values: &[(&str, &str)], uri: &mut String) {
    let mut separator = operator.prefix();
    for variable in variables {
        let variable = variable.as_ref();
        let Some((_, value)) = values.iter().find(|(name, _)| *name == variable) else { continue };
        uri.push_str(separator);
        separator = operator.separator();
        if operator.is_named() {
            encode_reserved(variable, uri);
            // Only an empty path parameter is written without `=`.
            if !value.is_empty() || operator != Operator::PathParameter {
                uri.push('=');
            }
        }
        if operator.keeps_reserved() {
            encode_reserved(value, uri);
        } else {
            encode(value, uri);
        }
    }
}
