struct Calculator;

impl Calculator {
    #[mcp_runtime::tool]
    fn add(a: f64, b: f64) -> f64 {
        a + b
    }
}

struct Counter(u32);

impl Counter {
    const START: u32 = 5;

    #[mcp_runtime::tool]
    fn start() -> u32 {
        Self::START
    }

    #[mcp_runtime::prompt]
    fn describe(Self(count): Self) -> String {
        count.to_string()
    }

    #[mcp_runtime::resource("count://now")]
    fn now(counter: &Self) -> String {
        counter.0.to_string()
    }
}

/// `Self` has a meaning of its own in an item and in the input of a macro.
#[mcp_runtime::tool]
fn outside() -> String {
    struct Inside;
    impl Inside {
        const NAME: &str = stringify!(Self);
        fn name(_: &Self) -> &'static str {
            Self::NAME
        }
    }
    format!("{} {}", Inside::name(&Inside), stringify!(Self))
}

trait Adds {
    #[mcp_runtime::tool]
    fn add(&self, a: f64, b: f64) -> f64;
}

#[mcp_runtime::tool]
impl Calculator {}

fn main() {}
