//! Arguments as a request.

use std::{
    hash::{BuildHasher as _, RandomState},
    mem,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::Full;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::{
    operation::{Body, BodyKind, Description, Parameter, Place, Style},
    style::{encode, encode_reserved, pairs, simple, text},
};

/// The number of times that a service may decode a path before it resolves `..`.
const MAX_DECODES: usize = 5;

/// A secret, and the place where it belongs.
pub(crate) struct Secret<'a> {
    pub(crate) place: Place,
    pub(crate) name: &'a str,
    pub(crate) value: String,
}

/// Returns the request of a call.
///
/// # Errors
///
/// Returns which argument cannot be sent, for the model.
pub(crate) fn build(
    operation: &Description,
    base: &str,
    headers: &HeaderMap,
    secrets: Vec<Secret<'_>>,
    arguments: &Map<String, Value>,
) -> Result<Request<Full<Bytes>>, String> {
    let mut headers = headers.clone();
    let mut query = Vec::new();
    let mut cookies = Vec::new();
    let path = path(operation, arguments)?;
    for parameter in &operation.parameters {
        let Some(value) = arguments.get(&parameter.argument).filter(|value| !value.is_null()) else { continue };
        let json = parameter.json.then(|| Value::from(value.to_string()));
        let value = json.as_ref().unwrap_or(value);
        let Parameter { name, style, explode, .. } = parameter;
        match parameter.place {
            Place::Path => {}
            Place::Query => {
                let encode_value = if parameter.reserved { encode_reserved } else { encode };
                let first = query.len();
                pairs(&mut query, name, value, *style, *explode, encode_value)?;
                check_names(operation, parameter, &query[first..])?;
            }
            Place::Cookie => {
                let first = cookies.len();
                pairs(&mut cookies, name, value, *style, *explode, encode)?;
                check_names(operation, parameter, &cookies[first..])?;
            }
            Place::Header => {
                let text = simple(name, value, *style, *explode, str::to_owned);
                headers.insert(header_name(name)?, header_value(&parameter.argument, &text)?);
            }
        }
    }
    let (media, body) = match &operation.body {
        Some(body) => body_of(body, arguments)?,
        None => (None, Bytes::new()),
    };
    if let Some(media) = media {
        headers.insert(header::CONTENT_TYPE, header_value("the media type", &media)?);
    }
    // Some services reject such a request without its length (411).
    if body.is_empty() && ["POST", "PUT", "PATCH"].contains(&&*operation.method.to_ascii_uppercase()) {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    headers.entry(header::ACCEPT).or_insert(header_value("the media types", &operation.accept)?);
    for Secret { place, name, value } in secrets {
        match place {
            Place::Query | Place::Path => query.push((encode(name), encode(&value))),
            Place::Cookie => cookies.push((encode(name), encode(&value))),
            Place::Header => {
                let mut value = header_value("the credential", &value)?;
                value.set_sensitive(true);
                headers.insert(header_name(name)?, value);
            }
        }
    }
    if !cookies.is_empty() {
        let cookies = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ");
        headers.insert(header::COOKIE, header_value("the cookies", &cookies)?);
    }
    let mut url = format!("{base}{path}");
    let mut separator = if url.contains('?') { '&' } else { '?' };
    for (name, value) in query {
        url.push(separator);
        url.push_str(&format!("{name}={value}"));
        separator = '&';
    }
    let mut request = Request::new(Full::new(body));
    *request.uri_mut() = url.parse::<Uri>().map_err(|error| format!("the arguments do not fit into a URL: {error}"))?;
    *request.method_mut() = operation.method.parse::<Method>().map_err(|_| "the method cannot be sent".to_owned())?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// Checks that no member of an argument becomes another parameter, such as a value that the program sets, or a credential.
fn check_names(operation: &Description, own: &Parameter, pairs: &[(String, String)]) -> Result<(), String> {
    let parameters = operation.parameters.iter().map(|other| (other.place, &other.name));
    let credentials = operation.security.iter().flatten().map(|other| (other.place, &other.name));
    let others = parameters.chain(credentials).filter(|(place, name)| *place == own.place && **name != own.name);
    for (name, _) in pairs {
        let name = percent_decode_str(name).decode_utf8_lossy();
        // Some services read `a[]` as `a`.
        let read = [as_php(&name), as_php(name.split('[').next().unwrap_or_default())];
        if name != own.name && others.clone().any(|(_, other)| read.contains(&as_php(other))) {
            return Err(format!("`{}` must not have the member `{name}`, which is another parameter", own.argument));
        }
    }
    Ok(())
}

/// Returns a name as PHP reads it, without leading spaces, with `_` for spaces and dots, and up to a zero byte. Some services ignore case.
fn as_php(name: &str) -> String {
    let name = name.split('\0').next().unwrap_or_default();
    name.trim_start().replace([' ', '.', '['], "_").to_ascii_lowercase()
}

/// Fills the template. No argument adds or removes a segment.
fn path(operation: &Description, arguments: &Map<String, Value>) -> Result<String, String> {
    let mut segments = Vec::new();
    for segment in operation.path.split('/') {
        let mut filled = String::new();
        let mut rest = segment;
        let mut last = None;
        while let Some((literal, tail)) = rest.split_once('{') {
            let (name, after) = tail.split_once('}').unwrap_or((tail, ""));
            filled.push_str(literal);
            let parameter = operation.parameters.iter().find(|it| it.place == Place::Path && it.name == name);
            if let Some(parameter) = parameter {
                let value = arguments.get(&parameter.argument).unwrap_or(&Value::Null);
                let json = parameter.json.then(|| Value::from(value.to_string()));
                let value = json.as_ref().unwrap_or(value);
                let text = simple(name, value, parameter.style, parameter.explode, encode);
                if text.is_empty() || value.is_null() {
                    return Err(format!("`{}` must not be empty, since it is a part of the path", parameter.argument));
                }
                filled.push_str(&text);
                last = Some(&parameter.argument);
            }
            rest = after;
        }
        filled.push_str(rest);
        if let Some(argument) = last
            && leads_elsewhere(&filled)
        {
            return Err(format!("`{argument}` must not lead to another path"));
        }
        segments.push(filled);
    }
    Ok(segments.join("/"))
}

/// Returns whether a service could resolve a segment to another path. Some decode it before, more than once, and ignore the
/// rest of a part from `;` on.
fn leads_elsewhere(segment: &str) -> bool {
    let decoded = (0..MAX_DECODES)
        .fold(segment.to_owned(), |segment, _| percent_decode_str(&segment).decode_utf8_lossy().into_owned());
    let mut parts = decoded.split(['/', '\\']).map(|part| part.split(';').next().unwrap_or_default());
    parts.any(|part| part == "." || part == "..")
}

fn header_name(name: &str) -> Result<HeaderName, String> {
    name.parse().map_err(|_| format!("`{name}` cannot be the name of a header"))
}

fn header_value(argument: &str, text: &str) -> Result<HeaderValue, String> {
    let error = |_| format!("`{argument}` contains characters that cannot be sent in a header");
    HeaderValue::from_str(text).map_err(error)
}

fn body_of(body: &Body, arguments: &Map<String, Value>) -> Result<(Option<String>, Bytes), String> {
    // The fields, and the name of the argument that each comes from.
    let mut whole = None;
    let mut fields = Vec::new();
    if let Some(argument) = &body.argument {
        let Some(value) = arguments.get(argument).filter(|value| body.required || !value.is_null()) else {
            return Ok((None, Bytes::new()));
        };
        whole = Some((argument.as_str(), value));
    } else {
        let given = body.fields.iter().filter_map(|field| Some((field, arguments.get(&field.argument)?)));
        fields.extend(given);
        if fields.is_empty() && !body.required {
            return Ok((None, Bytes::new()));
        }
    }
    let bytes = match body.kind {
        BodyKind::Json => {
            let members = || fields.iter().map(|(field, value)| (field.name.clone(), (*value).clone())).collect();
            whole.map_or_else(|| Value::Object(members()).to_string(), |(_, value)| value.to_string()).into()
        }
        BodyKind::Text => whole.map_or_else(Bytes::new, |(_, value)| text(value).into_owned().into()),
        BodyKind::Bytes => match whole {
            Some((argument, value)) => decode(argument, value)?.into(),
            None => Bytes::new(),
        },
        BodyKind::Form => {
            let mut form = Vec::new();
            for (field, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                pairs(&mut form, &field.name, value, field.style, field.explode, encode)?;
            }
            for (name, value) in whole.and_then(|(_, value)| value.as_object()).into_iter().flatten() {
                pairs(&mut form, name, value, Style::Form, true, encode)?;
            }
            form.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&").into()
        }
        BodyKind::Multipart => {
            let mut multipart = Multipart::new();
            for (field, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                for value in items(value) {
                    let name = field.file.then_some(&*field.argument);
                    multipart.add(&field.name, value, name, field.media.as_deref())?;
                }
            }
            for (name, value) in whole.and_then(|(_, value)| value.as_object()).into_iter().flatten() {
                for value in items(value) {
                    multipart.add(name, value, None, None)?;
                }
            }
            return Ok(multipart.finish());
        }
    };
    Ok((Some(body.media.clone()), bytes))
}

/// Each item of an array is a part of its own.
fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice).iter()
}

