//! A hub of a later version, with switches that this sidecar cannot read.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::goes_to;
use super::stage::HubStage;
use crate::support::{Process, eventually};

type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// A hub as a later version may be, which sends the events of a test.
#[derive(Clone, Default)]
pub(super) struct LaterHub {
    /// The version that each feed was asked from.
    known: Arc<Mutex<Vec<Option<String>>>>,
    /// The last status of the sidecar.
    status: Arc<Mutex<String>>,
    feed: Arc<Mutex<Option<mpsc::Sender<Bytes>>>>,
    /// All that came to its socket, decrypted: heads and bodies.
    received: Arc<Mutex<Vec<String>>>,
    /// The questions about jobs.
    questions: Arc<Mutex<Vec<String>>>,
    /// The answer to a question; none where it is left without one.
    answer: Arc<Mutex<Option<String>>>,
}

impl LaterHub {
    /// Serves at a free port, which becomes that of the stage.
    pub(super) async fn start(stage: &mut HubStage) -> Self {
        let hub = Self::default();
        let certificates = CertificateDer::pem_file_iter(stage.path("hub.cert.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(stage.path("hub.key.pem")).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let certificates = certificates.map(Result::unwrap).collect();
        let mut tls = tls.with_no_client_auth().with_single_cert(certificates, key).unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let (acceptor, listener) = (TlsAcceptor::from(Arc::new(tls)), TcpListener::bind("127.0.0.1:0").await.unwrap());
        stage.listens_at(listener.local_addr().unwrap());
        let serving = hub.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, hub) = (acceptor.clone(), serving.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = hyper::service::service_fn(move |request| {
                        let hub = hub.clone();
                        async move { hub.answer(request).await }
                    });
                    drop(
                        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await,
                    );
                });
            }
        });
        hub
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
        let (head, body) = request.into_parts();
        let body = String::from_utf8(body.collect().await?.to_bytes().to_vec()).unwrap();
        self.received.lock().unwrap().push(format!("{head:?} {body}"));
        if head.uri.path() == "/v1/federation/route" {
            self.questions.lock().unwrap().push(body);
            let answer = self.answer.lock().unwrap().clone();
            return match answer {
                Some(answer) => Ok(Response::new(Full::from(answer).boxed_unsync())),
                None => std::future::pending().await,
            };
        }
        if head.uri.path() == "/v1/hub/status" {
            *self.status.lock().unwrap() = body;
            return Ok(Response::new(Full::default().boxed_unsync()));
        }
        if head.uri.path() != "/v1/hub/feed" {
            let absent = Response::builder().status(404).body(Full::default().boxed_unsync());
            return Ok(absent.unwrap());
        }
        let known = head.headers.get("last-event-id").map(|it| it.to_str().unwrap().to_owned());
        let (sender, receiver) = mpsc::channel(8);
        *self.feed.lock().unwrap() = Some(sender);
        self.known.lock().unwrap().push(known);
        let events = futures_util::stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|event| (Ok(Frame::data(event)), receiver))
        });
        Ok(Response::new(BodyExt::boxed_unsync(StreamBody::new(events))))
    }

    /// Waits until so many feeds were asked for.
    pub(super) async fn asked(&self, times: usize) {
        eventually("the sidecar asks for the feed", async || self.known.lock().unwrap().len() >= times).await;
    }

    /// The questions about jobs that have come.
    pub(super) fn questions(&self) -> Vec<String> {
        self.questions.lock().unwrap().clone()
    }

    /// All that has come to its socket, heads and bodies.
    pub(super) fn received(&self) -> String {
        self.received.lock().unwrap().concat()
    }

    /// Answers questions so from now on.
    pub(super) fn answer_with(&self, answer: &str) {
        *self.answer.lock().unwrap() = Some(answer.to_owned());
    }

    /// Sends this to the feed that was asked for last.
    pub(super) fn say(&self, text: &'static str) {
        self.feed.lock().unwrap().as_ref().unwrap().try_send(text.into()).unwrap();
    }

    /// Sends a state with these switches to the feed that was asked for last.
    fn send(&self, change: u64, switches: &[&str]) {
        let rest = r#""set_ms_ago":0,"ends_in_ms":3600000,"reason":"r","ticket":"t","author":"a""#;
        let all: Vec<String> = switches.iter().map(|it| format!("{{{it},{rest}}}")).collect();
        let data = format!(r#"{{"version":{{"run":"r","change":{change}}},"switches":[{}]}}"#, all.join(","));
        let event = format!("event: switches\nid: r-{change}\ndata: {data}\n\n");
        self.feed.lock().unwrap().as_ref().unwrap().try_send(event.into()).unwrap();
    }
}

