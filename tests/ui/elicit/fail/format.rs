use mcp_runtime::Elicit;

#[derive(Elicit)]
struct Person {
    #[elicit(format = "datetime")]
    born: String,
    #[elicit(format = "uuid")]
    id: Option<String>,
    #[elicit(format = "email")]
    age: u8,
}

type Age = Option<u8>;

#[derive(Elicit)]
struct Unknown {
    #[elicit(format = "email")]
    age: Age,
}

fn main() {}
