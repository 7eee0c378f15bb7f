struct Calculator;

impl Calculator {
    #[mcp_runtime::tool]
    fn add(a: f64, b: f64) -> f64 {
        a + b
    }
}

trait Adds {
    #[mcp_runtime::tool]
    fn add(&self, a: f64, b: f64) -> f64;
}

#[mcp_runtime::tool]
impl Calculator {}

fn main() {}
