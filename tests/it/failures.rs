//! Errors of functions, as seen by the client and the log.

use std::{
    error::Error,
    fmt,
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use mcp_runtime::{
    ErrorResponse, Fault, IntoErrorResponse, Revision, Server,
    layers::{MaskErrors, Outcome, from_fn},
    prompt, resource,
    testing::TestClient,
    tool,
};
use mcp_tests::golden::GoldenFiles;
use serde_json::{Value, json};

use crate::layers::log::Log;

/// An error that chooses what is shown.
#[derive(Debug)]
enum ShopError {
    OutOfStock,
    Closed,
    Database,
    Supplier,
}

impl fmt::Display for ShopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfStock => "out of stock",
            Self::Closed => "closed on Sundays",
            Self::Database => "password=hunter2",
            Self::Supplier => "supplier 7 does not answer",
        })
    }
}

impl Error for ShopError {}

impl IntoErrorResponse for ShopError {
    fn into_error_response(self) -> ErrorResponse {
        match self {
            Self::OutOfStock => ErrorResponse::message(self),
            Self::Closed => Fault::custom(4003, self.to_string()).into(),
            Self::Database => ErrorResponse::masked(self),
            Self::Supplier => ErrorResponse::message("delivered later").with_log(self),
        }
    }
}

fn shop_error(case: &str) -> ShopError {
    match case {
        "message" => ShopError::OutOfStock,
        "fault" => ShopError::Closed,
        "masked" => ShopError::Database,
        _ => ShopError::Supplier,
    }
}

fn fault() -> Fault {
    Fault::custom(4004, "a fault")
}

/// Declares a tool, a resource and a prompt that return the error of a case.
macro_rules! functions {
    ($tool:ident, $resource:ident, $prompt:ident, $uri:literal, $error:ty, $fail:expr) => {
        /// Fail.
        #[tool]
        fn $tool(case: &str) -> Result<String, $error> {
            $fail(case)
        }

        /// Fail.
        #[resource($uri)]
        fn $resource(case: &str) -> Result<String, $error> {
            $fail(case)
        }

        /// Fail after waiting.
        #[prompt]
        async fn $prompt(case: &str) -> Result<String, $error> {
            tokio::task::yield_now().await;
            $fail(case)
        }
    };
}

functions!(enum_tool, enum_resource, enum_prompt, "enum://{case}", ShopError, |case| Err(shop_error(case)));
functions!(failure_tool, failure_resource, failure_prompt, "failure://{case}", ErrorResponse, |case| Err(shop_error(
    case
))?);
functions!(text_tool, text_resource, text_prompt, "text://{case}", String, |case: &str| Err(case.to_owned()));
functions!(fault_tool, fault_resource, fault_prompt, "fault://{case}", Fault, |_| Err(fault()));
functions!(anyhow_tool, anyhow_resource, anyhow_prompt, "anyhow://{case}", anyhow::Error, |case| match case {
    "fault" => Err(fault()).context("while ordering"),
    "failure" => Err(ErrorResponse::from(ShopError::Supplier)).context("while ordering").context("twice"),
    _ => Err(ShopError::Supplier).context("while ordering"),
});
functions!(
    boxed_tool,
    boxed_resource,
    boxed_prompt,
    "boxed://{case}",
    Box<dyn Error + Send + Sync>,
    |case| match case {
        "fault" => Err(fault().into()),
        _ => Err("a text".into()),
    }
);
functions!(local_tool, local_resource, local_prompt, "local://{case}", Box<dyn Error>, |case| match case {
    "fault" => Err(fault().into()),
    _ => Err("a text".into()),
});

const CASES: [(&str, &[&str]); 7] = [
    ("enum", &["message", "fault", "masked", "message_with_log"]),
    ("failure", &["message", "fault", "masked", "message_with_log"]),
    ("text", &["a text"]),
    ("fault", &["fault"]),
    ("anyhow", &["fault", "failure", "other"]),
    ("boxed", &["fault", "other"]),
    ("local", &["fault", "other"]),
];

fn server() -> Server {
    Server::new("failures", "1.0.0").only(|entry| entry.module.ends_with("::failures"))
}

/// Calls the function of every kind. Returns what the client and the log see.
async fn see(client: &mut TestClient, log: &Log, error: &str, case: &str) -> Value {
    let mut seen = json!({});
    for (kind, method, params) in [
        ("tool", "tools/call", json!({"name": format!("{error}_tool"), "arguments": {"case": case}})),
        ("resource", "resources/read", json!({"uri": format!("{error}://{}", case.replace(' ', "%20"))})),
        ("prompt", "prompts/get", json!({"name": format!("{error}_prompt"), "arguments": {"case": case}})),
    ] {
        let response = client.request(method, params).await;
        let client = response.unwrap_or_else(|error| json!({"code": error.code, "message": error.message}));
        let log: Vec<_> = log.take("function failed").iter().map(|line| without_id(line)).collect();
        let references = [client.to_string(), log.join("\n")].map(|text| reference(&text));
        assert_eq!(references[0], references[1], "{client} {log:?}");
        seen[kind] = match &references[0] {
            Some(reference) => serde_json::from_str(
                &json!({"client": client, "log": log}).to_string().replace(reference.as_str(), "REFERENCE"),
            )
            .unwrap(),
            None => json!({"client": client, "log": log}),
        };
    }
    seen
}

fn without_id(line: &str) -> String {
    line.split(' ').filter(|word| !word.starts_with("id=")).collect::<Vec<_>>().join(" ")
}

/// Returns the reference in a text.
fn reference(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("reference ").or_else(|| text.split_once("reference=\""))?;
    Some(rest.chars().take(12).collect())
}

