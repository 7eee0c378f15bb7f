//! A shop whose calls can be watched: spans and metrics through OpenTelemetry, or metrics for Prometheus alone.
//!
//! ```text
//! OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 cargo run -p observability -- --http 127.0.0.1:8080
//! OTEL_TRACES_EXPORTER=none OTEL_METRICS_EXPORTER=prometheus cargo run -p observability -- --http 127.0.0.1:8080
//! ```
//!
//! `prometheus.sh` starts Prometheus with the alert rules beside it (`prometheus.png` shows its page), and `dashboard.json` is for Grafana.

use std::time::Duration;

use http::Request;
use http_body_util::BodyExt as _;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use mcp_runtime::{
    Context, Elicit, Fault, Handle, Server,
    ask::{Answer, Ask as _, SampleRequest},
    prompt, resource, server, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;

/// How a delivery goes.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Luck {
    /// It arrives.
    Good,
    /// The address does not exist.
    Bad,
    /// It never arrives.
    Late,
    /// The van explodes.
    Worst,
}

/// Deliver an order, with more or less luck: for dashboards to show something.
#[tool(timeout = "500ms", destructive = false)]
async fn deliver(luck: Luck) -> Result<&'static str, &'static str> {
    sleep(Duration::from_millis(5)).await;
    match luck {
        Luck::Good => Ok("delivered"),
        Luck::Bad => Err("the address does not exist"),
        Luck::Late => std::future::pending().await,
        Luck::Worst => panic!("the van exploded"),
    }
}

/// Look up a price.
///
/// The request to the service of prices carries the trace.
#[tool(read_only)]
async fn price(prices: &Prices, item: String) -> Result<String, String> {
    let mut request =
        Request::get(format!("{}/{item}", prices.url)).body(String::new()).map_err(|error| error.to_string())?;
    request.headers_mut().extend(mcp_otel::headers());
    let response = prices.client.request(request).await.map_err(|_| "the service of prices does not respond")?;
    let body = response.into_body().collect().await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

/// Confirmation of an order.
#[derive(Elicit)]
struct Confirm {
    /// Tick this to order.
    sure: bool,
}

/// Order an item, once the user has confirmed it. Dodos cannot be ordered.
#[tool(destructive = false)]
async fn order(ctx: &Context, handle: &Handle, item: String) -> Result<String, Fault> {
    if item == "dodo" {
        return Err(Fault::custom(-32050, "there are no dodos"));
    }
    let answer = ctx.elicit::<Confirm>("confirm", format!("Order {item}?")).await?;
    if !matches!(answer, Answer::Accept(Confirm { sure: true })) {
        return Ok("no order".to_owned());
    }
    handle.resource_updated(format!("shop://stock/{item}"));
    Ok(format!("ordered {item}"))
}

/// Let the client's model advertise an item.
#[tool(read_only)]
async fn slogan(
    ctx: &Context,
    item: String,
    /// How many seconds the model may take.
    #[arg(default = 60, range = 1..=600)]
    seconds: u16,
) -> Result<String, Fault> {
    let request = SampleRequest::new(format!("Advertise {item}")).timeout(Duration::from_secs(seconds.into()));
    Ok(ctx.ask(request).await?.text())
}

/// Count everything in stock, which takes some minutes.
#[tool(task, read_only)]
async fn take_stock(minutes: u8) -> String {
    sleep(Duration::from_secs(60) * u32::from(minutes) + Duration::from_millis(50)).await;
    "42 items".to_owned()
}

/// The items that are in stock.
#[resource("shop://stock/{item}", complete(item = items))]
fn stock(item: String) -> Option<String> {
    (item != "dodo").then(|| format!("7 × {item}"))
}

fn items(prefix: &str) -> Vec<String> {
    ["apple", "apricot"].into_iter().filter(|item| item.starts_with(prefix)).map(str::to_owned).collect()
}

/// The opening hours.
#[resource("shop://hours")]
fn hours() -> &'static str {
    "always"
}

/// Advise a customer.
#[prompt]
fn advise(taste: String) -> String {
    format!("Recommend an item to a customer who likes {taste}.")
}

/// The service of prices.
struct Prices {
    client: Client<HttpConnector, String>,
    url: String,
}

#[server]
fn main(server: Server) -> Result<Server, mcp_otel::Error> {
    let url = std::env::var("PRICES_URL").unwrap_or_else(|_| "http://127.0.0.1:8090".to_owned());
    Ok(mcp_otel::from_env()?
        .observe(server)
        .with_skills(concat!(env!("CARGO_MANIFEST_DIR"), "/skills"))
        .with_state(Prices { client: Client::builder(TokioExecutor::new()).build_http(), url }))
}

#[cfg(test)]
mod tests {
    use mcp_runtime::Revision;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn deliveries_end_in_every_way() {
        let mut client = Server::empty("shop", "1.0.0").with::<deliver>().test_client(Revision::V2026_07_28);
        for (luck, text, is_error) in [
            ("good", "delivered", false),
            ("bad", "the address does not exist", true),
            ("late", "`deliver` did not finish within 500ms", true),
        ] {
            let result = client.call("deliver", json!({"luck": luck})).await.unwrap();
            assert_eq!((&*result.text(), result.is_error()), (text, is_error));
        }
        assert!(client.call("deliver", json!({"luck": "worst"})).await.is_err());
    }
}
