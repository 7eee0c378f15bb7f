#![allow(unused_variables)]

use std::{cell::Cell, rc::Rc};

use mcp_runtime::tool;

struct State(Cell<u8>);

#[tool]
async fn state_with_cell(state: &State) -> u8 {
    state.0.get()
}

#[tool]
fn state_with_rc(state: &Rc<u8>) -> u8 {
    **state
}

#[tool]
async fn rc_across_await() -> u8 {
    let value = Rc::new(1);
    std::future::ready(()).await;
    *value
}

fn main() {}
