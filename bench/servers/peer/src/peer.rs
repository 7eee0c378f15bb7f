//! A server of 103 tools, or as many as `--tools` says.

mod tools;

fn main() -> std::io::Result<()> {
    tools::main(|tools| tools)
}