#[tokio::test]
async fn errors_of_functions_match_the_golden_files() {
    let (log, _guard) = Log::listen();
    let mut problems = Vec::new();
    for revision in Revision::ALL {
        let mut golden = GoldenFiles::open("failures", revision);
        let mut client = server().test_client(revision);
        for (error, cases) in CASES {
            for case in cases {
                let seen = see(&mut client, &log, error, case).await;
                golden.check(&format!("{error}_{}", case.replace(' ', "_")), &seen);
            }
        }
        problems.extend(golden.finish());
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// A layer that replaces the outcome does not keep the reason from the log.
#[tokio::test]
async fn reasons_are_logged_once_behind_layers() {
    let (log, _guard) = Log::listen();
    for replaced in [false, true] {
        let mut client = server()
            .layer(MaskErrors::new())
            .layer(from_fn(move |call, next| async move {
                let outcome = next.run(call.clone()).await;
                if replaced { Outcome::error(&call, "replaced") } else { outcome }
            }))
            .test_client(Revision::V2026_07_28);
        for (case, shown) in [("masked", "`enum_tool` failed; see the server log"), ("message", "out of stock")] {
            let text = client.call("enum_tool", json!({"case": case})).await.unwrap().text();
            assert!(text.starts_with(if replaced { "replaced" } else { shown }), "{text}");
            let logged = log.take("function failed");
            assert_eq!(logged.len(), usize::from(case == "masked"), "{logged:?}");
            assert!(logged.iter().all(|line| line.contains("hunter2")), "{logged:?}");
        }
    }
}

#[tokio::test]
async fn functions_that_block_their_connection_are_logged() {
    const LONG: Duration = Duration::from_millis(101);

    #[tool]
    fn at_once() {
        thread::sleep(LONG);
    }

    #[tool]
    async fn before_it_waits() {
        thread::sleep(LONG);
        tokio::task::yield_now().await;
    }

    #[tool(task)]
    async fn after_it_waited() {
        tokio::task::yield_now().await;
        thread::sleep(LONG);
    }

    let (log, _guard) = Log::listen();
    let server = Server::empty("slow", "1.0.0").with::<at_once>().with::<before_it_waits>();
    let mut client = server.with::<after_it_waited>().test_client(Revision::V2026_07_28);
    for (tool, remedy) in [
        ("at_once", "mark it as `blocking`, or make it async"),
        ("before_it_waits", "run what blocks in `tokio::task::spawn_blocking`"),
        ("after_it_waited", "run what blocks in `tokio::task::spawn_blocking`"),
    ] {
        client.call(tool, json!({})).await.unwrap();
        let logged = log.take("function blocked its connection");
        let is_expected = |line: &String| line.contains(&format!("name={tool:?}")) && line.contains(remedy);
        assert!(logged.iter().any(is_expected), "{tool}: {logged:?}");
    }
}

/// Without a subscriber, as in most tests, the log is stderr. Runs in a process of its own, since any other test may
/// set a subscriber.
#[test]
fn masked_errors_are_printed_if_there_is_no_subscriber() {
    let run = |layer: &str, failures: usize| {
        let mut program = print_errors().env("FAILURES_LAYER", layer).stdin(Stdio::piped()).spawn().unwrap();
        // The program writes the log in the background, and ends with its input.
        let log = BufReader::new(program.stderr.take().unwrap());
        let printed: Vec<_> =
            log.lines().map(Result::unwrap).filter(|line| line.contains("failed")).take(failures).collect();
        drop(program.stdin.take());
        assert!(program.wait().unwrap().success(), "{printed:?}");
        printed.join("\n") + "\n"
    };
    let printed = run("none", 3);
    assert_eq!(printed.matches("hunter2").count(), 3, "{printed}");
    assert!(printed.contains("`enum_tool` failed (request 1, reference "), "{printed}");
    let printed = run("mask", 4);
    assert!(printed.contains("`text_tool` failed (request ") && printed.contains(": a secret\n"), "{printed}");
}

/// Without a subscriber, failures are written to stderr, but a full pipe delays nothing.
#[test]
fn failures_do_not_wait_for_stderr_to_be_read() {
    let mut program = print_errors().env("FAILURES_COUNT", "1000").stdin(Stdio::null()).spawn().unwrap();
    let unread = program.stderr.take();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = program.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > Duration::from_secs(60) {
            program.kill().unwrap();
            panic!("the program waits for stderr to be read");
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
    drop(unread);
}

fn print_errors() -> Command {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "failures::prints_masked_errors", "--nocapture", "--include-ignored"]);
    program.stdout(Stdio::null()).stderr(Stdio::piped());
    program
}

#[tokio::test]
#[ignore = "runs in a process of its own"]
async fn prints_masked_errors() {
    let count = std::env::var("FAILURES_COUNT").map_or(0, |count| count.parse().unwrap());
    let masks = std::env::var("FAILURES_LAYER").is_ok_and(|layer| layer == "mask");
    let server = if masks { server().layer(MaskErrors::new()) } else { server() };
    let mut client = server.test_client(Revision::V2025_06_18);
    client.call("enum_tool", json!({"case": "masked"})).await.unwrap();
    client.read("enum://masked").await.unwrap_err();
    client.prompt("enum_prompt", json!({"case": "masked"})).await.unwrap_err();
    client.call("text_tool", json!({"case": "a secret"})).await.unwrap();
    for _ in 0..count {
        client.read(&format!("enum://masked?{}", "x".repeat(1000))).await.unwrap_err();
    }
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
