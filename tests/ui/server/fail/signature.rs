#![allow(unused_variables)]

use mcp_runtime::{Server, server};

mod none {
    #[mcp_runtime::server]
    fn main() {}
}

mod reference {
    use super::*;

    #[server]
    async fn main<T>(server: &Server, db: &u8, #[arg(header = "x", complete = y)] t: T) {}
}

mod arguments {
    use super::*;

    #[server]
    fn main(
        #[arg(rename = "x")] server: Server,
        #[arg(env = "")] empty: u8,
        #[arg(env = "A=B")] assigned: u8,
    ) -> Server {
        server
    }
}

mod option {
    use super::*;

    #[server(port = 80)]
    fn main(server: Server) -> Server {
        server
    }
}

mod method {
    struct Notes;

    impl Notes {
        #[mcp_runtime::server]
        fn main(&self) {}
    }
}

fn main() {}