#[tokio::test]
async fn switches_that_the_sidecar_cannot_read_are_left_out_and_asked_for_again() {
    let mut stage = HubStage::new("");
    let hub = LaterHub::start(&mut stage).await;
    let one = stage.federation("one", "").await;
    let sidecar = Process::run(&one.config, &["--set", "log.level=info"]).await;
    hub.asked(1).await;
    let drain = r#""switch":"drain","region":"us-east-1""#;
    let later = [drain, r#""switch":"slow_down","region":"eu-west-1""#, r#""switch":"pause","origin":"o""#];
    hub.send(4, &later);
    eventually("the drain is in force", async || goes_to(&sidecar).await != "us-east-1").await;
    let unknown = async || {
        let metrics = sidecar.admin.get("/metrics").await;
        let text = String::from_utf8(metrics.body.to_vec()).unwrap();
        text.lines().find_map(|it| it.strip_prefix("ojs_federation_hub_switches_unknown ")).unwrap().to_owned()
    };
    assert_eq!(unknown().await, "2");
    // The same again is logged no second time.
    hub.send(5, &later);
    hub.send(6, &[r#""switch":"drain","region":"ap-south-1""#, later[1], later[2]]);
    eventually("the next state is in force", async || goes_to(&sidecar).await == "us-east-1").await;
    let lines = || sidecar.log().into_iter().filter(|it| it.contains("hub_switches_unknown")).collect::<Vec<_>>();
    assert!(lines().len() == 1 && lines()[0].contains("count=2") && lines()[0].contains("slow_down"), "{:?}", lines());
    // A feed that ends is asked for from its beginning, because the state was not whole.
    hub.feed.lock().unwrap().take();
    hub.asked(2).await;
    assert_eq!(*hub.known.lock().unwrap(), [None, None]);
    hub.send(7, &[drain]);
    eventually("all is read", async || unknown().await == "0").await;
    eventually("the hub hears of it", async || hub.status.lock().unwrap().contains(r#""change":7"#)).await;
    hub.feed.lock().unwrap().take();
    hub.asked(3).await;
    assert_eq!(hub.known.lock().unwrap()[2].as_deref(), Some("r-7"), "and not from its beginning any more");
}

#[tokio::test]
async fn regions_of_a_later_hub_are_taken_as_far_as_they_can_be_read_and_an_earlier_hub_reads_views_first() {
    let mut stage = HubStage::new("");
    let hub = LaterHub::start(&mut stage).await;
    let keys = "discovery: { hub: true, allow: [\"*\"], identity: \"spiffe://test/{region}\" }\nhealth_check: { source: hub }\n";
    let one = stage.federation("one", keys).await;
    let sidecar = Process::run(&one.config, &["--set", "log.level=info"]).await;
    hub.asked(1).await;
    let head = hub.received();
    assert!(head.contains(r#""ojs-feed": "views", "ojs-feed": "regions""#), "{head}");
    hub.say("event: regions\ndata: [\n\n");
    hub.say(
        "event: regions\ndata: {\"regions\":[{\"id\":\"sa-1\",\"url\":\"https://127.0.0.1:1\",\"later\":[1]},{\"id\":\"sa-2\",\"url\":\"quic://x\"}],\"later\":1}\n\n",
    );
    let state = async || sidecar.admin.get("/state").await.json()["discovery"].clone();
    eventually("the region is known", async || state().await["regions"][0]["id"] == "sa-1").await;
    let turned_away = serde_json::json!([{ "region": "sa-2", "reason": "malformed" }]);
    assert_eq!(state().await["rejected"], turned_away);
    hub.send(4, &[r#""switch":"drain","region":"us-east-1""#]);
    eventually("the feed goes on", async || goes_to(&sidecar).await != "us-east-1").await;
}
