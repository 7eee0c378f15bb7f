use mcp_runtime::Elicit;

#[derive(Elicit)]
#[elicit(legacy_names)]
struct Person {
    #[elicit(defualt = "Jane")]
    name: String,
    #[elicit(pattern = "^[a-z]+$")]
    word: String,
    #[elicit]
    bare: u8,
    #[elicit(title = 5, title = "Twice")]
    twice: bool,
}

#[derive(Elicit)]
#[elicit(legacy_name)]
enum Size {
    #[elicit(tilte = "Small one")]
    Small,
    #[elicit(description = "a large one")]
    Large,
}

fn main() {
    // The trait is implemented despite the errors, so this line causes no further error.
    let _ = mcp_runtime::ask::Elicitation::<Person>::new("key", "Fill in.");
}
