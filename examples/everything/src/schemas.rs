//! A tool with a schema that no Rust type can express: either a phone number or an e-mail address is required,
//! depending on another field.

use std::borrow::Cow;

use mcp_runtime::tool;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// A person and their contact details.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Contact {
    name: Option<String>,
    address: Option<Address>,
    contact_method: Option<Method>,
    phone: Option<String>,
    email: Option<String>,
}

#[derive(Deserialize)]
struct Address {
    street: Option<String>,
    city: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Method {
    Phone,
    Email,
}

/// A schema with `$schema` is a complete document: it is sent to clients unchanged, and the framework enforces it.
impl JsonSchema for Contact {
    fn schema_name() -> Cow<'static, str> {
        "Contact".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
                },
            },
            "properties": {
                "name": { "type": "string", "description": "The name of the person." },
                "address": { "$ref": "#/$defs/address" },
                "contactMethod": {
                    "type": "string",
                    "enum": ["phone", "email"],
                    "description": "The preferred way; by e-mail if absent.",
                },
                "phone": { "type": "string", "description": "The telephone number." },
                "email": { "type": "string", "description": "The e-mail address." },
            },
            "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
            "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
            "then": { "required": ["phone"] },
            "else": { "required": ["email"] },
            "additionalProperties": false,
        })
    }
}

/// Describe how to reach a person.
#[tool(read_only)]
fn json_schema_2020_12_tool(#[arg(flatten)] contact: Contact) -> String {
    let name = contact.name.as_deref().unwrap_or("The person");
    let place = contact.address.and_then(|address| address.city.or(address.street));
    let place = place.map(|place| format!(" from {place}")).unwrap_or_default();
    let details = match contact.contact_method {
        Some(Method::Phone) => contact.phone,
        Some(Method::Email) | None => contact.email,
    };
    format!("{name}{place} can be reached at {}.", details.unwrap_or_default())
}
