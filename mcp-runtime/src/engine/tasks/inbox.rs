//! The questions and status messages that the function of a task passes to its runner.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, SetOnce, oneshot};

use crate::{
    backend::{InputResponse, TaskInput},
    handler::ask::Question,
};

/// The maximum size of a status message in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// The mailbox between the function of a task and its runner.
#[derive(Debug, Default)]
pub(super) struct TaskInbox {
    contents: Mutex<Contents>,
    /// The signal that the function has asked or withdrawn a question.
    pub(super) questions_changed: Notify,
    /// The signal that the function has set the status message.
    pub(super) message_changed: Notify,
    /// Whether the call has become a task, once that is decided.
    is_task: SetOnce<bool>,
}

#[derive(Debug, Default)]
struct Contents {
    /// The keys of all questions so far, which must not be reused.
    keys: HashSet<String>,
    waiting: HashMap<String, oneshot::Sender<InputResponse>>,
    update: InboxUpdate,
}

/// The changes that a function has made since its runner last took them.
#[derive(Debug, Default)]
pub(super) struct InboxUpdate {
    pub(super) asked: Vec<TaskInput>,
    /// The keys of the questions that were withdrawn.
    pub(super) withdrawn: Vec<String>,
    pub(super) message: Option<String>,
}

impl TaskInbox {
    /// Records that the call has become a task.
    pub(super) fn accept(&self) {
        let _ = self.is_task.set(true);
    }

    /// Records that the call will not become a task.
    pub(super) fn reject(&self) {
        let _ = self.is_task.set(false);
    }

    /// Returns whether the call has become a task.
    pub(super) fn is_task(&self) -> bool {
        self.is_task.get() == Some(&true)
    }

    /// Waits until it is decided whether the call becomes a task.
    pub(super) async fn decided(&self) {
        self.is_task.wait().await;
    }

    /// Takes the changes that were made since this method was last called.
    pub(super) fn take_update(&self) -> InboxUpdate {
        std::mem::take(&mut self.contents().update)
    }

    /// Delivers a response to the function. Does nothing if the question was withdrawn.
    pub(super) fn respond(&self, key: &str, response: InputResponse) {
        if let Some(waiting) = self.contents().waiting.remove(key) {
            let _ = waiting.send(response);
        }
    }

    /// Adds a question. Returns its key, which is unique within the task, and the receiver of the response.
    pub(super) fn ask(&self, question: &Question) -> (String, oneshot::Receiver<InputResponse>) {
        let mut contents = self.contents();
        let key = unused_key(&contents.keys, &question.key);
        contents.keys.insert(key.clone());
        contents.update.asked.push(TaskInput::new(key.clone(), question.method, question.params.clone()));
        let (sender, receiver) = oneshot::channel();
        contents.waiting.insert(key.clone(), sender);
        drop(contents);
        self.questions_changed.notify_one();
        (key, receiver)
    }

    /// Withdraws a question, unless its response has been delivered.
    pub(super) fn withdraw(&self, key: &str) {
        let mut contents = self.contents();
        if contents.waiting.remove(key).is_none() {
            return;
        }
        let unseen = contents.update.asked.iter().position(|input| input.key == key);
        match unseen {
            Some(at) => drop(contents.update.asked.remove(at)),
            None => contents.update.withdrawn.push(key.to_owned()),
        }
        drop(contents);
        self.questions_changed.notify_one();
    }

    /// Sets the status message, which is truncated if it is too long.
    pub(super) fn set_message(&self, message: &str) {
        self.contents().update.message = Some(truncated(message));
        self.message_changed.notify_one();
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `wanted`, with a number appended if the task has used it before.
fn unused_key(keys: &HashSet<String>, wanted: &str) -> String {
    let numbered = (2_u64..).map(|number| format!("{wanted}-{number}"));
    std::iter::once(wanted.to_owned()).chain(numbered).find(|key| !keys.contains(key)).unwrap_or_default()
}

/// Truncates a text to the maximum size of a status message.
pub(super) fn truncated(text: &str) -> String {
    let mut end = text.len().min(MAX_MESSAGE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
