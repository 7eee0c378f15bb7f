//! Generates the tools of `thousand`: modules of nine tools with different signatures and their own types.

use std::{env, fs, path::Path};

/// The number of modules. With `echo`, they have a thousand tools.
const MODULES: usize = 111;

/// The source of one module, with `@` in place of its number.
const MODULE: &str = r##"
mod orders_@ {
    use mcp_runtime::{Json, tool};
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    /// What has become of an order.
    #[derive(Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Status {
        /// Not paid yet.
        Open,
        /// Paid, not sent.
        Paid,
        /// On its way.
        Sent,
    }

    /// Where an order goes.
    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Address {
        /// Street and number.
        street: String,
        /// The town.
        town: String,
        /// The country, as two letters.
        #[schemars(length(equal = 2))]
        country: String,
    }

    /// One line of an order.
    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Line {
        /// The article.
        article: String,
        /// How many.
        #[schemars(range(min = 1))]
        count: u32,
        /// A price other than the usual.
        price: Option<f64>,
    }

    /// An order.
    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Order {
        /// Its number.
        id: u64,
        /// What has become of it.
        status: Status,
        /// Where it goes.
        address: Address,
        /// What is in it.
        lines: Vec<Line>,
    }

    /// Add up a price.
    #[tool(read_only, idempotent)]
    fn price_@(
        /// What one costs.
        price: f64,
        /// How many.
        count: u32,
        /// Added at the end.
        #[arg(range = 0.0..)]
        shipping: f64,
    ) -> f64 {
        price * f64::from(count) + shipping
    }

    /// Find the orders of a customer.
    #[tool(title = "Find orders", read_only)]
    fn find_@(
        /// The name that the customer chose.
        #[arg(length = 3..=200, pattern = "^[a-z0-9.-]+$")]
        customer: String,
        /// How many to return.
        #[arg(default = 20, range = 1..=100)]
        limit: u32,
    ) -> String {
        format!("{limit} of {customer}")
    }

    /// Count the orders in a state.
    #[tool(read_only)]
    fn count_@(
        /// The state.
        status: Status,
    ) -> u64 {
        status as u64
    }

    /// Place an order.
    #[tool(destructive = false)]
    fn place_@(
        /// The customer's number.
        #[arg(range = 1..)]
        customer: u64,
        /// Where it goes.
        address: Address,
        /// What is in it.
        #[arg(length = 1..=50)]
        lines: Vec<Line>,
    ) -> Json<Order> {
        Json(Order { id: customer, status: Status::Open, address, lines })
    }

    /// Change an order; what is left out stays.
    #[tool(idempotent)]
    fn change_@(
        /// The order's number.
        id: u64,
        /// The new state.
        status: Option<Status>,
        /// The new address.
        address: Option<Address>,
        /// A note for the parcel service.
        #[arg(length = ..=500)]
        note: Option<String>,
    ) -> Result<String, String> {
        match (status, address, note) {
            (None, None, None) => Err("there is nothing to change".to_owned()),
            _ => Ok(format!("order {id} is changed")),
        }
    }

    /// List orders.
    #[tool(read_only)]
    fn list_@(
        /// How many to leave out.
        #[arg(default)]
        offset: u32,
        /// The oldest date.
        #[arg(default = "2000-01-01", format = "date")]
        since: String,
        /// Whether to list those that are done.
        #[arg(default = true)]
        done: bool,
        /// The states.
        #[arg(default)]
        states: Vec<Status>,
    ) -> Json<Vec<Order>> {
        let _ = (offset, since, done, states);
        Json(Vec::new())
    }

    /// Show an order.
    #[tool(read_only)]
    fn show_@(
        /// The order's number.
        id: u64,
    ) -> Option<Json<Order>> {
        let address = Address { street: String::new(), town: String::new(), country: "CH".to_owned() };
        (id > 0).then(|| Json(Order { id, status: Status::Sent, address, lines: Vec::new() }))
    }

    /// Delete orders for good.
    #[tool(destructive, idempotent)]
    async fn delete_@(
        /// Their numbers.
        #[arg(length = 1..)]
        ids: Vec<u64>,
        /// Why.
        reason: Option<String>,
    ) -> Result<(), String> {
        reason.filter(|_| !ids.is_empty()).map(drop).ok_or_else(|| "a reason is needed".to_owned())
    }

    /// Say how the shop is.
    #[tool(read_only, meta("example.com/module" = "@"))]
    fn state_@() -> &'static str {
        "open"
    }
}
"##;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let tools: String = (0..MODULES).map(|number| MODULE.replace('@', &format!("{number:03}"))).collect();
    fs::write(Path::new(&out).join("tools.rs"), tools).expect("OUT_DIR can be written");
}
