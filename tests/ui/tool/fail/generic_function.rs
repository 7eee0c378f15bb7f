#![allow(unused_variables)]

use mcp_runtime::tool;

#[tool]
fn of_type<T: ToString>(value: T) -> String {
    value.to_string()
}

#[tool]
fn of_length<const N: usize>(values: [u8; N]) -> usize {
    values.len()
}

#[tool]
fn existential(value: impl ToString, list: Vec<impl ToString>) -> impl ToString {
    let _ = list;
    value
}

#[tool]
fn future() -> impl Future<Output = ()> {
    async {}
}

fn main() {}