fn decode(argument: &str, value: &Value) -> Result<Vec<u8>, String> {
    BASE64_STANDARD.decode(text(value).as_bytes()).map_err(|error| format!("`{argument}` is not base64: {error}"))
}

struct Multipart {
    boundary: String,
    body: Vec<u8>,
}

impl Multipart {
    /// Chooses a boundary that no argument can contain, since it is random.
    fn new() -> Self {
        let random = || RandomState::new().hash_one(0);
        Self { boundary: format!("{:016x}{:016x}", random(), random()), body: Vec::new() }
    }

    /// Adds a part. `file` is the argument of a file.
    fn add(&mut self, name: &str, value: &Value, file: Option<&str>, media: Option<&str>) -> Result<(), String> {
        let escape = |name: &str| name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
        let name = escape(name);
        let (suffix, default, bytes) = match file {
            Some(argument) => {
                let bytes = decode(argument, value)?;
                (format!("; filename=\"{name}\""), Some("application/octet-stream"), bytes)
            }
            None => {
                let json = (value.is_object() || value.is_array()).then_some("application/json");
                (String::new(), json, text(value).into_owned().into_bytes())
            }
        };
        // A list of media types, or a range, is no media type.
        let media = media.filter(|media| !media.contains([',', '*', '\r', '\n'])).or(default);
        let media = media.map_or_else(String::new, |media| format!("content-type: {media}\r\n"));
        let head =
            format!("--{}\r\ncontent-disposition: form-data; name=\"{name}\"{suffix}\r\n{media}\r\n", self.boundary);
        self.body.extend_from_slice(head.as_bytes());
        self.body.extend_from_slice(&bytes);
        self.body.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn finish(mut self) -> (Option<String>, Bytes) {
        self.body.extend_from_slice(format!("--{}--\r\n", self.boundary).as_bytes());
        let media = format!("multipart/form-data; boundary={}", self.boundary);
        (Some(media), mem::take(&mut self.body).into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A model chooses the names of the parts of a body without a schema.
    #[test]
    fn names_of_parts_end_no_line_and_each_item_is_a_part() {
        let body = json!({"kind": "multipart", "media": "multipart/form-data", "required": true, "argument": "body"});
        let body: Body = serde_json::from_value(body).unwrap();
        let arguments = json!({"body": {"a\"\r\nx: y": "v", "list": ["w", "x"]}});
        let (_, bytes) = body_of(&body, arguments.as_object().unwrap()).unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(text.contains("name=\"a%22%0D%0Ax: y\"\r\n\r\nv\r\n"), "{text}");
        for item in ["w", "x"] {
            assert!(text.contains(&format!("name=\"list\"\r\n\r\n{item}\r\n")), "{text}");
        }
    }
}
