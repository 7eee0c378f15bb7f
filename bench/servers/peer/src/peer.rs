//! A server with 103 tools, or with the number given by `--tools`.

mod tools;

fn main() -> std::io::Result<()> {
    tools::main(|tools| tools)
}
