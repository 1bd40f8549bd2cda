//! A real browser with a page of another origin: what the page tries reaches no region.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::arrived;
use crate::support::{Setup, eventually};

const CHROMIUM: &str = "/usr/bin/chromium";

/// Without a sandbox, because tests may run as root; without anything that calls home.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// Tries everything that a page can make a browser send, then says what came of it at `/done`.
const PAGE: &str = r#"<!doctype html><body><iframe name="sink"></iframe><script>
const sidecar = "http://SIDECAR", admin = "http://ADMIN", job = JSON.stringify({type: "wipe", args: ["evil"]});
const tries = {
  simple: () => fetch(sidecar + "/ojs/v1/jobs", {method: "POST", mode: "no-cors", headers: {"content-type": "text/plain"}, body: job}),
  typed: () => fetch(sidecar + "/ojs/v1/jobs", {method: "POST", headers: {"content-type": "application/json"}, body: job}),
  remove: () => fetch(sidecar + "/ojs/v1/jobs/a", {method: "DELETE"}),
  read: async () => (await fetch(sidecar + "/ojs/v1/queues")).text(),
  beacon: () => navigator.sendBeacon(sidecar + "/ojs/v1/jobs/batch", job),
  image: () => new Promise(done => { const it = new Image(); it.onload = it.onerror = done; it.src = sidecar + "/ojs/v1/queues"; }),
  form: () => new Promise(done => {
    const form = document.createElement("form");
    [form.action, form.method, form.enctype, form.target] = [sidecar + "/ojs/v1/queues/default/purge", "post", "text/plain", "sink"];
    document.querySelector("iframe").onload = done;
    document.body.append(form);
    form.submit();
  }),
  socket: () => new Promise((done, fail) => {
    const it = new WebSocket("ws://SIDECAR/ojs/v1/ws");
    it.onopen = done;
    it.onerror = fail;
  }),
  metrics: async () => (await fetch(admin + "/metrics")).text(),
};
(async () => {
  const came = [];
  for (const name in tries) {
    try { await tries[name](); came.push(name + "=passed"); } catch { came.push(name + "=failed"); }
  }
  await fetch("/done?" + came.join("&"));
})();
</script>"#;

/// Ends the browser with the test.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves the page to everyone; what is asked for is noted.
async fn serve(listener: TcpListener, page: String, asked: Arc<Mutex<Vec<String>>>) {
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        let (page, asked) = (page.clone(), Arc::clone(&asked));
        tokio::spawn(async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") && socket.read_buf(&mut head).await.is_ok_and(|read| read > 0) {}
            let head = String::from_utf8_lossy(&head).into_owned();
            asked.lock().unwrap().push(head.split(' ').nth(1).unwrap_or_default().to_owned());
            let length = page.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{page}"
            );
            let _ = socket.write_all(answer.as_bytes()).await;
        });
    }
}

#[tokio::test]
async fn nothing_that_a_foreign_page_in_chromium_tries_reaches_a_region() {
    if !Path::new(CHROMIUM).exists() {
        // Written past the harness, which hides what a passed test prints.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED: /usr/bin/chromium is missing; apt-get install chromium runs the test of a foreign web page\n",
        );
        return;
    }
    // A page of another port of this machine is a page of another origin, and yet of the same site, so that browsers hold least back.
    // The sidecar that lets it in shows that the page does what it says.
    for (allowed, expected) in [(false, "failed"), (true, "passed")] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let origins =
            if allowed { format!("allowed_origins: [\"{origin}\"]") } else { "allowed_origins: []".to_owned() };
        let federation = Setup::default().listen(&origins).start().await;
        let page = PAGE.replace("SIDECAR", &federation.address().to_string());
        let page = page.replace("ADMIN", &federation.admin.address().to_string());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let server = tokio::spawn(serve(listener, page, Arc::clone(&asked)));
        let profile = tempfile::tempdir().unwrap();
        let data = format!("--user-data-dir={}", profile.path().display());
        let browser = Command::new(CHROMIUM)
            .args(FLAGS)
            .args([&data, &origin])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let _browser = Browser(browser);
        let done = || asked.lock().unwrap().iter().find(|path| path.starts_with("/done")).cloned();
        eventually("the page has tried everything", async || done().is_some()).await;
        server.abort();
        let done = done().unwrap();
        for name in ["typed", "remove", "read", "metrics"] {
            assert!(done.contains(&format!("{name}={expected}")), "{done}");
        }
        let arrived = arrived(&federation);
        if allowed {
            let jobs = arrived.iter().filter(|path| *path == "/ojs/v1/jobs").count();
            assert_eq!(jobs, 2, "{arrived:?}");
            for path in ["/ojs/v1/jobs/a", "/ojs/v1/queues", "/ojs/v1/queues/default/purge", "/ojs/v1/ws"] {
                assert!(arrived.iter().any(|it| it.starts_with(path)), "{path}: {arrived:?}");
            }
        } else {
            assert!(done.contains("socket=failed"), "{done}");
            assert_eq!(arrived, [""; 0]);
        }
    }
}
