//! Upgrades in place: the listening sockets belong to who starts the processes, and outlive each of them.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::*;

/// Sockets of a service manager, which hands them to one process after the other.
struct Manager {
    clients: TcpListener,
    admin: TcpListener,
}

impl Manager {
    fn new() -> Self {
        let bind = || TcpListener::bind("127.0.0.1:0").unwrap();
        Self { clients: bind(), admin: bind() }
    }

    /// The configuration that names its sockets.
    fn yaml(&self) -> String {
        let at = |socket: &TcpListener| socket.local_addr().unwrap().to_string();
        format!("{}\nshutdown: {{ drain_idle: 2s, drain_timeout: 1h }}", listen(&at(&self.clients), &at(&self.admin)))
    }

    /// The daemon, with both sockets as descriptors 3 and 4.
    fn command(&self, config: &Path) -> Command {
        let script = r#"exec 3<&0 4<&1 </dev/null >/dev/null; LISTEN_PID=$$ LISTEN_FDS=2 exec "$0" run --config "$1""#;
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(program_path()).arg(config).env_clear();
        let descriptor = |socket: &TcpListener| Stdio::from(OwnedFd::from(socket.try_clone().unwrap()));
        command.stdin(descriptor(&self.clients)).stdout(descriptor(&self.admin)).stderr(Stdio::piped());
        command
    }
}

/// Clients that enqueue one job after the other, each on a connection of its own, until they are told to stop.
struct Crowd {
    enqueued: Arc<AtomicUsize>,
    enough: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Crowd {
    fn of(client: &Client) -> Self {
        let (enqueued, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let tasks = (0..4).map(|_| {
            let (enqueued, enough) = (Arc::clone(&enqueued), Arc::clone(&enough));
            let client = Client::new(client.address());
            tokio::spawn(async move {
                while !enough.load(Relaxed) {
                    assert_eq!(client.enqueue(r#"{"type":"t","args":[]}"#).await.status, 201);
                    enqueued.fetch_add(1, Relaxed);
                }
            })
        });
        Self { tasks: tasks.collect(), enqueued, enough }
    }

    /// Clients that keep their connections, one job behind the other on each, until its answer says that it closes.
    fn kept(client: &Client) -> Self {
        let (enqueued, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let tasks = (0..4).map(|_| {
            let (enqueued, enough) = (Arc::clone(&enqueued), Arc::clone(&enough));
            let client = Client::new(client.address());
            tokio::spawn(async move {
                let body = r#"{"type":"t","args":[]}"#;
                let head =
                    format!("Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
                let mut wire = client.wire().await;
                while !enough.load(Relaxed) {
                    wire.send(format!("POST /ojs/v1/jobs HTTP/1.1\r\n{head}\r\n\r\n{body}")).await;
                    let answer = wire.answer().await;
                    assert_eq!(answer.status, 201, "{answer:?}");
                    enqueued.fetch_add(1, Relaxed);
                    if answer.header("connection") == Some("close") {
                        wire = client.wire().await;
                    }
                }
            })
        });
        Self { tasks: tasks.collect(), enqueued, enough }
    }

    /// Waits until that many more jobs are enqueued.
    async fn goes_on(&self, more: usize) {
        let wanted = self.enqueued.load(Relaxed) + more;
        eventually("jobs are enqueued", async || {
            assert!(!self.tasks.iter().any(tokio::task::JoinHandle::is_finished), "a client was refused");
            self.enqueued.load(Relaxed) >= wanted
        })
        .await;
    }

    /// How many were enqueued in all, once every client has stopped.
    async fn stopped(self) -> usize {
        self.enough.store(true, Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.enqueued.load(Relaxed)
    }
}

#[tokio::test]
async fn clients_wait_for_the_next_process_and_none_is_refused() {
    let (dir, region, manager) = (tempfile::tempdir().unwrap(), region().await, Manager::new());
    let config = config(&dir, &region.url(), &manager.yaml());
    let mut first = Process::spawned(manager.command(&config)).await;
    let crowd = Crowd::of(&first.client);
    crowd.goes_on(50).await;
    first.signal("TERM");
    assert_eq!(first.exit().await.code(), Some(0));
    let mut second = Process::spawned(manager.command(&config)).await;
    crowd.goes_on(50).await;
    let enqueued = crowd.stopped().await;
    second.signal("TERM");
    assert_eq!(second.exit().await.code(), Some(0));
    assert_eq!(region.jobs().len(), enqueued);
}

#[tokio::test]
async fn an_upgrade_in_place_refuses_and_cuts_no_kept_connection() {
    let (dir, region, manager) = (tempfile::tempdir().unwrap(), region().await, Manager::new());
    let config = config(&dir, &region.url(), &manager.yaml());
    let mut first = Process::spawned(manager.command(&config)).await;
    let crowd = Crowd::kept(&first.client);
    crowd.goes_on(50).await;
    let _second = Process::spawned(manager.command(&config)).await;
    first.signal("TERM");
    assert_eq!(first.exit().await.code(), Some(0));
    crowd.goes_on(50).await;
    let enqueued = crowd.stopped().await;
    assert_eq!(region.jobs().len(), enqueued);
}

#[tokio::test]
async fn a_successor_serves_before_its_predecessor_ends() {
    let (dir, region, manager) = (tempfile::tempdir().unwrap(), region().await, Manager::new());
    let config = config(&dir, &region.url(), &manager.yaml());
    let mut first = Process::spawned(manager.command(&config)).await;
    let crowd = Crowd::of(&first.client);
    crowd.goes_on(50).await;
    let _second = Process::spawned(manager.command(&config)).await;
    first.signal("TERM");
    assert_eq!(first.exit().await.code(), Some(0));
    crowd.goes_on(50).await;
    let enqueued = crowd.stopped().await;
    assert_eq!(region.jobs().len(), enqueued);
}

#[tokio::test]
async fn a_socket_that_the_configuration_does_not_name_is_an_error_with_1_that_names_it() {
    let (dir, manager) = (tempfile::tempdir().unwrap(), Manager::new());
    let yaml = listen("127.0.0.1:0", &manager.admin.local_addr().unwrap().to_string());
    let (code, said) = ends(manager.command(&config(&dir, "http://127.0.0.1:1", &yaml))).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&manager.clients.local_addr().unwrap().to_string()) && said.contains("listen"), "{said}");
}
