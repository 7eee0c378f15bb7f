use mcp_runtime::Elicit;

#[derive(Elicit)]
struct Order {
    /// How many seats to book.
    #[arg(range = 1..=9, default = 2)]
    seats: u8,
}

fn main() {}
