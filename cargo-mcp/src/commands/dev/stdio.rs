//! The front on stdin and stdout: what the machine in `front` wants done, done.

use std::{
    collections::HashMap,
    io::{BufRead, Write},
    path::PathBuf,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};

use super::{
    Generation, Say, Stops,
    build::News,
    flow::Flow,
    front::{Effect, Event, Front, Settings, Tone},
    process::{Process, Said, command},
};

/// How many lines may wait to be handled.
const LINES: usize = 64;
/// How long the last output may take, and servers to end, before they are killed.
const LAST: Duration = Duration::from_millis(1500);

/// How servers are started.
#[derive(Debug, Clone)]
pub(super) struct Manner {
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
}

struct Stdio {
    front: Front,
    manner: Manner,
    say: Say,
    programs: HashMap<u64, PathBuf>,
    processes: HashMap<Generation, (Process, Flow)>,
    keepers: JoinSet<()>,
    said: mpsc::Sender<Event>,
    timers: mpsc::UnboundedSender<Event>,
    client: std::sync::mpsc::Sender<String>,
    to_client: Flow,
}

/// Serves the client of this process until it goes.
pub(super) async fn serve(
    settings: Settings,
    manner: Manner,
    say: Say,
    mut news: mpsc::UnboundedReceiver<News>,
    mut stops: Stops,
) {
    let (said, mut servers) = mpsc::channel(LINES);
    let (timers, mut times) = mpsc::unbounded_channel();
    let mut lines = read_client();
    let to_client = Flow::default();
    let (client, mut written) = write_client(to_client.clone());
    let mut stdio = Stdio {
        front: Front::new(settings),
        manner,
        say,
        programs: HashMap::new(),
        processes: HashMap::new(),
        keepers: JoinSet::new(),
        said,
        timers,
        client,
        to_client,
    };
    let (mut is_over, mut is_read_no_more) = (false, false);
    while !is_over {
        let is_read = stdio.to_client.is_open();
        let is_taken = stdio.processes.values().all(|(_, flow)| flow.is_open());
        let event = tokio::select! {
            biased;
            () = stops.next() => Event::Interrupted,
            _ = &mut written => {
                is_read_no_more = true;
                Event::Interrupted
            }
            Some(event) = times.recv() => event,
            Some(news) = news.recv() => stdio.learn(news),
            Some(event) = servers.recv(), if is_read => event,
            Some(event) = lines.recv(), if is_taken && is_read => event,
            () = stdio.to_client.room(), if !is_taken || !is_read => continue,
            Some(_) = stdio.keepers.join_next() => continue,
        };
        is_over = stdio.handle(event);
    }
    stdio.end((!is_read_no_more).then_some(written)).await;
}

impl Stdio {
    fn learn(&mut self, news: News) -> Event {
        match news {
            News::Built { number, program } => {
                self.programs.insert(number, program);
                Event::Built(number)
            }
            News::Failed(first) => Event::BuildFailed(first),
        }
    }

    /// Does what an event makes necessary; says whether that is the end.
    fn handle(&mut self, event: Event) -> bool {
        let mut is_over = false;
        for effect in self.front.handle(event) {
            match effect {
                Effect::ToClient(line) => {
                    self.to_client.gave(line.len());
                    let _ = self.client.send(line);
                }
                Effect::ToServer(server, line) => {
                    if let Some((process, flow)) = self.processes.get(&server) {
                        flow.gave(line.len());
                        process.send(line);
                    }
                }
                Effect::Start(server, build) => self.start(server, build),
                Effect::CloseInput(server) => {
                    if let Some((process, _)) = self.processes.get_mut(&server) {
                        process.close_input();
                    }
                }
                Effect::Stop(server) => {
                    if let Some((process, _)) = self.processes.remove(&server) {
                        process.stop();
                    }
                }
                Effect::Timer(delay, timer) => {
                    let timers = self.timers.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(delay).await;
                        let _ = timers.send(Event::Timer(timer));
                    });
                }
                Effect::TookOver(..) => {}
                Effect::Say(Tone::Info, text) => self.say.info(text),
                Effect::Say(Tone::Warning, text) => self.say.warn(text),
                Effect::End => is_over = true,
            }
        }
        self.forget();
        is_over
    }

    fn start(&mut self, server: Generation, build: u64) {
        let Some(program) = self.programs.get(&build) else { return };
        let command = command(program, &self.manner.args, &self.manner.env);
        let flow = self.to_client.another();
        let wrap = move |said| match said {
            Said::Line(line) => Event::Server(server, line),
            Said::Gone(how) => Event::Gone(server, how),
        };
        match Process::start(command, flow.clone(), self.said.clone(), wrap) {
            Ok((process, keeper)) => {
                self.processes.insert(server, (process, flow));
                self.keepers.spawn(keeper);
            }
            Err(error) => {
                let _ = self.timers.send(Event::Gone(server, format!("it cannot be started: {error}")));
            }
        }
    }

    /// Removes programs that are not started any more.
    fn forget(&mut self) {
        let front = &self.front;
        for (_, program) in self.programs.extract_if(|build, _| !front.keeps(*build)) {
            // One that runs may have to stay, which the end of the directory mends.
            let _ = std::fs::remove_file(program);
        }
    }

    /// Writes what is left, and ends every server.
    async fn end(mut self, written: Option<oneshot::Receiver<()>>) {
        for (_, (process, _)) in self.processes.drain() {
            process.stop();
        }
        drop(self.client);
        let keepers = async { while self.keepers.join_next().await.is_some() {} };
        let written = async {
            if let Some(written) = written {
                let _ = written.await;
            }
        };
        let _ = tokio::join!(timeout(LAST, written), timeout(LAST, keepers));
        // Whoever is still there is killed with the future that keeps it.
        self.keepers.shutdown().await;
    }
}

/// Reads stdin. A thread of its own does, since it cannot be interrupted, and must not hold up the end.
fn read_client() -> mpsc::Receiver<Event> {
    let (lines, receiver) = mpsc::channel(LINES);
    let read = move || {
        let mut stdin = std::io::stdin().lock();
        let mut line = Vec::new();
        while stdin.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).into_owned();
            if lines.blocking_send(Event::Client(text)).is_err() {
                return;
            }
            line.clear();
        }
        let _ = lines.blocking_send(Event::ClientGone);
    };
    std::thread::spawn(read);
    receiver
}

/// Writes stdout; says when that is over: nothing more comes, or nobody reads.
fn write_client(flow: Flow) -> (std::sync::mpsc::Sender<String>, oneshot::Receiver<()>) {
    let (sender, lines) = std::sync::mpsc::channel::<String>();
    let (over, written) = oneshot::channel();
    let write = move || {
        let mut stdout = std::io::stdout().lock();
        for mut line in lines {
            let length = line.len();
            line.push('\n');
            if stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).is_err() {
                break;
            }
            flow.took(length);
        }
        let _ = over.send(());
    };
    std::thread::spawn(write);
    (sender, written)
}
