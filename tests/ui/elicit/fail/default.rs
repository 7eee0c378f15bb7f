use mcp_runtime::Elicit;

#[derive(Elicit)]
enum Size {
    Small,
    Large,
}

#[derive(Elicit)]
struct Order {
    #[elicit(default = 11, range = 1..=10)]
    count: u8,
    #[elicit(default = "many")]
    more: u32,
    #[elicit(default = "abc", length = ..=2)]
    code: Option<String>,
    #[elicit(default = 1.5)]
    gift: bool,
}

// The macro does not know what an alias stands for: the compiler evaluates the checks of its fields.
type Count = Option<u8>;
type Sizes = Vec<Size>;

#[derive(Elicit)]
struct ConstEvaluated {
    #[elicit(default = "many")]
    count: Count,
    #[elicit(default = "small")]
    size: Size,
    #[elicit(default = "Small")]
    sizes: Sizes,
    #[elicit(default = Size::Tiny)]
    tiny: Size,
}

fn main() {}
