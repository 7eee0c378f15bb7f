#![allow(unused_variables)]

use mcp_runtime::tool;

struct Db;

#[tool]
fn options(
    #[arg(defualt = 5)] misspelled: u8,
    #[arg(min = 5)] unknown: u8,
    #[arg] none: u8,
    #[arg(complete = names)] completed: String,
    #[arg(env = "HOME")] environment: String,
    #[arg(default = 5)] db: &Db,
) {
}

fn main() {}
