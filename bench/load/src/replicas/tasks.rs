//! Small tasks: each is created, polled once, and its result is fetched.

use std::time::Instant;

use serde_json::{Value, json};

use crate::{
    error::{Failure, Result},
    http::{Client, Connection, receive_all},
    message::{Request, Revision},
    replicas::{
        Bench,
        deployment::{Backend, Deployment},
        figures::Figures,
    },
    table::Unit,
};

const PART: &str = "tasks";
/// The number of connections, each with a session and a task at a time.
const CONNECTIONS: usize = 16;
/// The number of tasks before counting starts.
const FIRST: usize = 100;

/// A request about a task.
#[derive(Debug, Clone)]
enum Step {
    Create,
    Get(String),
    Result(String),
}

impl Step {
    fn request(&self) -> Request {
        let (method, params) = match self {
            Self::Create => ("tools/call", json!({ "name": "task", "arguments": {}, "task": {} })),
            Self::Get(id) => ("tasks/get", json!({ "taskId": id })),
            Self::Result(id) => ("tasks/result", json!({ "taskId": id })),
        };
        Request::of(method, params, Revision::Session)
    }

    /// Checks the response, and returns the next step unless the task is done.
    fn next(self, response: &Value) -> Result<Option<Self>> {
        let result = &response["result"];
        let next = match self {
            Self::Create => result["task"]["taskId"].as_str().map(|id| Some(Self::Get(id.to_owned()))),
            Self::Get(id) => {
                let is_known = result["status"] == "working" || result["status"] == "completed";
                is_known.then_some(Some(Self::Result(id)))
            }
            Self::Result(_) => (result["content"][0]["text"] == "done").then_some(None),
        };
        next.ok_or_else(|| Failure::new(format!("unexpected response about a task: {response}")))
    }
}

pub fn measure(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    let memory = measure_one(bench, figures, Backend::Memory)?;
    let redis = measure_one(bench, figures, Backend::Redis { replicas: 1 })?;
    let mut ratios = figures.of(PART, "Redis, 1 replica / memory");
    ratios.add("CPU time of replicas per task", Unit::Ratio, redis / memory);
    Ok(())
}

/// Returns the CPU time of a task.
fn measure_one(bench: &Bench<'_>, figures: &mut Figures, backend: Backend) -> Result<f64> {
    let deployment = Deployment::start(bench, backend)?;
    let mut callers = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = deployment.connect(0)?;
        callers.push((Client::connect_on(&mut connection, Revision::Session)?, connection));
    }
    let (clients, mut connections): (Vec<_>, Vec<_>) = callers.into_iter().unzip();
    run(&clients, &mut connections, FIRST)?;
    let (work, began) = (deployment.work()?, Instant::now());
    run(&clients, &mut connections, bench.tasks)?;
    let elapsed = began.elapsed().as_secs_f64();
    let work = deployment.work_since(&work)?;
    let mut subject = figures.of(PART, backend);
    subject.add("tasks/s", Unit::Rate, bench.tasks as f64 / elapsed);
    subject.add_work(&work, "task", bench.tasks);
    subject.add_peaks(&deployment)?;
    Ok(work.replicas.as_secs_f64() / bench.tasks as f64)
}

/// Runs a number of tasks.
fn run(clients: &[Client], connections: &mut [Connection], count: usize) -> Result<()> {
    let mut steps = vec![Step::Create; connections.len()];
    let send = |step: &Step, client: &Client, connection: &mut Connection| {
        let mut body = Vec::new();
        step.request().write(1, &mut body);
        connection.send(&client.head(None), &body)
    };
    for ((step, client), connection) in steps.iter().zip(clients).zip(connections.iter_mut()) {
        send(step, client, connection)?;
    }
    let (mut begun, mut done) = (connections.len(), 0);
    receive_all(connections, |index, connection, response| {
        let response: Value = serde_json::from_slice(response.message()?)?;
        let step = std::mem::replace(&mut steps[index], Step::Create);
        if let Some(next) = step.next(&response)? {
            steps[index] = next;
        } else {
            done += 1;
            if begun >= count {
                return Ok(done < begun);
            }
            begun += 1;
        }
        send(&steps[index], &clients[index], connection)?;
        Ok(true)
    })
}
