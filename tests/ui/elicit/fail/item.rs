use mcp_runtime::Elicit;

#[derive(Elicit)]
struct Tuple(String, u8);

#[derive(Elicit)]
struct Generic<T> {
    value: T,
}

#[derive(Elicit)]
union Union {
    a: u8,
}

#[derive(Elicit)]
struct SameName {
    a: u8,
    #[elicit(rename = "a")]
    b: u8,
    #[elicit(rename = "")]
    c: u8,
}

#[derive(Elicit)]
enum WithData {
    Nothing,
    Number(u8),
    Named { a: u8 },
}

#[derive(Elicit)]
enum Empty {}

#[derive(Elicit)]
#[elicit(legacy_names)]
enum SameChoice {
    A,
    #[elicit(rename = "A")]
    B,
}

fn main() {
    // The trait is implemented despite the errors, so this line causes no further error.
    let _ = mcp_runtime::ask::Elicitation::<Tuple>::new("key", "Fill in.");
}
