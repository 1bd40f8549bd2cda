//! A name server of the test's own: it answers by a table, and lies, fails or falls silent when it is told to.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::rdata::{SRV, TXT};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::net::UdpSocket;

/// The name of the SRV records.
pub const SERVICE: &str = "_ojs._tcp.regions.test";

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// By its table.
    Well,
    /// No records of the kind.
    Empty,
    /// The name does not exist.
    NoName,
    /// It has failed.
    Broken,
    /// Nothing.
    Silent,
}

#[derive(Default)]
struct Table {
    /// Target and port.
    services: Vec<(String, u16)>,
    texts: BTreeMap<String, Vec<String>>,
}

/// The server, running until the test is over.
#[derive(Clone)]
pub struct NameServer {
    pub address: SocketAddr,
    table: Rc<RefCell<Table>>,
    mood: Rc<Cell<Mood>>,
}

impl NameServer {
    pub async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let server =
            Self { address: socket.local_addr().unwrap(), table: Rc::default(), mood: Rc::new(Cell::new(Mood::Well)) };
        let serving = server.clone();
        tokio::task::spawn_local(async move {
            let mut buffer = [0; 4096];
            loop {
                let (bytes, peer) = socket.recv_from(&mut buffer).await.unwrap();
                if let Some(answer) = serving.answer(&buffer[..bytes]) {
                    socket.send_to(&answer, peer).await.unwrap();
                }
            }
        });
        server
    }

    /// Names a region: its SRV record and the texts at its target, such as `region=eu-west-1`.
    pub fn add(&self, host: &str, port: u16, texts: &[&str]) {
        let mut table = self.table.borrow_mut();
        table.services.push((host.to_owned(), port));
        table.texts.insert(host.to_owned(), texts.iter().map(|text| (*text).to_owned()).collect());
    }

    /// Leaves out the records of a target.
    pub fn remove(&self, host: &str) {
        self.table.borrow_mut().services.retain(|(target, _)| target != host);
    }

    pub fn set_mood(&self, mood: Mood) {
        self.mood.set(mood);
    }

    fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        let mut message = Message::from_vec(question).unwrap();
        let asked = message.queries[0].clone();
        let mood = self.mood.get();
        let table = self.table.borrow();
        let own = asked.name().to_ascii().to_ascii_lowercase();
        let own = own.trim_end_matches('.');
        let record = |data: RData| Record::from_rdata(asked.name().clone(), 1, data);
        let answers: Vec<Record> = match asked.query_type() {
            RecordType::SRV if own == SERVICE => {
                let srv = |(host, port): &(String, u16)| SRV::new(0, 0, *port, Name::from_ascii(host).unwrap());
                table.services.iter().map(|service| record(RData::SRV(srv(service)))).collect()
            }
            RecordType::TXT => {
                let texts = table.texts.get(own).cloned().unwrap_or_default();
                texts.into_iter().map(|text| record(RData::TXT(TXT::new(vec![text])))).collect()
            }
            _ => Vec::new(),
        };
        message = message.into_response();
        message.edns = None;
        match mood {
            Mood::Well => message.answers = answers,
            Mood::Empty => {}
            Mood::NoName => message.metadata.response_code = ResponseCode::NXDomain,
            Mood::Broken => message.metadata.response_code = ResponseCode::ServFail,
            Mood::Silent => return None,
        }
        Some(message.to_vec().unwrap())
    }
}
