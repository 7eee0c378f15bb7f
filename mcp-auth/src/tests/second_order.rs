//! State that a server keeps about earlier requests. Each test performs a long sequence of random requests, and compares the
//! responses with those of the simplest implementation that is right.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use serde_json::json;

use super::{
    authorization_server::{Browser, REDIRECT, World},
    dpop::setup,
};
use crate::{ConfiguredClient, Dpop};

const SCOPES: [&str; 3] = ["notes:read", "notes:write", "notes:read notes:write"];

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    /// Returns a number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn choose<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

fn is_subset(scopes: &str, of: &str) -> bool {
    scopes.split(' ').all(|scope| of.split(' ').any(|other| other == scope))
}

/// A proof is accepted within a minute of its creation, by the clock of either side, and once.
#[tokio::test]
async fn a_proof_is_never_accepted_twice() {
    let setup = setup(Dpop::required());
    let token = setup.token();
    let (mut random, mut elapsed, mut accepted) = (Random(1), 0, HashSet::new());
    let mut proofs: Vec<(i64, String)> = Vec::new();
    for step in 0..600 {
        // The access token expires after an hour.
        if elapsed > 3400 {
            break;
        }
        let proof = random.below(proofs.len() + 2);
        let (created, text) = match proofs.get(proof) {
            Some(proof) => proof,
            None => {
                // Half a minute off the limits, since the real clock advances as well.
                let ahead = random.choose(&[-90, -50, -10, 0, 10, 50, 90]);
                let iat = i64::try_from(super::signer::now()).unwrap() + elapsed + ahead;
                let text = setup.proof(&token, &step.to_string(), json!({"iat": iat}));
                proofs.push((elapsed + ahead, text));
                &proofs[proofs.len() - 1]
            }
        };
        let is_recent = (elapsed - created).abs() < 60;
        let is_new = !accepted.contains(text);
        let refusal = setup.refusal(&token, &[text]).await.map(|(_, message, _)| message);
        let expected = match (is_recent, is_new) {
            (false, _) => Some("the proof was not created just now"),
            (true, false) => Some("the proof was used before"),
            (true, true) => None,
        };
        assert_eq!(refusal.as_deref(), expected, "step {step}: created at {created}, used at {elapsed}");
        if expected.is_none() {
            accepted.insert(text.clone());
        }
        // Old proofs would only be refused as such.
        proofs.retain(|(created, _)| elapsed - created < 200);
        let pause = random.choose(&[0, 0, 0, 0, 20, 40]);
        setup.clock.advance(Duration::from_secs(pause));
        elapsed += i64::try_from(pause).unwrap();
    }
    assert!(accepted.len() > 50, "{}", accepted.len());
}

/// An approval counts for its browser, client and redirect URI, and for the scopes of the last one, until another user
/// approves something in its browser.
#[tokio::test]
async fn users_are_asked_unless_they_have_approved_the_same_in_the_same_browser() {
    let (second, third) = ("https://app.example/second", "https://third.example/callback");
    let world = World::with(|builder| {
        builder.with_client(ConfiguredClient::public("two", "Two", [REDIRECT, second, third]).unwrap())
    })
    .await;
    let targets = [("app", REDIRECT), ("two", REDIRECT), ("two", second), ("two", third)];
    let mut browsers = [Browser::default(), Browser::default()];
    let (mut random, mut approved) = (Random(2), HashMap::<(usize, &str, &str), &str>::new());
    let (mut logins, mut users, mut displaced) = (0, ["ada", "ada"], 0);
    for step in 0..600 {
        let (browser, (client, redirect), scopes) =
            (random.below(browsers.len()), random.choose(&targets), random.choose(&SCOPES));
        let changes = [("client_id", client), ("redirect_uri", redirect), ("scope", scopes)];
        let response = world.authorize(&mut browsers[browser], &changes).await;
        let key = (browser, client, redirect);
        let is_covered = approved.get(&key).is_some_and(|approved| is_subset(scopes, approved));
        assert_eq!(response.status, if is_covered { 303 } else { 200 }, "step {step}: {browser} {changes:?}");
        // Most questions remain unanswered. A user may log in 60 times in an hour.
        if !is_covered && logins < 100 && random.below(4) == 0 {
            logins += 1;
            let user = random.choose(&["ada", "ada", "ada", "ada", "bob"]);
            world.set_user(user);
            if std::mem::replace(&mut users[browser], user) != user {
                let before = approved.len();
                approved.retain(|(of, ..), _| *of != browser);
                displaced += before - approved.len();
            }
            let login = world.answer(&mut browsers[browser], &response, "approve").await;
            let response = world.return_with(&mut browsers[browser], &login, &[("code", "x")]).await;
            assert!(response.parameter("code").is_some(), "{response:?}");
            approved.insert(key, scopes);
        }
    }
    assert!(displaced > 5, "{displaced}");
}

/// Many approvals in one browser are approvals of one browser.
#[tokio::test]
async fn a_busy_browser_does_not_displace_another() {
    let world = World::new().await;
    let (mut quiet, mut busy) = (Browser::default(), Browser::default());
    world.log_in(&mut quiet, &[]).await;
    for step in 0..24 {
        let page = world.authorize(&mut busy, &[("scope", SCOPES[step % 2])]).await;
        let login = world.answer(&mut busy, &page, "approve").await;
        world.return_with(&mut busy, &login, &[("code", "x")]).await;
    }
    assert_eq!(world.authorize(&mut quiet, &[]).await.status, 303);
    // The approvals of ten browsers are remembered.
    for _ in 0..8 {
        world.log_in(&mut Browser::default(), &[]).await;
    }
    assert_eq!(world.authorize(&mut quiet, &[]).await.status, 303);
    world.log_in(&mut Browser::default(), &[]).await;
    assert_eq!(world.authorize(&mut quiet, &[]).await.status, 200);
}

/// Each refresh may ask for fewer scopes; the grant keeps those that the user has approved.
#[tokio::test]
async fn a_narrower_token_does_not_narrow_the_grant() {
    let world = World::new().await;
    let mut random = Random(3);
    for granted in SCOPES {
        let code = world.code(&[("scope", granted)]).await;
        let mut tokens = world.exchange(&code, &[]).await.json();
        assert_eq!(tokens["scope"], granted);
        for step in 0..20 {
            let requested = random.choose(&[None, Some(SCOPES[0]), Some(SCOPES[1]), Some(SCOPES[2])]);
            let mut parameters = BTreeMap::from([
                ("grant_type", "refresh_token"),
                ("client_id", "app"),
                ("refresh_token", tokens["refresh_token"].as_str().unwrap()),
            ]);
            parameters.extend(requested.map(|scopes| ("scope", scopes)));
            let response = world.token(&parameters.into_iter().collect::<Vec<_>>()).await.json();
            let expected = requested.unwrap_or(granted);
            if is_subset(expected, granted) {
                assert_eq!(response["scope"], expected, "{granted}, step {step}");
                assert!(world.accepts(&response["access_token"]).await);
                tokens = response;
            } else {
                assert_eq!(response["error"], "invalid_scope", "{granted}, step {step}");
            }
        }
    }
}
