//! STUB
use crate::{error::Fault, revision::Features};
pub trait Ask: Send + Sync + 'static {
    type Answer: Send + 'static;
    fn question(&self, features: Features) -> Result<Question, Fault>;
    fn read(&self, result: &str) -> Result<Self::Answer, String>;
}
#[derive(Debug, Clone)]
pub struct Question {
    pub(crate) key: String,
    pub(crate) method: &'static str,
    pub(crate) params: String,
    pub(crate) needs: Capability,
}
#[derive(Debug, Clone, Copy)]
pub(crate) enum Capability {
    Elicitation,
}
impl Capability {
    pub(crate) fn is_declared_in(&self, capabilities: &str) -> bool {
        capabilities.contains("elicitation")
    }
    pub(crate) fn required(&self) -> serde_json::Value {
        serde_json::json!({"elicitation":{}})
    }
}
#[derive(Debug, Clone, PartialEq)]
pub enum Answer<T> {
    Accept(T),
    Decline,
    Cancel,
}
pub trait Elicit: Sized + Send + 'static {
    fn schema() -> String;
    fn read(content: &serde_json::Value) -> Option<Self>;
}
pub struct Elicitation<T> {
    key: String,
    message: String,
    form: std::marker::PhantomData<fn() -> T>,
}
impl<T: Elicit> Elicitation<T> {
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), form: std::marker::PhantomData }
    }
}
impl<T: Elicit> Ask for Elicitation<T> {
    type Answer = Answer<T>;
    fn question(&self, _: Features) -> Result<Question, Fault> {
        Ok(Question {
            key: self.key.clone(),
            method: "elicitation/create",
            params: format!(
                r#"{{"message":{},"requestedSchema":{}}}"#,
                serde_json::Value::from(self.message.as_str()),
                T::schema()
            ),
            needs: Capability::Elicitation,
        })
    }
    fn read(&self, result: &str) -> Result<Answer<T>, String> {
        let v: serde_json::Value = serde_json::from_str(result).map_err(|e| e.to_string())?;
        match v["action"].as_str() {
            Some("accept") => T::read(&v["content"]).map(Answer::Accept).ok_or("no".into()),
            Some("decline") => Ok(Answer::Decline),
            Some("cancel") => Ok(Answer::Cancel),
            _ => Err("no action".into()),
        }
    }
}
