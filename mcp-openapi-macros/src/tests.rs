//! Mistakes in documents, and the names of tools.

use std::{fs, path::Path};

use proc_macro2::{Literal, TokenStream};
use quote::quote;
use serde_json::{Value, json};

use crate::expand;

/// Returns the errors of an import, or the names of the tools.
fn import(folder: &Path, options: &TokenStream) -> Vec<String> {
    let file = Literal::string(folder.join("api.yaml").to_str().unwrap());
    let expanded = expand(syn::parse2(quote!(library, #file #options)).unwrap()).to_string();
    let parsed: TokenStream = expanded.parse().unwrap();
    let mut literals = Vec::new();
    collect(parsed, &mut literals);
    let errors: Vec<_> = literals.iter().filter(|(is_error, _)| *is_error).map(|(_, text)| text.clone()).collect();
    if !errors.is_empty() {
        return errors;
    }
    assert!(expanded.contains("include_bytes"), "a change of the document does not compile the program again");
    let operations = literals.iter().filter_map(|(_, text)| serde_json::from_str::<Value>(text).ok());
    operations.map(|operation| operation["name"].as_str().unwrap().to_owned()).collect()
}

/// Collects the literals, with whether they are arguments of `compile_error!`.
fn collect(tokens: TokenStream, found: &mut Vec<(bool, String)>) {
    let mut is_error = false;
    for token in tokens {
        match token {
            proc_macro2::TokenTree::Ident(name) => is_error = name == "compile_error",
            proc_macro2::TokenTree::Group(group) => {
                let first = found.len();
                collect(group.stream(), found);
                found[first..].iter_mut().for_each(|(error, _)| *error |= is_error);
                is_error = false;
            }
            proc_macro2::TokenTree::Literal(literal) => {
                let text = syn::parse_str::<syn::LitStr>(&literal.to_string()).unwrap().value();
                found.push((false, text));
            }
            proc_macro2::TokenTree::Punct(_) => {}
        }
    }
}

#[test]
fn mistakes_have_positions() {
    let get = |operation: &str| format!("openapi: 3.1.0\npaths:\n  /a:\n    get:\n      operationId: a\n{operation}");
    let schema =
        |schema: &str| get(&format!("      parameters:\n        - {{name: q, in: query, schema: {schema}}}\n"));
    let help = "\nhelp: correct it, or leave operations out with `exclude = [\"a\"]`";
    let mut faults = Vec::new();
    for (document, expected) in [
        ("".to_owned(), "api.yaml:1:1: the file is empty"),
        ("a: [".to_owned(), "api.yaml:2:1: "),
        ("a: 1\na: 2".to_owned(), "api.yaml:2:1: duplicate key `a`"),
        ("a: &x {<<: *x}".to_owned(), "api.yaml:1:8: merge keys are not part of YAML 1.2"),
        ("a: *x".to_owned(), "api.yaml:1:4: "),
        ("{\n\"a\": }".to_owned(), "api.yaml:2:6: expected value"),
        (format!("a: {}1{}", "[".repeat(200), "]".repeat(200)), "api.yaml:1:132: nested deeper than 128 levels"),
        ("swagger: '2.0'".to_owned(), "api.yaml:1:1: Swagger 2.0 is not supported, convert the document to OpenAPI 3"),
        ("info: {}".to_owned(), "api.yaml:1:1: `openapi`, the version, is missing"),
        ("openapi: 4.0.0".to_owned(), "api.yaml:1:1: unsupported version `4.0.0`, expected 3.0 or 3.1"),
        ("openapi: 3.0.0\npaths:\n  a: {}".to_owned(), "api.yaml:3:3: the path `a` must begin with `/`"),
        (
            "openapi: 3.0.0\npaths:\n  /a b: {}".to_owned(),
            "api.yaml:3:3: the path `/a b` contains ' ', which must be percent-encoded",
        ),
        (
            schema("{type: strng}"),
            "api.yaml:7:41: unknown type \"strng\", expected one of array, boolean, integer, null, number, object, string<help>",
        ),
        (schema("{$ref: '#/b'}"), "api.yaml:7:41: `#/b` does not exist<help>"),
        (
            schema("{$ref: 'b.yaml#/c'}"),
            "api.yaml:7:41: the file of `b.yaml#/c` cannot be found at <folder>/b.yaml<help>",
        ),
        (
            schema("{$ref: 'https://x.test/b.yaml'}"),
            "api.yaml:7:41: `https://x.test/b.yaml` is not downloaded, save it and add `references = [\"https://x.test/b.yaml\" => \"path/of/the/file\"]`<help>",
        ),
        (
            schema("{$id: 'https://x.test/a', allOf: [{$ref: 'b#/c'}]}"),
            "api.yaml:7:75: the file of `b#/c` cannot be found at <folder>/b<help>",
        ),
        (schema("{$ref: '#none'}"), "api.yaml:7:41: `#none` does not exist<help>"),
        (
            schema("{$ref: 'part.yaml#/bad'}"),
            "part.yaml:2:3: unknown type 7, expected one of array, boolean, integer, null, number, object, string<help>",
        ),
        (
            schema("{minLength: -1, minItems: x}"),
            "api.yaml:4:5: the schema cannot be enforced: `minItems` must be a non-negative integer, found `\"x\"`<help>",
        ),
        (
            get("      parameters: [{$ref: '#/paths/~1a/get/parameters/0'}]\n"),
            "api.yaml:6:20: the reference leads back to itself<help>",
        ),
        (get("      parameters: [{name: q}]\n"), "api.yaml:6:20: a parameter must have `name` and `in`<help>"),
        (get("      parameters: [{name: q, in: path}]\n"), "api.yaml:6:20: the path `/a` has no `{q}`<help>"),
        (
            get("      parameters: [{name: q, in: query, style: label}]\n"),
            "api.yaml:6:20: the style `label` is not defined for parameters in query<help>",
        ),
        (get("      security: [{key: []}]\n"), "api.yaml:6:19: the security scheme `key` is not declared<help>"),
        (
            get("      security: [{key: []}]\ncomponents:\n  securitySchemes: {key: {type: http, scheme: Digest}}\n"),
            "api.yaml:8:39: the HTTP scheme `digest` is not supported, expected basic or bearer<help>",
        ),
        (
            get("      requestBody: {$ref: 'text.md'}\n"),
            "text.md:2:1: while parsing a node, did not find expected node content<help>",
        ),
        (get("      requestBody: {}\n"), "api.yaml:6:7: a request body must have `content`<help>"),
        (
            get("      servers: [{url: '/{v}', variables: {v: {}}}]\n"),
            "api.yaml:6:43: a variable of a server must have a `default`<help>",
        ),
        (get("").replace("/a", "/a/{id}"), "api.yaml:4:5: the path parameter `id` is not declared<help>"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("api.yaml"), &document).unwrap();
        fs::write(folder.path().join("part.yaml"), "bad:\n  type: 7\n").unwrap();
        fs::write(folder.path().join("text.md"), "a: [").unwrap();
        let found = import(folder.path(), &quote!());
        let path = fs::canonicalize(folder.path()).unwrap();
        let found: Vec<_> =
            found.iter().map(|text| text.replace('`', "").replace(path.to_str().unwrap(), "<folder>")).collect();
        let expected = expected.replace("<help>", help).replace('`', "");
        let is_expected =
            |found: &str| if expected.ends_with(": ") { found.starts_with(&expected) } else { found == expected };
        if found.len() != 1 || !is_expected(&found[0]) {
            faults.push(format!("{document}\nexpected {expected:?}\nfound {found:?}\n"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn an_error_in_a_shared_part_names_all_operations() {
    let folder = tempfile::tempdir().unwrap();
    let get = |id: &str| {
        format!("  /{id}: {{get: {{operationId: {id}, parameters: [{{$ref: '#/components/parameters/p'}}]}}}}\n")
    };
    let document = format!(
        "openapi: 3.1.0\npaths:\n{}{}components: {{parameters: {{p: {{name: q, in: query, schema: {{type: strng}}}}}}}}\n",
        get("a"),
        get("b")
    );
    fs::write(folder.path().join("api.yaml"), document).unwrap();
    let found = import(folder.path(), &quote!());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("leave operations out with `exclude = [\"a\", \"b\"]`"), "{found:?}");
}

#[test]
fn further_errors_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let paths: String = (0..22).map(|at| format!("  p{at}: {{}}\n")).collect();
    fs::write(folder.path().join("api.yaml"), format!("openapi: 3.1.0\npaths:\n{paths}")).unwrap();
    let found = import(folder.path(), &quote!());
    assert_eq!(found.len(), 21, "{found:?}");
    assert_eq!(found[20], "2 more errors in the document");
}

#[test]
fn patterns_choose_operations() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(70);
    let document = format!(
        "openapi: 3.0.3\npaths:\n  /users: {{get: {{operationId: users/list}}, post: {{operationId: users/create}}}}\n  /users/me/keys: {{get: {{}}}}\n  \
         /pets: {{get: {{operationId: users/list}}, put: {{operationId: {long}}}, x-note: {{}}}}\n  x-more: {{}}\n"
    );
    fs::write(folder.path().join("api.yaml"), document).unwrap();
    let short = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_77f3c97d";
    for (options, expected) in [
        (quote!(), &["users_list", "users_create", "get_users_me_keys", "get_pets", short][..]),
        (quote!(, include = ["users/list"]), &["users_list", "get_pets"]),
        (quote!(, include = ["users_*"],), &["users_list", "users_create"]),
        (quote!(, include = ["/users/**"]), &["get_users_me_keys"]),
        (
            quote!(, include = ["/users**", "GET /pets"], exclude = ["post /*"]),
            &["users_list", "get_users_me_keys", "get_pets"],
        ),
        (
            quote!(, include = ["users/crate", "/user", "zzz"], exclude = ["DELETE /pets"]),
            &[
                "`users/crate` matches no operation of the document\nhelp: did you mean `users/create`?",
                "`/user` matches no operation of the document\nhelp: did you mean `/users`?",
                "`zzz` matches no operation of the document",
                "`DELETE /pets` matches no operation of the document",
            ],
        ),
    ] {
        assert_eq!(import(folder.path(), &options), expected, "{options}");
    }
}

/// Returns the description of an operation in a document.
fn described(operation: &Value) -> Value {
    let document = json!({
        "openapi": "3.0.3",
        "servers": [{"url": "https://root.test"}],
        "paths": {"/a/{id}#post": {
            "servers": [{"url": "https://item.test"}],
            "parameters": [
                {"name": "id", "in": "path", "schema": {"type": "string"}},
                {"name": "q", "in": "query", "schema": {"type": "string"}},
            ],
            "post": operation,
        }},
        "components": {
            "schemas": {
                "Cat": {"type": "object", "properties": {"name": {"type": "string"}}},
                "Either": {"oneOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}]},
                "Own": {"type": "string", "readOnly": true},
                "Text": {"type": "string"},
            },
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "login": {"type": "openIdConnect", "openIdConnectUrl": "https://id.test"},
                "token": {"type": "http", "scheme": "Bearer"},
            },
        },
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("api.yaml");
    fs::write(&path, document.to_string()).unwrap();
    let file = Literal::string(path.to_str().unwrap());
    let expanded = expand(syn::parse2(quote!(library, #file)).unwrap());
    let mut literals = Vec::new();
    collect(expanded.to_string().parse().unwrap(), &mut literals);
    let descriptions = literals.iter().filter_map(|(_, text)| serde_json::from_str(text).ok());
    descriptions.into_iter().next().unwrap_or_else(|| panic!("{operation}: {literals:?}"))
}

#[test]
fn a_document_describes_operations() {
    let parameter = |schema: Value| json!({"parameters": [{"name": "p", "in": "query", "schema": schema}]});
    let body = |schema: Value| json!({"requestBody": {"content": {"application/json": {"schema": schema}}}});
    let content = |content: Value| json!({"requestBody": {"content": content}});
    let object = json!({"schema": {"type": "object", "properties": {"a": {"type": "string"}}}});
    let required = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]});
    let mut required_body = body(required.clone());
    required_body["requestBody"]["required"] = true.into();
    let mut faults = Vec::new();
    for (operation, pointer, expected) in [
        (json!({}), "/path", json!("/a/{id}")),
        (json!({}), "/input/required", json!(["id"])),
        (json!({}), "/server", json!("https://item.test")),
        (json!({"servers": [{"url": "https://own.test"}]}), "/server", json!("https://own.test")),
        (
            json!({"servers": [{"url": "https://own.test:{port}", "variables": {"port": {"default": 8443}}}]}),
            "/server",
            json!("https://own.test:8443"),
        ),
        (json!({"summary": "Same.", "description": "Same. "}), "/description", json!("Same.")),
        (json!({"summary": "abcde fg ".repeat(20)}), "/title", json!(format!("{}…", "abcde fg ".repeat(13).trim()))),
        // Credentials are optional.
        (json!({"security": [{}, {"key": []}]}), "/security/0", json!([])),
        (json!({"security": [{"login": []}]}), "/security/0/0/prefix", json!("Bearer ")),
        (json!({"security": [{"token": []}]}), "/security/0/0/prefix", json!("Bearer ")),
        // Parameters.
        (
            json!({"parameters": [{"name": "q", "in": "query", "schema": {"type": "integer"}}]}),
            "/input/properties/q/type",
            json!("integer"),
        ),
        (
            json!({"parameters": [{"name": "Authorization", "in": "header", "schema": {"type": "string"}}]}),
            "/input/properties/Authorization",
            Value::Null,
        ),
        (
            json!({"parameters": [{"name": "c", "in": "cookie", "schema": {"type": "array"}}]}),
            "/parameters/1/explode",
            json!(true),
        ),
        // Schemas.
        (
            parameter(json!({"type": "string", "nullable": true, "enum": ["a"]})),
            "/input/properties/p/enum",
            json!(["a", null]),
        ),
        (
            parameter(json!({"$ref": "#/components/schemas/Text", "nullable": true})),
            "/input/properties/p/type",
            json!(["string", "null"]),
        ),
        (
            parameter(json!({"allOf": [{"$ref": "#/components/schemas/Text"}], "nullable": true})),
            "/input/properties/p/type",
            json!(["string", "null"]),
        ),
        (
            parameter(json!({"type": "integer", "minimum": 1, "exclusiveMinimum": false})),
            "/input/properties/p",
            json!({"type": "integer", "minimum": 1}),
        ),
        (
            parameter(json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true})),
            "/input/properties/p",
            json!({"type": "integer", "exclusiveMinimum": 1}),
        ),
        (
            parameter(json!({"type": "string", "enum": [true, 1, "a"]})),
            "/input/properties/p/enum",
            json!(["true", "1", "a"]),
        ),
        (parameter(json!({"type": "integer", "default": "x"})), "/input/properties/p/default", Value::Null),
        (parameter(json!({"type": "integer", "default": 1})), "/input/properties/p/default", json!(1)),
        (
            parameter(json!({"allOf": [{"type": "object", "required": ["a"]}, {"required": ["a", "b"]}]})),
            "/input/properties/p/required",
            json!(["a", "b"]),
        ),
        // Bodies.
        (body(required.clone()), "/input/required", json!(["id"])),
        (required_body.clone(), "/input/required", json!(["id", "a", "b"])),
        (required_body, "/input/properties/b", json!({})),
        (
            body(json!({"type": "object", "properties": {
                "a": {"type": "string"}, "own": {"$ref": "#/components/schemas/Own"},
            }})),
            "/input/properties/own",
            Value::Null,
        ),
        (
            body(json!({
                "oneOf": [{"$ref": "#/components/schemas/Cat"}],
                "discriminator": {"propertyName": "kind", "mapping": {"cat": "Cat"}},
            })),
            "/input/properties/kind/enum",
            json!(["cat"]),
        ),
        // The alternatives of an alternative have values of their own.
        (
            body(json!({
                "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Either"}],
                "discriminator": {"propertyName": "kind"},
            })),
            "/input/properties/body/anyOf/1/required",
            Value::Null,
        ),
        (
            content(json!({"application/x-www-form-urlencoded": object, "application/json": object})),
            "/body/kind",
            json!("json"),
        ),
        (
            content(json!({"multipart/form-data": object, "application/x-www-form-urlencoded": object})),
            "/body/kind",
            json!("form"),
        ),
        (content(json!({"text/plain": {}, "multipart/form-data": object})), "/body/kind", json!("multipart")),
        (content(json!({"application/pdf": {}, "text/plain": {}})), "/body/kind", json!("text")),
        (content(json!({"text/json": object})), "/body/kind", json!("json")),
        (content(json!({"*/*": object})), "/body/media", json!("application/json")),
        // Results.
        (json!({"responses": {"201": {"content": {"application/json": object}}}}), "/output/type", json!("object")),
        (
            json!({"responses": {
                "200": {"content": {"application/json": object}}, "201": {"content": {"application/json": object}},
            }}),
            "/output/type",
            json!("object"),
        ),
        (
            json!({"responses": {"200": {"content": {"application/json": object, "text/csv": {}}}}}),
            "/output",
            Value::Null,
        ),
        (json!({"responses": {"400": {"content": {"application/json": object}}}}), "/output", Value::Null),
    ] {
        let description = described(&operation);
        let found = description.pointer(pointer).unwrap_or(&Value::Null);
        if *found != expected {
            faults.push(format!("{operation}\n{pointer}: expected {expected}, found {found}\n"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Some model providers refuse longer ones.
#[test]
fn descriptions_of_tools_have_at_most_1024_characters() {
    for is_deprecated in [false, true] {
        let operation = described(&json!({"description": "ab ".repeat(1000), "deprecated": is_deprecated}));
        let description = operation["description"].as_str().unwrap();
        assert!((1000..=1024).contains(&description.chars().count()), "{description}");
        assert_eq!(description.ends_with("\n\nDeprecated."), is_deprecated, "{description}");
    }
}

/// Each takes a part of the attention of a model.
/// Values that only a left-out keyword allows must not be rejected.
#[test]
fn keywords_are_left_out_with_those_that_depend_on_them() {
    for (schema, expected) in [
        (json!({"type": "array", "items": false}), json!({"type": "array", "items": false})),
        (json!({"type": "array", "prefixItems": [{"type": "string"}], "items": false}), json!({"type": "array"})),
        (
            json!({"type": "object", "additionalProperties": false}),
            json!({"type": "object", "additionalProperties": false}),
        ),
        (
            json!({"type": "object", "patternProperties": {"^x-": {}}, "additionalProperties": false}),
            json!({"type": "object"}),
        ),
    ] {
        let schema = json!({"type": "object", "properties": {"value": schema}});
        let content = json!({"application/json": {"schema": schema}});
        let input = &described(&json!({"requestBody": {"content": content}, "responses": {}}))["input"];
        assert!(input.to_string().contains(&format!("\"value\":{expected}")), "{input}");
    }
}

#[test]
fn inputs_and_results_have_few_schemas() {
    let object = |inner: Value| {
        let properties: serde_json::Map<_, _> = (0..20).map(|at| (format!("p{at}"), inner.clone())).collect();
        json!({"type": "object", "properties": properties})
    };
    let content = json!({"application/json": {"schema": object(object(json!({"type": "string"})))}});
    let operation = json!({"requestBody": {"content": content}, "responses": {"200": {"content": content}}});
    let description = described(&operation);
    for (part, most) in [("input", 200), ("output", 50)] {
        let count = description[part].to_string().matches("\"type\"").count();
        assert!((20..=most).contains(&count), "{part}: {count}");
    }
}

#[test]
fn headers_of_the_connection_are_no_arguments() {
    for (name, is_argument) in [
        ("Accept", false),
        ("Connection", false),
        ("Content-Length", false),
        ("Content-Type", false),
        ("Cookie", false),
        ("Host", false),
        ("TE", false),
        ("Transfer-Encoding", false),
        ("Upgrade", false),
        ("Accept-Language", true),
    ] {
        let parameter = json!({"name": name, "in": "header", "schema": {"type": "string"}});
        let properties = described(&json!({"parameters": [parameter]}))["input"]["properties"].clone();
        assert_eq!(properties.as_object().unwrap().len() == 3, is_argument, "{name}: {properties}");
    }
}

#[test]
fn references_lead_to_files_anchors_and_identifiers() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("vendor/deep")).unwrap();
    for (name, text) in [
        (
            "vendor/base.yaml",
            "one: {type: integer}\ntwo: {$ref: 'deep/more.json#/x'}\nthree: {$ref: '/s/deep/more.json#here'}\n",
        ),
        (
            "vendor/deep/more.json",
            r##"{"x": {"type": "integer"}, "y": {"$anchor": "here", "type": "integer"}, "z": {"$ref": "../base.yaml#/one"}}"##,
        ),
        ("vendor/exact", "type: integer\n"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (prefix, exact) = (path("vendor"), path("vendor/exact"));
    // The longest beginning that ends with a segment counts.
    let options = quote!(, references = [
        "https://x.test/" => #exact, "https://x.test/s/" => #prefix, "https://x.test/s/de" => #exact,
        "https://x.test/e?v=1" => #exact, "urn:e" => #exact
    ]);
    let components = "\
        plain: {$anchor: int, type: integer}\n    \
        inner: {$id: 'https://x.test/inner', $defs: {i: {type: integer}, a: {$anchor: b, type: integer}}, allOf: [{$ref: '#/$defs/i'}]}\n    \
        based: {$id: 'https://x.test/s/any', allOf: [{$ref: 'base.yaml#/one'}, {$ref: inner}]}\n    \
        nested: {$id: 'https://x.test/s/inner', type: integer}\n    \
        outer: {$id: 'https://x.test/outer', $defs: {o: {$id: own, $defs: {i: {type: integer}}, allOf: [{$ref: '#/$defs/i'}]}}}\n    \
        queried: {$id: 'https://x.test/s/any?of=a/b', allOf: [{$ref: 'base.yaml#/one'}]}\n    \
        local: {$id: here, type: integer}\n";
    let mut faults = Vec::new();
    for reference in [
        "#int",
        "#/components/schemas/plain",
        "https://x.test/inner#/$defs/i",
        "https://x.test/inner#b",
        "https://x.test/inner",
        "#/components/schemas/inner/allOf/0",
        "#/components/schemas/based",
        "#/components/schemas/based/allOf/1",
        "https://x.test/own",
        "#/components/schemas/queried",
        "here",
        "https://x.test/s/base.yaml#/one",
        "https://x.test/s/base.yaml#/two",
        "https://x.test/s/base.yaml#/three",
        "https://x.test/s/deep/more.json#/z",
        "https://x.test/s/deep/../exact",
        "https://x.test/e?v=1",
        "urn:e",
        "vendor/base.yaml#/one",
    ] {
        let document = format!(
            "openapi: 3.1.0\npaths:\n  /a:\n    get:\n      operationId: a\n      parameters:\n        - {{name: q, in: query, schema: {{$ref: '{reference}'}}}}\n\
             components:\n  schemas:\n    {components}"
        );
        fs::write(folder.path().join("api.yaml"), document).unwrap();
        let file = Literal::string(&path("api.yaml"));
        let expanded = expand(syn::parse2(quote!(library, #file #options)).unwrap()).to_string();
        if !expanded.replace('\\', "").contains(r#""properties":{"q":{"type":"integer"}}"#) {
            faults.push(format!("{reference}: {expanded}"));
        }
        // A change of any file compiles the program again.
        let is_alone = ["vendor", "more", "exact", "urn", "base.yaml"].iter().all(|name| !reference.contains(name));
        assert!(is_alone || expanded.matches("include_bytes").count() > 1, "{reference}: {expanded}");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn scalars_have_the_types_of_yaml() {
    let folder = tempfile::tempdir().unwrap();
    for (scalar, expected) in [
        ("18446744073709551615", "18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("+7", "7"),
        (".5", "0.5"),
        ("1e3", "1000.0"),
        ("TRUE", "true"),
        ("~", "null"),
        ("1.2.3", "\"1.2.3\""),
        ("0x10", "\"0x10\""),
        ("yes", "\"yes\""),
        ("'1'", "\"1\""),
        ("!!str 1", "\"1\""),
    ] {
        let document = format!(
            "openapi: 3.1.0\npaths:\n  /a:\n    get:\n      parameters:\n        - name: q\n          in: query\n          schema:\n            const: {scalar}\n"
        );
        fs::write(folder.path().join("api.yaml"), document).unwrap();
        let file = Literal::string(folder.path().join("api.yaml").to_str().unwrap());
        let expanded = expand(syn::parse2(quote!(library, #file)).unwrap()).to_string().replace('\\', "");
        assert!(expanded.contains(&format!("{{\"const\":{expected}}}")), "{scalar}: {expanded}");
    }
}

#[test]
fn documents_are_read_in_bounded_time() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text.md"), "a: [").unwrap();
    let doubled: String = (0..64)
        .map(|at| format!("    s{at}: {{allOf: [{{$ref: '#/components/schemas/s{0}'}}, {{$ref: '#/components/schemas/s{0}'}}]}}\n", at + 1))
        .collect();
    let document = format!(
        "openapi: 3.1.0\npaths:\n  /a:\n    get:\n      operationId: a\n      parameters:\n        - {{name: q, in: query, schema: {{$ref: '#/components/schemas/s0'}}, example: {{$ref: text.md}}}}\n\
         components:\n  schemas:\n{doubled}    s64: {{type: string}}\n"
    );
    fs::write(folder.path().join("api.yaml"), document).unwrap();
    assert_eq!(import(folder.path(), &quote!()), ["a"], "a file that only an example names is not read");
}

#[test]
fn options_are_checked() {
    for (input, expected) in [
        (quote!(library, "a", includes = ["b"]), "unknown option, expected `include`, `exclude` or `references`"),
        (quote!(library, "a", references = ["urn:b" "c"]), "expected `=>`"),
        (quote!(library, "a", references = ["urn:b" => "c"], references = ["urn:b" => "c"]), "duplicate option"),
        (quote!(library, "a", references = []), "the list is empty"),
        (quote!(library, "a", references = ["schemas/" => "c"]), "expected a URL"),
        (quote!(library, "a", include = ["b"], include = ["c"]), "duplicate option"),
        (quote!(library, "a", include = []), "the list is empty"),
        (quote!(library, a), "expected string literal"),
    ] {
        let error = syn::parse2::<crate::Import>(input).err().unwrap();
        assert_eq!(error.to_string(), expected);
    }
}
