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

    /// The status of an order.
    #[derive(Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Status {
        /// Not paid yet.
        Open,
        /// Paid but not shipped.
        Paid,
        /// Shipped.
        Sent,
    }

    /// A delivery address.
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
        /// The quantity.
        #[schemars(range(min = 1))]
        count: u32,
        /// The price, if it differs from the list price.
        price: Option<f64>,
    }

    /// An order.
    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Order {
        /// The order number.
        id: u64,
        /// The status.
        status: Status,
        /// The delivery address.
        address: Address,
        /// The order lines.
        lines: Vec<Line>,
    }

    /// Add up a price.
    #[tool(read_only, idempotent)]
    fn price_@(
        /// The price of one item.
        price: f64,
        /// The quantity.
        count: u32,
        /// The shipping costs.
        #[arg(range = 0.0..)]
        shipping: f64,
    ) -> f64 {
        price * f64::from(count) + shipping
    }

    /// Find the orders of a customer.
    #[tool(title = "Find orders", read_only)]
    fn find_@(
        /// The user name of the customer.
        #[arg(length = 3..=200, pattern = "^[a-z0-9.-]+$")]
        customer: String,
        /// The maximum number of results.
        #[arg(default = 20, range = 1..=100)]
        limit: u32,
    ) -> String {
        format!("{limit} of {customer}")
    }

    /// Count the orders with a status.
    #[tool(read_only)]
    fn count_@(
        /// The status.
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
        /// The delivery address.
        address: Address,
        /// The order lines.
        #[arg(length = 1..=50)]
        lines: Vec<Line>,
    ) -> Json<Order> {
        Json(Order { id: customer, status: Status::Open, address, lines })
    }

    /// Change an order. Omitted fields keep their values.
    #[tool(idempotent)]
    fn change_@(
        /// The order's number.
        id: u64,
        /// The new status.
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
        /// The number of orders to skip.
        #[arg(default)]
        offset: u32,
        /// The oldest date.
        #[arg(default = "2000-01-01", format = "date")]
        since: String,
        /// Whether to include completed orders.
        #[arg(default = true)]
        done: bool,
        /// The statuses to include.
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

    /// Delete orders permanently.
    #[tool(destructive, idempotent)]
    async fn delete_@(
        /// The order numbers.
        #[arg(length = 1..)]
        ids: Vec<u64>,
        /// The reason.
        reason: Option<String>,
    ) -> Result<(), String> {
        reason.filter(|_| !ids.is_empty()).map(drop).ok_or_else(|| "missing reason".to_owned())
    }

    /// Return the state of the shop.
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
