//! What happens if the store of records fails.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_runtime::{BackendError, BackendFuture, MemoryRecords, Record, RecordCondition, RecordVersion, Records};
use serde_json::json;

use super::{Browser, REDIRECT, World, form};

/// A store that a test can interrupt.
#[derive(Debug, Default, Clone)]
struct Interrupted {
    records: Arc<MemoryRecords>,
    is_down: Arc<AtomicBool>,
}

impl Interrupted {
    fn or_fail<'a, T: Send + 'a>(&self, result: BackendFuture<'a, T>) -> BackendFuture<'a, T> {
        if self.is_down.load(Ordering::Relaxed) {
            return Box::pin(async { Err(BackendError::Unavailable("a secret of the store".to_owned())) });
        }
        result
    }
}

impl Records for Interrupted {
    fn get<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Option<Record>> {
        self.or_fail(self.records.get(key))
    }

    fn set<'a>(
        &'a self,
        key: &'a str,
        condition: RecordCondition,
        value: Vec<u8>,
        ttl: Duration,
    ) -> BackendFuture<'a, Option<RecordVersion>> {
        if self.is_down.load(Ordering::Relaxed) {
            return self.or_fail(Box::pin(async { Ok(None) }));
        }
        self.records.set(key, condition, value, ttl)
    }

    fn delete<'a>(&'a self, key: &'a str, condition: RecordCondition) -> BackendFuture<'a, bool> {
        self.or_fail(self.records.delete(key, condition))
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BackendFuture<'a, Vec<(String, Record)>> {
        self.or_fail(self.records.list(group, after, limit))
    }

    fn count<'a>(&'a self, group: &'a str) -> BackendFuture<'a, usize> {
        self.or_fail(self.records.count(group))
    }
}

#[tokio::test]
async fn requests_that_need_the_store_fail_for_a_while_and_nothing_is_lost() {
    let store = Interrupted::default();
    let records = store.clone();
    let world = World::with(|builder| builder.records(records)).await;
    let metadata = json!({"redirect_uris": [REDIRECT]});
    let registered = world.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    let tokens = world.tokens().await;
    let code = world.code(&[]).await;
    let mut browser = Browser::default();
    let page = world.authorize(&mut browser, &[]).await;
    let login = world.answer(&mut browser, &page, "approve").await;
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let revocation = form(&[("client_id", "app"), ("token", refresh)]);

    store.is_down.store(true, Ordering::Relaxed);
    for response in [
        world.exchange(&code, &[]).await,
        world.refresh(refresh).await,
        world.register(&metadata).await,
        world.send("POST", "/revoke", &[], &revocation).await,
    ] {
        assert_eq!((response.status, response.header("retry-after")), (503, "60"), "{response:?}");
        assert_eq!(response.json()["error"], "temporarily_unavailable");
        assert!(!response.body.contains("secret"), "{response:?}");
    }
    let page = world.authorize(&mut Browser::default(), &[("client_id", &registered)]).await;
    assert_eq!(page.status, 503, "{page:?}");
    let response = world.return_with(&mut browser, &login, &[("code", "x")]).await;
    assert_eq!(response.parameter("error").as_deref(), Some("temporarily_unavailable"), "{response:?}");
    assert!(world.accepts(&tokens["access_token"]).await, "access tokens need no store");

    store.is_down.store(false, Ordering::Relaxed);
    assert_eq!(world.exchange(&code, &[]).await.status, 200);
    assert_eq!(world.refresh(refresh).await.status, 200);
    assert_eq!(world.authorize(&mut Browser::default(), &[("client_id", &registered)]).await.status, 200);
}
