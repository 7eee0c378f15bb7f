use mcp_runtime::{Revision, testing::TestClient};
use serde_json::{Value, json};

use super::*;

fn client(revision: Revision) -> TestClient {
    Server::new("dashboard", "0.1.0").with_state(Db::open(":memory:".as_ref()).unwrap()).test_client(revision)
}

async fn record(client: &mut TestClient, day: Option<&str>, value: f64) -> String {
    let arguments = json!({"metric": "signups", "day": day, "value": value});
    client.call("record_figure", arguments).await.unwrap().text()
}

#[tokio::test]
async fn the_model_gets_text_and_the_page_gets_figures() {
    for revision in Revision::ALL {
        let mut client = client(revision);
        let shown = client.call("show_dashboard", json!({"metric": "orders", "days": 7})).await.unwrap();
        let lines: Vec<_> = shown.text().lines().map(str::to_owned).collect();
        assert!(lines[0].starts_with("orders in the last 7 days: "), "{lines:?}");
        assert_eq!(lines[2].chars().filter(|bar| ('▁'..='█').contains(bar)).count(), 7, "{lines:?}");
        let figures: Value = serde_json::from_str(&client.call("figures", ()).await.unwrap().text()).unwrap();
        assert_eq!(figures["figures"].as_array().unwrap().len(), 30);
        assert_eq!(figures["metrics"], json!(["orders", "revenue", "visitors"]));
    }
}

#[tokio::test]
async fn a_recorded_figure_replaces_that_of_its_day() {
    let mut client = client(Revision::V2026_07_28);
    record(&mut client, None, 3.0).await;
    let today = record(&mut client, None, 5.0).await;
    assert!(record(&mut client, Some("today"), 1.0).await.contains("`day`"), "only dates are days");
    record(&mut client, Some("2000-01-01"), 1.0).await;
    let series = client.call("figures", json!({"metric": "signups", "days": 365})).await.unwrap();
    let series = series.structured().unwrap();
    assert_eq!(series["figures"][0]["value"], 5.0);
    assert!(today.ends_with(series["figures"][0]["day"].as_str().unwrap()), "{today}");
    assert_eq!([&series["total"], &series["total_before"]], [5.0, 0.0]);

    let unknown = client.call("show_dashboard", json!({"metric": "signup"})).await.unwrap();
    assert!(unknown.text().ends_with("the metrics are orders, revenue, signups, visitors"), "{}", unknown.text());
}

#[tokio::test]
async fn tools_of_the_page_are_hidden_from_models() {
    let mut client = client(Revision::V2026_07_28);
    let page = json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}});
    for (capabilities, expected) in
        [(json!({}), &["record_figure", "show_dashboard"][..]), (page, &["figures", "record_figure", "show_dashboard"])]
    {
        let params = json!({"_meta": {"io.modelcontextprotocol/clientCapabilities": capabilities}});
        let listed = client.request("tools/list", params).await.unwrap();
        let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, expected);
    }
    assert!(client.read("ui://dashboard/chart").await.unwrap().text().contains("app.call(\"figures\""));
}
