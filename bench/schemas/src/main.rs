//! Enforces the schema of the tool `search` with the library of the enabled feature. `bench/schemas/run` measures it.
//!
//!     schemas calls N      check the arguments of N calls, from text
//!     schemas values N     check a value N times that is parsed before
//!     schemas memory       print the bytes of a second compiled schema
//!     schemas message      print the message for a wrong value

use std::{env, hint::black_box};

use serde_json::Value;

#[global_allocator]
static ALLOCATOR: counting::Metered = counting::Metered;

const SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"properties":{"query":{"description":"Words that must appear.","type":"string"},"filter":{"description":"Conditions that articles must meet.","type":"object","properties":{"tags":{"description":"Tags that articles must have.","type":"array","items":{"type":"string"}},"price":{"description":"The price range.","type":"object","properties":{"min":{"description":"The lowest price.","type":"number"},"max":{"description":"The highest price.","type":"number"}},"required":["min","max"]},"seller":{"description":"The name of the seller.","type":["string","null"]},"order":{"description":"The order of the result.","type":"string","enum":["price","rating","name"]}},"required":["tags","price"]},"page":{"description":"The part of the result to return.","type":"object","properties":{"offset":{"description":"The number of articles to skip.","type":"integer","minimum":0},"limit":{"description":"The number of articles to return.","type":"integer","minimum":0,"maximum":100}},"required":["offset","limit"]}},"required":["query","filter","page"]}"#;
const ARGUMENTS: &str = r#"{"query":"red bicycle","filter":{"tags":["sport","outdoor","sale"],"price":{"min":10.5,"max":499.99},"seller":"Wheels & Co","order":"price"},"page":{"offset":20,"limit":10}}"#;
const WRONG: &str = r#"{"query":"red bicycle","filter":{"tags":["sport",7],"price":{"min":10.5,"max":499.99},"order":"prize"},"page":{"offset":20,"limt":10}}"#;

#[cfg(feature = "ours")]
mod library {
    use serde_json::Value;

    pub struct Schema(mcp_schema::Checker);

    impl Schema {
        pub fn compile(schema: &Value) -> Self {
            Self(mcp_schema::Checker::compile(schema).unwrap())
        }

        pub fn accepts(&self, json: &str) -> bool {
            self.0.accepts(json)
        }

        pub fn accepts_value(&self, _: &Value) -> bool {
            panic!("the library checks text");
        }

        pub fn messages(&self, json: &str) -> Vec<String> {
            self.0.violations(json).iter().map(ToString::to_string).collect()
        }
    }
}

#[cfg(feature = "jsonschema")]
mod library {
    use serde_json::Value;

    pub struct Schema(jsonschema::Validator);

    impl Schema {
        pub fn compile(schema: &Value) -> Self {
            Self(jsonschema::draft202012::new(schema).unwrap())
        }

        pub fn accepts(&self, json: &str) -> bool {
            self.0.is_valid(&serde_json::from_str(json).unwrap())
        }

        pub fn accepts_value(&self, value: &Value) -> bool {
            self.0.is_valid(value)
        }

        pub fn messages(&self, json: &str) -> Vec<String> {
            let value = serde_json::from_str(json).unwrap();
            self.0.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect()
        }
    }
}

#[cfg(feature = "boon")]
mod library {
    use serde_json::Value;

    pub struct Schema(boon::Schemas, boon::SchemaIndex);

    impl Schema {
        pub fn compile(schema: &Value) -> Self {
            let mut schemas = boon::Schemas::new();
            let mut compiler = boon::Compiler::new();
            compiler.add_resource("https://example.com/schema", schema.clone()).unwrap();
            let index = compiler.compile("https://example.com/schema", &mut schemas).unwrap();
            Self(schemas, index)
        }

        pub fn accepts(&self, json: &str) -> bool {
            self.accepts_value(&serde_json::from_str(json).unwrap())
        }

        pub fn accepts_value(&self, value: &Value) -> bool {
            self.0.validate(value, self.1).is_ok()
        }

        pub fn messages(&self, json: &str) -> Vec<String> {
            let value = serde_json::from_str(json).unwrap();
            let Err(error) = self.0.validate(&value, self.1) else { return Vec::new() };
            error.to_string().lines().map(str::to_owned).collect()
        }
    }
}

/// Only parses the arguments, for comparison.
#[cfg(not(any(feature = "ours", feature = "jsonschema", feature = "boon")))]
mod library {
    use serde_json::Value;

    pub struct Schema;

    impl Schema {
        pub fn compile(_: &Value) -> Self {
            Self
        }

        pub fn accepts(&self, json: &str) -> bool {
            serde_json::from_str::<Value>(json).is_ok()
        }

        pub fn accepts_value(&self, _: &Value) -> bool {
            true
        }

        pub fn messages(&self, _: &str) -> Vec<String> {
            Vec::new()
        }
    }
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let compiled = library::Schema::compile(&schema);
    match words[..] {
        ["calls", count] => {
            for _ in 0..count.parse().unwrap() {
                assert!(compiled.accepts(black_box(ARGUMENTS)));
            }
        }
        ["values", count] => {
            let value: Value = serde_json::from_str(ARGUMENTS).unwrap();
            for _ in 0..count.parse().unwrap() {
                assert!(compiled.accepts_value(black_box(&value)));
            }
        }
        // The first schema has initialized what all schemas share.
        ["memory"] => {
            let before = counting::bytes_in_use();
            let _second = library::Schema::compile(&schema);
            println!("{}", counting::bytes_in_use() - before);
        }
        ["message"] => compiled.messages(WRONG).iter().for_each(|message| println!("{message}")),
        _ => panic!("expected `calls`, `values`, `memory` or `message`"),
    }
}
