//! Web pages that an upstream asks users to open.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use mcp_runtime::{
    Context, Fault, Revision, Server,
    ask::{UrlCompletion, UrlElicitation},
    testing::TestClient,
    tool,
};
use serde_json::{Value, json};

use crate::{eventually, gateway, legacy, serve};

type Visits = Mutex<BTreeMap<String, UrlCompletion>>;

/// Ask for a page, or require it.
#[tool]
async fn connect(ctx: &Context, user: String, required: bool, visits: &Visits) -> Result<&'static str, Fault> {
    let page = UrlElicitation::new("page", format!("https://example.com/{user}"), "Connect.");
    let (page, completion) = page.with_completion();
    visits.lock().unwrap().insert(user, completion);
    if required {
        return Err(ctx.url_elicitation_required([page]).await);
    }
    let _ = ctx.ask(page).await?;
    Ok("asked")
}

fn completed(client: &mut TestClient) -> Vec<Value> {
    let is_complete = |message: &Value| message["method"] == "notifications/elicitation/complete";
    let messages = client.notifications().into_iter().filter(is_complete);
    messages.map(|message| message["params"]["elicitationId"].clone()).collect()
}

/// The ids are those of the gateway: those of two upstreams may be equal.
#[tokio::test(flavor = "multi_thread")]
async fn the_completion_of_a_page_reaches_the_client_that_was_asked() {
    let visits = Arc::<Visits>::default();
    let server = Server::empty("upstream", "1.0.0").with::<connect>().with_shared(Arc::clone(&visits)).build().unwrap();
    let address = legacy(serve(&server).await, Revision::V2025_11_25).await;
    let gateway = gateway(&address).await.build().unwrap();
    for required in [false, true] {
        let mut clients = Vec::new();
        for user in ["ada", "bob"] {
            let asked = Arc::<Mutex<Value>>::default();
            let seen = Arc::clone(&asked);
            let mut client = gateway.test_client(Revision::V2025_11_25).answering(move |request| {
                *seen.lock().unwrap() = request.params["elicitationId"].clone();
                json!({"action": "accept"})
            });
            let result = client.call("up_connect", json!({"user": user, "required": required})).await;
            if let Err(error) = result {
                *asked.lock().unwrap() = error.data.unwrap()["elicitations"][0]["elicitationId"].clone();
            }
            let id = asked.lock().unwrap().clone();
            assert!(id.is_string(), "{user}, required: {required}");
            clients.push((user, client, id));
        }
        clients.reverse();
        while let Some((user, mut client, id)) = clients.pop() {
            let complete = visits.lock().unwrap().remove(user).unwrap();
            assert!(complete.complete(), "{user}, required: {required}");
            let mut received = Vec::new();
            eventually!({
                received.extend(completed(&mut client));
                !received.is_empty()
            });
            assert_eq!(received, [id], "{user}, required: {required}");
            for (other, client, _) in &mut clients {
                assert_eq!(completed(client), [] as [Value; 0], "{other}, required: {required}");
            }
        }
    }
}
