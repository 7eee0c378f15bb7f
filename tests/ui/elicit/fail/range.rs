use mcp_runtime::Elicit;

#[derive(Elicit)]
struct Order {
    #[elicit(range = 5..=1)]
    reversed: u8,
    #[elicit(range = 0.0..1.0)]
    share: f64,
    #[elicit(range = 1..=2)]
    text: String,
    #[elicit(length = 1..=2)]
    gift: bool,
}

#[derive(Elicit)]
struct ConstEvaluated {
    #[elicit(range = 1..=2)]
    text: Option<String>,
    #[elicit(length = 1..=2)]
    count: Option<u8>,
    #[elicit(range = 0..300)]
    byte: Option<u8>,
    #[elicit(range = 0..1)]
    share: Option<f64>,
}

fn main() {}
