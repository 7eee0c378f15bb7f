//! A connection for commands, to a server or a cluster.

use redis::{
    Cmd, Pipeline, RedisFuture, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster_async::ClusterConnection,
    cluster_routing::SingleNodeRoutingInfo,
    cmd,
};

/// A connection that carries any number of commands at a time.
#[derive(Clone)]
pub(crate) enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    /// Sends a command to the node that imports its slot from another one.
    pub(crate) async fn ask(&mut self, command: &Cmd, (host, port): (&str, u16)) -> RedisResult<Value> {
        let Self::Cluster(cluster) = self else { return self.req_packed_command(command).await };
        let mut pipeline = Pipeline::new();
        pipeline.add_command(cmd("ASKING")).add_command(command.clone());
        let node = SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port };
        let mut values = cluster.route_pipeline(pipeline, 1, 1, node).await?;
        values.pop().unwrap_or(Value::Nil).extract_error()
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Single(connection) => connection.req_packed_command(command),
            Self::Cluster(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Single(connection) => connection.req_packed_commands(pipeline, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Single(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}
