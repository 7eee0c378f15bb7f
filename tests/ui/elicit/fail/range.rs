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
    #[elicit(range = 0..1)]
    whole_bounds: f64,
    #[elicit(range = ..1.5)]
    of_alias: Share,
}

type Text = Option<String>;
type Byte = Option<u8>;
type Share = Option<f64>;

#[derive(Elicit)]
struct ConstEvaluated {
    #[elicit(range = 1..=2)]
    text: Text,
    #[elicit(length = 1..=2)]
    count: Byte,
    #[elicit(range = 0..300)]
    byte: Byte,
    #[elicit(range = 0..1)]
    share: Share,
}

fn main() {}
