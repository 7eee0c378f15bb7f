//! Tests with real servers, which `tests/redis/run` installs.

mod process;
mod proxy;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mcp_redis::Redis;
use mcp_runtime::{
    backend::{
        Append, BackendError, EventLogs as _, Insertion, LogBounds, LogPosition, RecordCondition, RecordQuota,
        Records as _, TopicEvent, TopicSubscription, Topics as _,
    },
    testing::backend_contract,
};
use process::{Server, cluster, cluster_url, programs};
use proxy::{CUT, Proxy};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

const MINUTE: Duration = Duration::from_secs(60);

/// The time in which a connection must work again.
const RECOVERY: Duration = Duration::from_secs(20);

/// The time in which an operation must fail that cannot succeed.
const FAILURE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_single_server_keeps_the_contract() {
    for program in programs() {
        let server = Server::start(&program, &[]).await;
        // The rights that the guide states.
        let rights = "~mcp:* &mcp:* +@read +@write +@pubsub +@scripting +@connection +time";
        assert_eq!(server.command(&format!("ACL SETUSER service on >secret {rights}")).await, "+OK");
        let connect = || async { Redis::connect(&format!("redis://service:secret@127.0.0.1:{}", server.port)).await };
        backend_contract(connect().await.unwrap(), connect().await.unwrap()).await.unwrap();
        let immortal = "EVAL \"local n = 0 for _, key in ipairs(redis.call('KEYS', '*')) do \
                        if redis.call('PTTL', key) < 0 then n = n + 1 end end return n\" 0";
        assert_eq!(server.command(immortal).await, ":0", "everything expires");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_keeps_the_contract() {
    for program in programs() {
        let servers = cluster(&program).await;
        // The first node is unreachable.
        let url = cluster_url(&servers).replace("://", "://127.0.0.1:1,");
        backend_contract(Redis::connect(&url).await.unwrap(), Redis::connect(&url).await.unwrap()).await.unwrap();
        for server in &servers {
            assert_ne!(server.command("DBSIZE").await, ":0", "keys are spread over all nodes");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_name_the_server_and_its_successor() {
    for program in programs() {
        let mut master = Server::start(&program, &[]).await;
        let replica = Server::start(&program, &["--replicaof", &format!("127.0.0.1 {}", master.port)]).await;
        let sentinel = Server::sentinel(&program, &master).await;
        sentinel.until("SENTINEL MASTER main", |response| response.starts_with('*')).await;
        let info = |response: &str| response.contains("slaves=1") || response.contains("replicas=1");
        sentinel.until("INFO sentinel", info).await;
        // Sentinels do not know the users of the servers.
        for server in [&master, &replica] {
            assert_eq!(server.command("ACL SETUSER app on >secret ~* &* +@all").await, "+OK");
        }
        let url = format!("redis+sentinel://app:secret@127.0.0.1:{}/main", sentinel.port);
        let (one, other) = (Redis::connect(&url).await.unwrap(), Redis::connect(&url).await.unwrap());
        backend_contract(one.clone(), other.clone()).await.unwrap();

        let mut subscription = other.subscribe("news").await.unwrap();
        one.set("kept", RecordCondition::Always, b"x".to_vec(), MINUTE).await.unwrap();
        replica.until("INFO replication", |info| info.contains("master_link_status:up")).await;
        master.kill();
        recovers(&one).await;
        assert!(one.get("kept").await.unwrap().is_some());
        assert_eq!(soon(subscription.next()).await, Some(TopicEvent::Missed));
        heard(&one, &mut subscription).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_is_used_again() {
    for program in programs() {
        let mut server = Server::start(&program, &[]).await;
        let redis = server.connect().await;
        let version = redis.set("kept", RecordCondition::Absent, b"x".to_vec(), MINUTE).await.unwrap().unwrap();
        let bounds = LogBounds::new(9, 99, MINUTE);
        let last = redis.append("log", LogPosition::START, vec![b"x".to_vec()], bounds).await.unwrap().last();
        let mut subscription = redis.subscribe("news").await.unwrap();
        let (reader, waiting) = (redis.clone(), last);
        let reader = tokio::spawn(async move {
            // A failure while there is no server is no answer.
            while reader.appended("log", waiting).await.is_err() {}
        });
        server.kill();
        fails(&redis).await;
        // Further operations do not wait for a server that has been gone for as long as an operation may take.
        let start = Instant::now();
        fails(&redis).await;
        assert!(start.elapsed() < FAILURE / 2);
        server.restart().await;
        recovers(&redis).await;
        assert_eq!(redis.get("kept").await.unwrap().map(|record| record.version), Some(version));
        assert_eq!(soon(subscription.next()).await, Some(TopicEvent::Missed));
        heard(&redis, &mut subscription).await;
        assert!(!reader.is_finished(), "a log has no new entries");
        let next = LogPosition::new(last.number() + 1);
        assert_eq!(redis.append("log", last, vec![b"y".to_vec()], bounds).await, Ok(Append::Appended(next)));
        soon(reader).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_reported_in_time() {
    for program in programs() {
        let server = Server::start(&program, &[]).await;
        let redis = Redis::builder(&server.url()).max_in_flight(8).connect().await.unwrap();
        let mut subscription = redis.subscribe("news").await.unwrap();
        server.pause(true);
        let mut tasks = JoinSet::new();
        for _ in 0..100 {
            let redis = redis.clone();
            tasks.spawn(async move { redis.get("key").await });
        }
        let mut busy = 0;
        let start = Instant::now();
        while let Some(task) = tasks.join_next().await {
            let Err(BackendError::Unavailable(reason)) = task.unwrap() else { panic!("the server hangs") };
            busy += usize::from(reason.contains("too many commands"));
        }
        assert_eq!(busy, 92, "the number of commands in flight is bounded");
        assert!(start.elapsed() < FAILURE);
        fails(&redis).await;
        server.pause(false);
        recovers(&redis).await;
        // The connection for subscriptions may have been kept.
        redis.publish("news", b"done".to_vec()).await.unwrap();
        while soon(subscription.next()).await != Some(TopicEvent::Message((*b"done").into())) {}
    }
}

/// An operation waits for as long as the option says, and the bytes of the operations that wait are bounded.
#[tokio::test(flavor = "multi_thread")]
async fn operations_wait_for_a_server_that_hangs_as_long_as_they_may() {
    /// A record has nine bytes in front of its value.
    const LONGEST_VALUE: usize = (64 << 20) - 9;
    for program in programs() {
        let server = Server::start(&program, &[]).await;
        let redis = Redis::builder(&server.url()).timeout(MINUTE).connect().await.unwrap();
        server.pause(true);
        let set = |key| redis.set(key, RecordCondition::Absent, vec![0; LONGEST_VALUE], MINUTE);
        let resume = async {
            sleep(FAILURE).await;
            server.pause(false);
        };
        let (first, second, ()) = tokio::join!(set("a"), set("b"), resume);
        assert!(matches!(first, Ok(Some(_))), "{first:?}");
        let Err(BackendError::Unavailable(reason)) = second else { panic!("too many bytes wait: {second:?}") };
        assert!(reason.contains("too many commands"), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_happens_twice_when_connections_are_cut() {
    const WRITERS: u64 = 16;
    const CUTS: u64 = 20;
    for program in programs() {
        let server = Server::start(&program, &[]).await;
        let redis = Arc::new(server.connect().await);
        let bounds = LogBounds::new(1 << 20, 1 << 30, MINUTE);
        let mut tasks = JoinSet::new();
        let quota = RecordQuota { account: "", per_account: 0, total: usize::MAX };
        for writer in 0..WRITERS {
            let redis = Arc::clone(&redis);
            tasks.spawn(async move {
                let (mut changes, mut unknown, mut appended) = (0, 0, 0);
                let start = Instant::now();
                while start.elapsed() < Duration::from_secs(2) {
                    let current = redis.get("counter").await.expect("reading is repeated");
                    let count =
                        current.as_ref().map_or(0, |record| u64::from_be_bytes((*record.value).try_into().unwrap()));
                    let condition =
                        current.map_or(RecordCondition::Absent, |record| RecordCondition::Version(record.version));
                    let value = (count + 1).to_be_bytes().to_vec();
                    match redis.set("counter", condition, value, MINUTE).await {
                        Ok(changed) => changes += u64::from(changed.is_some()),
                        Err(_) => unknown += 1,
                    }
                    let (log, after) = (format!("log {writer}"), LogPosition::new(appended));
                    // A repetition finds the entry of the first attempt.
                    let append = redis.append(&log, after, vec![b"x".to_vec()], bounds).await;
                    appended += 1;
                    assert_eq!(append.expect("a change is repeated").last().number(), appended);
                    let name = format!("{writer} {appended}");
                    let inserted = redis.insert("names", &name, vec![], MINUTE, quota).await;
                    assert!(matches!(inserted, Ok(Insertion::Inserted(_))), "{inserted:?}");
                }
                let log = redis.read(&format!("log {writer}"), LogPosition::START, usize::MAX).await.unwrap().unwrap();
                assert_eq!(log.len() as u64, appended);
                (changes, unknown, appended)
            });
        }
        for _ in 0..CUTS {
            sleep(Duration::from_millis(90)).await;
            server.command("CLIENT KILL TYPE normal").await;
        }
        let (mut changes, mut unknown, mut appended) = (0, 0, 0);
        while let Some(task) = soon(tasks.join_next()).await {
            let counts = task.unwrap();
            (changes, unknown, appended) = (changes + counts.0, unknown + counts.1, appended + counts.2);
        }
        let counter = redis.get("counter").await.unwrap().unwrap().value;
        let counter = u64::from_be_bytes((*counter).try_into().unwrap());
        assert!((changes..=changes + unknown).contains(&counter), "{changes} of {counter}, {unknown} unknown");
        assert!(
            changes > 0 && unknown <= CUTS * WRITERS,
            "a cut concerns at most one change of each writer: {unknown}"
        );
        assert_eq!(redis.count("names").await.unwrap() as u64, appended);
    }
}

/// The server has executed a command, and its response is lost. Only what has no other effect if it is executed twice is sent
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_response_is_lost_is_repeated_if_that_is_safe() {
    use RecordCondition::{Absent, Always, Version};

    async fn nothing() {}

    for program in programs() {
        let server = Server::start(&program, &[]).await;
        let (proxy, other) = (Proxy::start(&server).await, server.connect().await);
        let redis = Redis::builder(&proxy.url()).timeout(MINUTE).connect().await.unwrap();
        // The server has to know the scripts.
        let quota = RecordQuota { account: "", per_account: 0, total: 1 };
        let append = |redis: Redis, key| async move {
            redis.append(key, LogPosition::START, vec![b"x".to_vec()], LogBounds::new(9, 99, MINUTE)).await
        };
        other.set("known:name", Always, Vec::new(), MINUTE).await.unwrap();
        other.delete("known:name", Always).await.unwrap();
        other.insert("known", "name", Vec::new(), MINUTE, quota).await.unwrap();
        append(other.clone(), "known").await.unwrap();
        // The next command is sent over the connection that replaces the closed one.
        let reconnect = async || assert_eq!(redis.get("reconnected").await, Ok(None));
        let is_unknown = |result: Result<(), BackendError>| matches!(result, Err(BackendError::Unavailable(_)));
        for key in [CUT.to_owned(), format!("group:{CUT}")] {
            let set = |condition| redis.set(&key, condition, b"x".to_vec(), MINUTE);
            let first = proxy.cut(set(Absent), nothing()).await.unwrap().expect("the record is new");
            let second = proxy.cut(set(Version(first)), nothing()).await.unwrap().expect("nothing has changed it");
            assert_eq!(other.get(&key).await.unwrap().map(|record| record.version), Some(second));
            assert!(is_unknown(proxy.cut(set(Always), nothing()).await.map(drop)), "another change may have followed");
            reconnect().await;
            let delete = redis.delete(&key, Always);
            assert!(is_unknown(proxy.cut(delete, nothing()).await.map(drop)), "another record may have followed");
            reconnect().await;
            // Another process changes the record before the command is repeated.
            let change = async || {
                other.set(&key, Always, b"y".to_vec(), MINUTE).await.unwrap();
            };
            for is_new in [true, false] {
                let current = other.get(&key).await.unwrap().map(|record| record.version);
                assert_eq!(current.is_none(), is_new);
                let changed = proxy.cut(set(current.map_or(Absent, Version)), change()).await;
                assert!(is_unknown(changed.map(drop)), "the record has another version: {is_new}");
            }
        }
        let insert = redis.insert("names", CUT, Vec::new(), MINUTE, quota);
        assert!(matches!(proxy.cut(insert, nothing()).await, Ok(Insertion::Inserted(_))));
        let appended = proxy.cut(append(redis.clone(), CUT), nothing()).await;
        assert_eq!(appended, Ok(Append::Conflict(LogPosition::new(1))));
        assert!(is_unknown(proxy.cut(redis.publish(CUT, Vec::new()), nothing()).await), "it may have arrived");
        reconnect().await;
        assert!(proxy.cut(redis.get(CUT), nothing()).await.unwrap().is_some());
    }
}

/// A connection may be interrupted without being closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_over_which_nothing_arrives_is_replaced() {
    for program in programs() {
        let server = Server::start(&program, &[]).await;
        let proxy = Proxy::start(&server).await;
        let redis = Redis::connect(&proxy.url()).await.unwrap();
        let mut subscription = redis.subscribe("news").await.unwrap();
        heard(&redis, &mut subscription).await;
        proxy.silence(true);
        let unconfirmed = timeout(Duration::from_millis(100), redis.subscribe("other")).await;
        assert!(unconfirmed.is_err(), "messages could be lost until the server has confirmed a subscription");
        assert_eq!(soon(subscription.next()).await, Some(TopicEvent::Missed));
        heard(&redis, &mut subscription).await;
        proxy.silence(false);
        fails(&redis).await;
        recovers(&redis).await;
    }
}

/// A server without memory for more deletes records.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_listed_without_the_records_that_the_server_has_evicted() {
    for program in programs() {
        let server = Server::start(&program, &[]).await;
        let redis = server.connect().await;
        for name in ["group:1", "group:2", "group:3"] {
            redis.set(name, RecordCondition::Absent, Vec::new(), MINUTE).await.unwrap();
        }
        assert_eq!(server.command("EVAL \"return redis.call('DEL', redis.call('KEYS', '*:1')[1])\" 0").await, ":1");
        let listed = redis.list("group", None, 2).await.unwrap();
        assert_eq!(listed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["2", "3"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_learn_that_they_may_have_missed_messages() {
    for program in programs() {
        let server = Server::start(&program, &[]).await;
        let redis = server.connect().await;
        let mut subscriptions = Vec::new();
        for topic in ["a", "a", "b"] {
            subscriptions.push(redis.subscribe(topic).await.unwrap());
        }
        for _ in 0..3 {
            server.command("CLIENT KILL TYPE pubsub").await;
            for subscription in &mut subscriptions {
                assert_eq!(soon(subscription.next()).await, Some(TopicEvent::Missed));
            }
            for topic in ["a", "b"] {
                redis.publish(topic, topic.as_bytes().to_vec()).await.unwrap();
            }
            for (topic, subscription) in ["a", "a", "b"].into_iter().zip(&mut subscriptions) {
                let expected = Some(TopicEvent::Message(topic.as_bytes().into()));
                assert_eq!(soon(subscription.next()).await, expected);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_subscribes_to_a_topic_once_and_unsubscribes_when_it_is_unused() {
    for program in programs() {
        let server = Server::start(&program, &[]).await;
        let (redis, other) = (server.connect().await, server.connect().await);
        let mut subscriptions = Vec::new();
        for _ in 0..100 {
            subscriptions.push(redis.subscribe("news").await.unwrap());
        }
        subscriptions.push(other.subscribe("news").await.unwrap());
        let count = "EVAL \"return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]\" 0 mcp:0/topic:news";
        assert_eq!(server.command(count).await, ":2");
        drop(subscriptions);
        server.until(count, |count| count == ":0").await;
        heard(&redis, &mut redis.subscribe("news").await.unwrap()).await;
    }
}

/// The announcement of an entry says its position, so a reader that waits for the next one need not ask for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_waits_again_asks_nothing() {
    const ENTRIES: usize = 100;
    for program in programs() {
        let server = Server::start(&program, &[]).await;
        let (reader, writer) = (server.connect().await, server.connect().await);
        let append = |after| writer.append("log", after, vec![b"x".to_vec()], LogBounds::new(9, 99, MINUTE));
        let mut last = append(LogPosition::START).await.unwrap().last();
        server.command("CONFIG RESETSTAT").await;
        for _ in 0..ENTRIES {
            let reader = reader.clone();
            let waiting = tokio::spawn(async move { reader.appended("log", last).await });
            last = append(last).await.unwrap().last();
            soon(waiting).await.unwrap().unwrap();
        }
        // Each append reads the newest entry, too.
        let statistics = server.command("INFO commandstats").await;
        let (_, reads) = statistics.split_once("cmdstat_xrevrange:calls=").unwrap();
        let reads: usize = reads[..reads.find(',').unwrap()].parse().unwrap();
        assert!(reads - ENTRIES < ENTRIES / 4, "{reads} for {ENTRIES} entries");
    }
}

/// A reader asks for the newest entry every ten seconds, and need not wait for that.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_learns_at_once_that_a_log_was_deleted() {
    for program in programs() {
        let server = Server::start(&program, &[]).await;
        let (reader, writer) = (server.connect().await, server.connect().await);
        let bounds = LogBounds::new(9, 99, MINUTE);
        let last = writer.append("log", LogPosition::START, vec![b"x".to_vec()], bounds).await.unwrap().last();
        let waiting = tokio::spawn(async move { reader.appended("log", last).await });
        let count = "EVAL \"return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]\" 0 mcp:0/log:log";
        server.until(count, |count| count == ":1").await;
        sleep(Duration::from_millis(100)).await;
        writer.remove("log").await.unwrap();
        timeout(FAILURE * 2, waiting).await.expect("it is announced").unwrap().unwrap();
    }
}

/// A new session needs few commands: its share of the sessions of its peer, its record, `initialized`, and the announcement of that.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_is_few_commands() {
    for program in programs() {
        let server = Server::start(&program, &[]).await;
        let redis = server.connect().await;
        let mut least = usize::MAX;
        for session in 0..8 {
            server.command("CONFIG RESETSTAT").await;
            let (key, value) = (format!("session {session}"), vec![b'x'; 300]);
            let quota = RecordQuota { account: "", per_account: 0, total: 100 };
            redis.insert("peer", &key, b"0".to_vec(), MINUTE, quota).await.unwrap();
            let version = redis.set(&key, RecordCondition::Absent, value.clone(), MINUTE).await.unwrap().unwrap();
            let initialized = redis.set(&key, RecordCondition::Version(version), value, MINUTE).await.unwrap();
            assert!(initialized.is_some());
            redis.publish("replicas", b"changed".to_vec()).await.unwrap();
            let statistics = server.command("INFO commandstats").await;
            let calls = |line: &str| {
                line.strip_prefix("cmdstat_")?.split_once(":calls=")?.1.split(',').next()?.parse::<usize>().ok()
            };
            let sum: usize = statistics.lines().filter(|line| !line.contains("config")).filter_map(calls).sum();
            // The first session loads the scripts, and a process sends itself messages.
            least = least.min(sum);
        }
        // Two scripts with eight commands, and two other commands.
        assert!(least <= 12, "{least} commands");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn services_on_one_server_are_separate() {
    let server = Server::start(&programs()[0], &[]).await;
    let mut services = Vec::new();
    for (url, prefix) in [(server.url(), "a:"), (server.url(), "b:"), (format!("{}/1", server.url()), "a:")] {
        services.push(Redis::builder(&url).prefix(prefix).connect().await.unwrap());
    }
    let mut subscriptions = Vec::new();
    for service in &services {
        assert!(service.set("key", RecordCondition::Absent, Vec::new(), MINUTE).await.unwrap().is_some());
        let last = service.append("log", LogPosition::START, vec![Vec::new()], LogBounds::new(9, 9, MINUTE)).await;
        assert_eq!(last, Ok(Append::Appended(LogPosition::new(1))));
        subscriptions.push(service.subscribe("news").await.unwrap());
    }
    for (number, service) in services.iter().enumerate() {
        service.publish("news", number.to_string().into_bytes()).await.unwrap();
    }
    for (number, subscription) in subscriptions.iter_mut().enumerate() {
        let expected = Some(TopicEvent::Message(number.to_string().as_bytes().into()));
        assert_eq!(soon(subscription.next()).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_rejects_changes_and_keeps_what_it_has() {
    for program in programs() {
        let server = Server::start(&program, &[]).await;
        let redis = server.connect().await;
        redis.set("kept", RecordCondition::Always, b"x".to_vec(), MINUTE).await.unwrap();
        let long = || vec![0; (64 << 20) + 1];
        for key in ["kept", "new", "group:new"] {
            for condition in [RecordCondition::Always, RecordCondition::Absent] {
                let set = redis.set(key, condition, long(), MINUTE).await;
                assert_eq!(set, Err(BackendError::Full), "a value of `{key}` is too long");
            }
        }
        let append = redis.append("log", LogPosition::START, vec![long()], LogBounds::new(9, 9, MINUTE)).await;
        assert_eq!(append, Err(BackendError::Full), "an entry is too long");
        server.command("CONFIG SET maxmemory 1").await;
        let full = redis.set("kept", RecordCondition::Always, b"y".to_vec(), MINUTE).await;
        assert_eq!(full, Err(BackendError::Full));
        let full = redis.append("log", LogPosition::START, vec![vec![]], LogBounds::new(9, 9, MINUTE)).await;
        assert_eq!(full, Err(BackendError::Full));
        assert_eq!(*redis.get("kept").await.unwrap().unwrap().value, *b"x");
        server.command("CONFIG SET maxmemory 0").await;
        // Scripts are sent again when the server has forgotten them.
        server.command("SCRIPT FLUSH").await;
        assert!(redis.set("kept", RecordCondition::Always, b"y".to_vec(), MINUTE).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_respond_is_an_error_at_the_start() {
    let error = Redis::connect("redis://:secret@127.0.0.1:1").await.unwrap_err().to_string();
    assert!(error.starts_with("cannot connect to Redis: ") && !error.contains("secret"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_wrong_password_is_an_error_at_the_start() {
    for program in programs() {
        let server = Server::start(&program, &[]).await;
        server.command("CONFIG SET requirepass secret").await;
        for (credentials, is_accepted) in [("", false), (":wrong@", false), (":secret@", true)] {
            let url = format!("redis://{credentials}127.0.0.1:{}", server.port);
            let connected = Redis::connect(&url).await;
            assert_eq!(connected.is_ok(), is_accepted, "{credentials}: {connected:?}");
        }
    }
}

/// Checks that an operation fails in time.
async fn fails(redis: &Redis) {
    let start = Instant::now();
    let result = redis.get("key").await;
    assert!(matches!(result, Err(BackendError::Unavailable(_))), "{result:?}");
    assert!(start.elapsed() < FAILURE);
}

/// Waits until a change succeeds.
async fn recovers(redis: &Redis) {
    let start = Instant::now();
    while let Err(error) = redis.set("probe", RecordCondition::Always, Vec::new(), MINUTE).await {
        assert!(start.elapsed() < RECOVERY, "{error}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Checks that a subscriber of `news` receives the next message.
async fn heard(redis: &Redis, subscription: &mut TopicSubscription) {
    redis.publish("news", b"now".to_vec()).await.unwrap();
    assert_eq!(soon(subscription.next()).await, Some(TopicEvent::Message((*b"now").into())));
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(RECOVERY, future).await.expect("it happens in time")
}
