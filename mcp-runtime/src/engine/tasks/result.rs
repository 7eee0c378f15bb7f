//! `tasks/result`: waits for a task, and asks on its stream what the task asks meanwhile.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use tokio::time::sleep;

use super::{
    claims::Claim,
    encode,
    inquiry::{Inquiry, read_error},
    record::{change, failed, set_status},
};
use crate::{
    backend::{TaskInput, TaskOutcome, TaskRecord, time::now},
    engine::{
        client_requests::{Questions, Waiting, put},
        outbox::Outbox,
    },
    error::Fault,
};

/// Where the questions of a task go.
pub(crate) struct Questioning {
    pub(crate) questions: Arc<Questions>,
    pub(crate) outbox: Arc<Outbox>,
    /// The most questions of the session at once.
    pub(crate) most: usize,
}

/// A request that waits for a task to end.
pub(crate) struct Awaiting {
    pub(crate) inquiry: Inquiry,
    pub(crate) questioning: Questioning,
}

/// A question that was put to the client.
struct Asked {
    key: String,
    waiting: Waiting,
    claim: Claim,
}

/// An answer, with the key of its question.
type Answered = (String, Result<String, String>);

impl Awaiting {
    /// Gives what the call would have been answered with.
    ///
    /// # Cancel safety
    ///
    /// Questions that are open are taken back; whoever waits for the task next asks them again.
    pub(crate) async fn result(self) -> Result<Vec<u8>, Fault> {
        let mut asked: Vec<Asked> = Vec::new();
        let claims = self.inquiry.tasks.claims();
        let turn = claims.turn();
        loop {
            // Before the task is looked at, so that no question moves unnoticed.
            let moved = claims.moved.notified();
            let task = self.inquiry.task().await?;
            if task.status.is_final() {
                return ended(&task);
            }
            asked.retain(|asked| asked.claim.holds() && open(&task).any(|input| input.key == asked.key));
            for input in open(&task) {
                self.ask(&task, input, turn, &mut asked)?;
            }
            if let Some((key, answer)) = self.wait(&task, &mut asked, moved).await? {
                asked.retain(|asked| asked.key != key);
                self.answer(task, &key, &answer).await?;
            }
        }
    }

    /// Puts a question to the client, unless this or a newer request has done so.
    fn ask(&self, task: &TaskRecord, input: &TaskInput, turn: u64, asked: &mut Vec<Asked>) -> Result<(), Fault> {
        if asked.iter().any(|asked| asked.key == input.key) {
            return Ok(());
        }
        let Some(claim) = self.inquiry.tasks.claims().claim(&task.id, &input.key, turn) else { return Ok(()) };
        let related = |params: &str| String::from_utf8_lossy(&encode::related(params, &task.id)).into_owned();
        let Questioning { questions, outbox, most } = &self.questioning;
        let mut waiting = put(questions, outbox, *most, &input.method, &related(&input.params))?;
        waiting.taken_back = related(&waiting.taken_back);
        asked.push(Asked { key: input.key.clone(), waiting, claim });
        Ok(())
    }

    /// Waits until there is an answer, or a reason to look at the task again.
    async fn wait(
        &self,
        task: &TaskRecord,
        asked: &mut [Asked],
        moved: impl Future<Output = ()>,
    ) -> Result<Option<Answered>, Fault> {
        let mut changed = self.inquiry.tasks.store().changed(&task.id, task.version);
        let mut expiry = pin!(sleep(Duration::from_millis(task.expires().saturating_sub(now()))));
        let mut moved = pin!(moved);
        let woken = poll_fn(|cx| {
            for Asked { key, waiting, .. } in asked.iter_mut() {
                if let Poll::Ready(answer) = pin!(&mut waiting.answer).poll(cx) {
                    let answer = answer.unwrap_or_else(|_| Err("the session ended".to_owned()));
                    return Poll::Ready(Ok(Some((key.clone(), answer))));
                }
            }
            if let Poll::Ready(changed) = changed.as_mut().poll(cx) {
                return Poll::Ready(changed.map(|()| None));
            }
            match moved.as_mut().poll(cx).is_ready() || expiry.as_mut().poll(cx).is_ready() {
                true => Poll::Ready(Ok(None)),
                false => Poll::Pending,
            }
        });
        woken.await.map_err(|error| failed(&error))
    }

    async fn answer(&self, task: TaskRecord, key: &str, answer: &Result<String, String>) -> Result<(), Fault> {
        let changed = change(&**self.inquiry.tasks.store(), task, |task| {
            for input in task.inputs.iter_mut().filter(|input| input.key == key && input.answer.is_none()) {
                input.answer = Some(answer.clone());
            }
            set_status(task);
        });
        changed.await.map(drop).map_err(|error| failed(&error))
    }
}

/// The questions of a task that have no answer.
fn open(task: &TaskRecord) -> impl Iterator<Item = &TaskInput> {
    task.inputs.iter().filter(|input| input.answer.is_none())
}

/// The result of a task that has ended.
fn ended(task: &TaskRecord) -> Result<Vec<u8>, Fault> {
    match &task.outcome {
        Some(TaskOutcome::Returned(json)) => Ok(encode::related(json, &task.id)),
        Some(TaskOutcome::Failed(json)) => Err(read_error(json)),
        None => Err(Fault::invalid_params("the task was cancelled, so that it has no result")),
    }
}
